package arch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/drivers"
)

// otherFacts are the facts that no driver records: facts of the agent and its host, and what operators request.
var otherFacts = []string{
	"AgentStarted", "AgentStopped", "JournalDamaged", "Quarantined", "QuarantineLifted",
	"RestartRequested", "DrainRequested", "UncordonRequested", "OperatorPullRequested", "ImageRemovalRequested",
}

func TestDriversTableFollowsTheCode(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| driver | at a start | sees records | runs | records |\n|---|---|---|---|---|\n")
	mark := func(has bool, word string) string {
		if has {
			return word
		}
		return ""
	}
	for _, p := range drivers.Places {
		name := p.Name
		if p.Optional {
			name += " (optional)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, mark(p.Recovers, "takes its state"), mark(p.Stores, "yes"),
			mark(p.Runs, "yes"), strings.Join(p.Facts, ", "))
	}
	b.WriteString("\n")
	keepTable(t, "drivers", "DriversTable", b.String())
}

// TestEachFactHasADriver: an event that no actor decides is recorded by a driver that says so, or is one of the others.
func TestEachFactHasADriver(t *testing.T) {
	decided := map[string]bool{}
	for _, d := range deciders {
		for _, name := range decisionsOf(t, d.packageName, nil) {
			decided[name] = true
		}
	}
	recorded := slices.Clone(otherFacts)
	for _, p := range drivers.Places {
		recorded = append(recorded, p.Facts...)
	}
	kinds := (&journaletv1.Event{}).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
	for i := range kinds.Len() {
		name := string(kinds.Get(i).Message().Name())
		if !decided[name] && !slices.Contains(recorded, name) {
			t.Errorf("%s: no actor decides it and no driver records it; add it to its driver's place", name)
		}
		recorded = slices.DeleteFunc(recorded, func(r string) bool { return r == name })
	}
	for _, name := range recorded {
		t.Errorf("a driver records %s, which is no kind of event", name)
	}
}
