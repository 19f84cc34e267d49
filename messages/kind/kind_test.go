package kind

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// all returns an empty event of each kind of the contract, by name.
func all() map[string]*journaletv1.Event {
	out := map[string]*journaletv1.Event{}
	fields := (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		e := &journaletv1.Event{}
		e.ProtoReflect().Mutable(fields.Get(i))
		out[string(fields.Get(i).Name())] = e
	}
	return out
}

func TestEveryKindSaysWhatItIs(t *testing.T) {
	words := []string{"agent", "source", "admission", "status", "container", "call", "image", "volume", "probe", "resize",
		"timer"}
	for name, e := range all() {
		k := Named(name)
		if k.Severity == Unknown || !slices.Contains(words, k.Category) {
			t.Errorf("%s has the category %q and the severity %s in the contract: it needs both", name, k.Category, k.Severity)
		}
		if k.UpTo != Unknown && k.UpTo <= k.Severity {
			t.Errorf("%s matters at most as %s, at least as %s", name, k.UpTo, k.Severity)
		}
		switch decides := byContent(e) != Unknown; {
		case k.UpTo != Unknown && !decides:
			t.Errorf("%s has up_to in the contract and no case in byContent", name)
		case k.UpTo == Unknown && decides:
			t.Errorf("%s has a case in byContent and no up_to in the contract", name)
		}
		if got := Category(e); got != k.Category {
			t.Errorf("the event %s is about %q, its kind about %q", name, got, k.Category)
		}
		if k.UpTo == Unknown && Severity(e) != k.Severity {
			t.Errorf("the event %s matters as %s, its kind as %s", name, Severity(e), k.Severity)
		}
	}
}

// example is an event whose content decides.
type example struct {
	event proto.Message
	want  journaletv1.Severity
}

func TestContentDecidesWhereTheContractSaysSo(t *testing.T) {
	reached := map[string][]journaletv1.Severity{}
	for _, x := range slices.Concat(examplesOfNode(), examplesOfPods()) {
		e := messages.NewEvent(x.event)
		name := messages.EventName(e)
		if got := Severity(e); got != x.want {
			t.Errorf("%s %v matters as %s, want %s", name, x.event, got, x.want)
		}
		if Alerts(e) != (x.want >= Warning) {
			t.Errorf("%s %v: an alert is %t", name, x.event, Alerts(e))
		}
		reached[name] = append(reached[name], Severity(e))
	}
	for name := range all() {
		k := Named(name)
		if k.UpTo == Unknown {
			continue
		}
		if len(reached[name]) == 0 {
			t.Errorf("no example shows what the content of %s decides", name)
			continue
		}
		if least, most := slices.Min(reached[name]), slices.Max(reached[name]); least != k.Severity || most != k.UpTo {
			t.Errorf("%s matters from %s to %s in the examples, from %s to %s in the contract", name, least, most, k.Severity,
				k.UpTo)
		}
	}
}

func TestOnlyAFailureIsAFailedCall(t *testing.T) {
	none := []string{"CALL_ERROR_UNSPECIFIED", "CALL_ERROR_WITHDRAWN", "CALL_ERROR_NOT_DONE",
		"CALL_ERROR_IMAGE_NOT_PRESENT"}
	for number, name := range journaletv1.CallError_name {
		if got, want := Failed(journaletv1.CallError(number)), !slices.Contains(none, name); got != want {
			t.Errorf("a call that ended with %s has failed: %t, want %t", name, got, want)
		}
	}
}

func TestNewerVersionsSayNothing(t *testing.T) {
	for _, e := range []*journaletv1.Event{nil, {}} {
		if s, c := Severity(e), Category(e); s != Unknown || c != "status" || Alerts(e) {
			t.Errorf("an event of a newer version matters as %s and is about %s", s, c)
		}
	}
	if k := Named("of_a_newer_version"); k != (Kind{}) {
		t.Errorf("a name that is no event's is of the kind %v", k)
	}
	if w := Word(journaletv1.Severity(99)); w != "" {
		t.Errorf("a severity of a newer version is called %q", w)
	}
}

// TestOnlyEventsSayWhatTheyAre finds the options at a field where nothing reads them.
func TestOnlyEventsSayWhatTheyAre(t *testing.T) {
	events := (&journaletv1.Event{}).ProtoReflect().Descriptor()
	for name, e := range all() {
		message := events.Fields().ByName(protoreflect.Name(name)).Message()
		for i := range message.Fields().Len() {
			for _, x := range []protoreflect.ExtensionType{journaletv1.E_Category, journaletv1.E_Severity, journaletv1.E_UpTo} {
				if fd := message.Fields().Get(i); proto.HasExtension(fd.Options(), x) {
					t.Errorf("%s has the option %s, which is for fields of %T", fd.FullName(), x.TypeDescriptor().Name(), e)
				}
			}
		}
	}
}

var sink journaletv1.Severity

func BenchmarkSeverity(b *testing.B) {
	for _, x := range []struct {
		name  string
		event proto.Message
	}{
		{"by kind", &journaletv1.TimerSet{}},
		{"by content", &journaletv1.CallFinished{}},
		{"last case", &journaletv1.PodTerminating{}},
		{"observation", &journaletv1.PodObserved{Containers: []*journaletv1.ContainerObservation{{Name: "a"}, {Name: "b"}}}},
	} {
		e := messages.NewEvent(x.event)
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = Severity(e)
			}
		})
	}
}
