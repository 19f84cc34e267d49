package clean

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages/journaletv1"
)

// recordedByTheHost are decisions that the host of the actors records as facts, about pods in quarantine.
var recordedByTheHost = []string{"pod_terminated", "pod_finished"}

// kinds returns the events that are facts, as the contract groups them.
func kinds(t testing.TB) []protoreflect.FieldDescriptor {
	t.Helper()
	b, err := os.ReadFile("../../proto/journalet/v1/event.proto")
	if err != nil {
		t.Fatal(err)
	}
	_, group, ok := strings.Cut(string(b), "// Facts.\n")
	group, _, more := strings.Cut(group, "// Decisions of")
	if !ok || !more {
		t.Fatal("event.proto has no group \"Facts.\" before those of decisions")
	}
	names := recordedByTheHost
	for _, m := range regexp.MustCompile(`(?m)^    \w+ (\w+) = \d+`).FindAllStringSubmatch(group, -1) {
		names = append(names, m[1])
	}
	var out []protoreflect.FieldDescriptor
	for _, name := range names {
		fd := (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			t.Fatalf("event.proto has %s, which is no event", name)
		}
		out = append(out, fd)
	}
	return out
}

// stringsOf passes every field of facts that holds a string, bytes, or a map, by name.
func stringsOf(t testing.TB, f func(name string, fd protoreflect.FieldDescriptor)) {
	t.Helper()
	seen := map[protoreflect.FullName]bool{}
	var walk func(md protoreflect.MessageDescriptor)
	walk = func(md protoreflect.MessageDescriptor) {
		if seen[md.FullName()] {
			return
		}
		seen[md.FullName()] = true
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			value := fd
			if fd.IsMap() {
				value = fd.MapValue()
			}
			if value.Message() != nil {
				walk(value.Message())
			}
			if k := value.Kind(); k == protoreflect.StringKind || k == protoreflect.BytesKind || fd.IsMap() {
				f(Name(fd), fd)
			}
		}
	}
	for _, kind := range kinds(t) {
		walk(kind.Message())
	}
}

func TestEachStringOfAFactHasAClass(t *testing.T) {
	declared := map[string]class{}
	for class, names := range fields {
		for _, name := range names {
			if _, twice := declared[name]; twice {
				t.Errorf("%s has two classes", name)
			}
			declared[name] = class
		}
	}
	there := map[string]bool{}
	stringsOf(t, func(name string, fd protoreflect.FieldDescriptor) {
		there[name] = true
		value := fd
		if fd.IsMap() {
			value = fd.MapValue()
		}
		switch _, ok := declared[name]; {
		case value.Kind() == protoreflect.BytesKind:
			t.Errorf("%s are bytes, which no class is for: bound them here", name)
		case fd.IsMap() && fd.MapKey().Kind() != protoreflect.StringKind:
		case !ok:
			t.Errorf("%s has no class in fields.go: say what may be in it", name)
		}
	})
	for name := range declared {
		if !there[name] {
			t.Errorf("fields.go has %s, which is no string of a fact", name)
		}
	}
	for name, most := range bounds {
		if class, ok := declared[name]; !ok || most == class.most() {
			t.Errorf("fields.go bounds %s, which has no class, or the same bound", name)
		}
	}
}

// filled returns a fact with two entries in each list and map, but for lists in lists of lists, and next's strings.
func filled(kind protoreflect.FieldDescriptor, next func(fd protoreflect.FieldDescriptor) string) *journaletv1.Event {
	e := new(journaletv1.Event)
	fill(e.ProtoReflect().Mutable(kind).Message(), next, 2)
	return e
}

func fill(m protoreflect.Message, next func(fd protoreflect.FieldDescriptor) string, entries int) {
	text := func(fd protoreflect.FieldDescriptor) protoreflect.Value { return protoreflect.ValueOfString(next(fd)) }
	for i := range m.Descriptor().Fields().Len() {
		switch fd := m.Descriptor().Fields().Get(i); {
		case fd.IsMap() && fd.MapKey().Kind() == protoreflect.StringKind:
			for range max(1, entries) {
				v := m.Mutable(fd).Map().NewValue()
				if fd.MapValue().Message() != nil {
					fill(v.Message(), next, entries-1)
				} else {
					v = text(fd)
				}
				m.Mutable(fd).Map().Set(text(fd).MapKey(), v)
			}
		case fd.IsList() && fd.Message() != nil:
			for range max(1, entries) {
				fill(m.Mutable(fd).List().AppendMutable().Message(), next, entries-1)
			}
		case fd.IsList() && fd.Kind() == protoreflect.StringKind:
			m.Mutable(fd).List().Append(text(fd))
			m.Mutable(fd).List().Append(text(fd))
		case fd.IsMap() || fd.IsList():
		case fd.Message() != nil:
			fill(m.Mutable(fd).Message(), next, entries)
		case fd.Kind() == protoreflect.StringKind:
			m.Set(fd, text(fd))
		}
	}
}

// A plan that leaves out a field would leave it unchecked, whatever its class.
func TestEachStringOfAFactIsSeen(t *testing.T) {
	for _, kind := range kinds(t) {
		n := 0
		filled(kind, func(protoreflect.FieldDescriptor) string { n++; return "fine" })
		for bad := range n {
			at, where := 0, ""
			e := filled(kind, func(fd protoreflect.FieldDescriptor) string {
				if at++; at == bad+1 {
					where = Name(fd)
					return "not\xffUTF-8"
				}
				return "fine" + string(rune('a'+at%26)) + string(rune('a'+at/26%26))
			})
			c := Fact(e)
			if c == e {
				t.Errorf("%s: %s is not seen", kind.Name(), where)
				continue
			}
			if _, err := proto.Marshal(c); err != nil {
				t.Errorf("%s: %s is not changed: %v", kind.Name(), where, err)
			}
		}
	}
}
