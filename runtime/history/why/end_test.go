package why

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// TestEveryFactOfTheContractEndsAChain finds a fact that was added to the contract and not to outside: a chain of
// causes would end there as at an event of a newer version.
func TestEveryFactOfTheContractEndsAChain(t *testing.T) {
	b, err := os.ReadFile("../../../proto/journalet/v1/event.proto")
	must.OK(t, err)
	_, group, _ := strings.Cut(string(b), "// Facts.\n")
	group, _, _ = strings.Cut(group, "// Decisions of")
	lines := regexp.MustCompile(`(?m)^    \w+ (\w+) = \d+`).FindAllStringSubmatch(group, -1)
	if len(lines) == 0 {
		t.Fatal("event.proto has no facts")
	}
	// What these show, or are the outcome of, is looked for.
	led := map[string]bool{"pod_observed": true, "call_finished": true, "timer_fired": true}
	for _, m := range lines {
		e := &journaletv1.Event{}
		r := e.ProtoReflect()
		r.Mutable(r.Descriptor().Fields().ByName(protoreflect.Name(m[1])))
		if end := new(explainer).outside(Event{Seq: 1, Body: e}); (end == nil) != led[m[1]] {
			t.Errorf("a chain that comes to %s ends with %+v", m[1], end)
		}
	}
}
