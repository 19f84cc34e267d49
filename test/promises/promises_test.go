package promises

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func TestALineThatIsGoneBreaksAPromise(t *testing.T) {
	got := Missing("flag a\nflag b\n", []string{"flag b", "flag c"})
	if want := []string{"flag a"}; !slices.Equal(got, want) {
		t.Errorf("missing: %q, want %q", got, want)
	}
}

func TestTableReadsTheNamedTablesOnly(t *testing.T) {
	page := "| metric | type |\n|---|---|\n| `a` | gauge |\n\ntext\n\n| other | type |\n|---|---|\n| b | c |\n"
	if got, want := Table(page, "metric", 2), []string{"`a` | gauge"}; !slices.Equal(got, want) {
		t.Errorf("rows: %q, want %q", got, want)
	}
}

// TestMetricsAreKept reads the page: a test holds each of its tables to the code.
func TestMetricsAreKept(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(Root(t), "docs/METRICS.md"))
	must.OK(t, err)
	Keep(t, "metrics", Table(string(b), "metric", 3))
}

// TestEventsAreKept lists events with the fields of their JSON. What their numbers and types are is compared by
// `make proto`.
func TestEventsAreKept(t *testing.T) {
	var lines []string
	event := new(journaletv1.Event).ProtoReflect().Descriptor()
	for i := range event.Fields().Len() {
		kind := event.Fields().Get(i)
		lines = append(lines, string("event "+kind.Name()))
		if kind.Message() == nil {
			continue
		}
		for j := range kind.Message().Fields().Len() {
			f := kind.Message().Fields().Get(j)
			lines = append(lines, strings.Join([]string{"event", string(kind.Name()), string(f.Name()), typeOf(f)}, " "))
		}
	}
	Keep(t, "events", lines)
}

func typeOf(f protoreflect.FieldDescriptor) string {
	name := f.Kind().String()
	switch {
	case f.Message() != nil:
		name = string(f.Message().Name())
	case f.Enum() != nil:
		name = string(f.Enum().Name())
	}
	if f.IsList() {
		name = "[]" + name
	}
	return name
}
