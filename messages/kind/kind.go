package kind

import (
	"reflect"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Severities, from the least.
const (
	// Unknown is the severity of an event of a newer version.
	Unknown  = journaletv1.Severity_SEVERITY_UNSPECIFIED
	Trace    = journaletv1.Severity_SEVERITY_TRACE
	Info     = journaletv1.Severity_SEVERITY_INFO
	Progress = journaletv1.Severity_SEVERITY_PROGRESS
	Warning  = journaletv1.Severity_SEVERITY_WARNING
	Failure  = journaletv1.Severity_SEVERITY_FAILURE
)

// Kind is what the contract says about a kind of event.
type Kind struct {
	// Category is a word in lower case, such as admission.
	Category string
	// Severity is how much each of its events matters; with UpTo how much it matters at least.
	Severity journaletv1.Severity
	// UpTo is how much one of its events matters at most, if the content decides; otherwise Unknown.
	UpTo journaletv1.Severity
}

// Category returns what an event is about, as a word in lower case. What a newer version records is about a pod's
// status.
func Category(e *journaletv1.Event) string {
	if k := kindOf(e); k.Category != "" {
		return k.Category
	}
	return Word(journaletv1.Category_CATEGORY_STATUS)
}

// Severity returns how much an event matters: Unknown for one of a newer version, and for nil.
func Severity(e *journaletv1.Event) journaletv1.Severity {
	k := kindOf(e)
	if k.UpTo != Unknown {
		return byContent(e)
	}
	return k.Severity
}

// Alerts reports whether an event by itself needs attention: it is a warning or a failure.
func Alerts(e *journaletv1.Event) bool { return Severity(e) >= Warning }

// Named returns the kind of event with a name of the contract, such as timer_set; of another name one without a
// category, and with the severity Unknown.
func Named(name string) Kind { return contract().byName[name] }

// Word returns a category or a severity in lower case, without the name of its enum: "admission", "warning".
func Word(value protoreflect.Enum) string {
	d := value.Descriptor()
	v := d.Values().ByNumber(value.Number())
	if v == nil {
		return "" // of a newer version
	}
	_, word, _ := strings.Cut(string(v.Name()), "_")
	return strings.ToLower(word)
}

// kindOf returns the kind of an event.
func kindOf(e *journaletv1.Event) Kind {
	if e.GetKind() == nil {
		return Kind{}
	}
	return contract().byType[reflect.TypeOf(e.GetKind())]
}

// kinds has the kinds of the contract. An event's kind is found by its Go type: Event has no number to look up, and to
// ask its descriptor takes some six times as long.
type kinds struct {
	byType map[reflect.Type]Kind
	byName map[string]Kind
}

// contract reads the contract when it is first needed: most commands print no event, and need not decode it.
var contract = sync.OnceValue(func() kinds {
	fields := (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()
	all := kinds{map[reflect.Type]Kind{}, map[string]Kind{}}
	for i := range fields.Len() {
		fd := fields.Get(i)
		e := &journaletv1.Event{}
		e.ProtoReflect().Mutable(fd)
		k := Kind{
			Category: Word(proto.GetExtension(fd.Options(), journaletv1.E_Category).(journaletv1.Category)),
			Severity: proto.GetExtension(fd.Options(), journaletv1.E_Severity).(journaletv1.Severity),
			UpTo:     proto.GetExtension(fd.Options(), journaletv1.E_UpTo).(journaletv1.Severity),
		}
		all.byType[reflect.TypeOf(e.GetKind())], all.byName[string(fd.Name())] = k, k
	}
	return all
})
