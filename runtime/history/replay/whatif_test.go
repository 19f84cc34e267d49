package replay

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
)

func TestSameConfigurationChangesNothing(t *testing.T) {
	for _, src := range []*history.Memory{simulated(), busy()} { // the busy node forgets pods and adds them again
		f, err := WhatIf(t.Context(), src, func(*journaletv1.AgentConfig) {}, Options{})
		must.OK(t, err)
		if f.Steps == 0 || f.Differing > 0 || len(f.Changes)+len(f.Kinds)+len(f.Config) > 0 {
			t.Errorf("%+v", f)
		}
	}
}

func TestFewerPodsAreAdmittedWithALowerLimit(t *testing.T) {
	src := simulated()
	f, err := WhatIf(t.Context(), src, func(c *journaletv1.AgentConfig) { c.MaxPods = 1 }, Options{})
	must.OK(t, err)
	var first uint64 // the second pod to be admitted
	admitted := 0
	for _, rec := range src.Records {
		for _, e := range rec.GetStep().GetDecisions() {
			if d := e.GetAdmissionDecided(); d.GetAdmitted() && first == 0 {
				if admitted++; admitted == 2 {
					first = rec.GetSeq()
				}
			}
		}
	}
	if len(f.Changes) == 0 || f.Changes[0].Seq != first || f.Changes[0].Actor != messages.Node.String() {
		t.Fatalf("the first change: %+v, want record %d", f.Changes, first)
	}
	if len(f.Config) != 1 || f.Config[0].Path != "max_pods" || f.Config[0].To != "1" {
		t.Errorf("configuration: %v", f.Config)
	}
	if f.Actors != 1 || f.Differing == 0 || f.Changes[0].Later != f.Differing-1 {
		t.Errorf("%d actors, %d records: %+v", f.Actors, f.Differing, f.Changes)
	}
}

func TestConfigurationIsChangedInSnapshotsToo(t *testing.T) {
	whole := busy()
	barriers, err := whole.Snapshots(t.Context())
	must.OK(t, err)
	cut := *whole
	cut.Records = whole.Records[barriers[0]-100:]
	for name, change := range map[string]func(*journaletv1.AgentConfig){
		"back_off_started":  func(c *journaletv1.AgentConfig) { c.MaxContainerBackOff = durationpb.New(time.Second) },
		"call_dispatched":   func(c *journaletv1.AgentConfig) { c.StartConcurrency, c.StopConcurrency = 1, 1 },
		"admission_decided": func(c *journaletv1.AgentConfig) { c.MaxPods = 1 },
	} {
		f, err := WhatIf(t.Context(), &cut, change, Options{})
		must.OK(t, err)
		found := false
		for _, k := range f.Kinds {
			found = found || k.Event == name && k.Dropped+k.Changed > 0
		}
		if !found {
			t.Errorf("%s does not change: %+v", name, f.Kinds)
		}
	}
}
