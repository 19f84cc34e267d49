package drivers

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// model is a driver with all hooks, which notes what is called.
type model struct {
	name  string
	calls *[]string
}

func (m model) Name() string               { return m.name }
func (m model) Recover(fold.Recovered)     { *m.calls = append(*m.calls, "recover "+m.name) }
func (m model) Stored(*journaletv1.Record) { *m.calls = append(*m.calls, "stored "+m.name) }
func (m model) Run(context.Context) error  { *m.calls = append(*m.calls, "run "+m.name); return nil }

// TestDriversFollowTheOrderOfPlaces: in whichever order they are given.
func TestDriversFollowTheOrderOfPlaces(t *testing.T) {
	var calls []string
	l := Simulated(model{"pleg", &calls}, Only("retention", nil), model{"probes", &calls}, model{"events", &calls})
	l.Recover(nil)
	l.Stored(nil)
	for _, r := range l.Runs() {
		if r.Name != "retention" {
			_ = r.Run(t.Context())
		}
	}
	want := []string{"recover probes", "recover events", "recover pleg", "stored probes", "stored events", "stored pleg",
		"run probes", "run events", "run pleg"}
	if !slices.Equal(calls, want) {
		t.Errorf("called %q, want %q", calls, want)
	}
}

func TestListThatIsNotWhatPlacesSayPanics(t *testing.T) {
	var calls []string
	probes := model{"probes", &calls}
	for _, c := range []struct {
		name string
		list func() *List
		says string
	}{
		{"no place", func() *List { return Simulated(model{"prober", &calls}) }, `"prober" has no place`},
		{"two", func() *List { return Simulated(probes, probes) }, `two drivers are "probes"`},
		{"a hook is missing", func() *List { return Simulated(Only("probes", nil)) }, `the model of "probes"`},
		{"one hook too many", func() *List { return Simulated(model{"oom", &calls}) }, `the model of "oom"`},
		{"a driver is missing", func() *List { return New(probes) }, `there is no "timers"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, c.says) {
					t.Errorf("said %q, want %q", said, c.says)
				}
			}()
			c.list()
		})
	}
}
