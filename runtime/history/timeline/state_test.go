package timeline_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/timeline"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/recording"
)

// TestPicturesEndInTheStatesOfThePods holds the newest states of pictures to what the pods' actors hold at that record:
// of each pod its phase, and of each container whether it runs.
func TestPicturesEndInTheStatesOfThePods(t *testing.T) {
	compared := 0
	for _, seed := range []int{59, 112, 160, 203, 217, 237} {
		m := recorded(t, seed)
		for to := 40; to <= len(m.Records); to += max(15, len(m.Records)/25) {
			f := folded(t, m, seed, to)
			picture, err := timeline.Read(t.Context(), m, timeline.Options{To: uint64(to)})
			must.OK(t, err)
			for _, g := range picture.Groups[1:] {
				d, err := f.Decider(messages.Pod(g.UID))
				must.OK(t, err)
				if a, ok := d.(*pod.Actor); ok && handled(picture, g) {
					state, _ := a.State().(*journaletv1.PodState)
					compared += compare(t, fmt.Sprintf("seed %d to #%d, %s", seed, to, g.UID), g, state)
				}
			}
		}
	}
	if compared < 500 {
		t.Errorf("only %d states are compared", compared)
	}
}

// handled reports whether a pod's actor has handled what is recorded about it: its newest event is a decision of its
// own.
func handled(picture *timeline.Timeline, g *timeline.Group) bool {
	for _, l := range g.Lanes {
		if n := len(l.Marks); n > 0 {
			last := picture.Events[l.Marks[n-1]]
			return last.Cause > 0 && last.Author == "pod/"+g.UID
		}
	}
	return false
}

// folded returns the states of actors at a record.
func folded(t *testing.T, m *history.Memory, seed, to int) *fold.Fold {
	t.Helper()
	manifests := recording.Manifests(t, path(seed))
	f := fold.New(fold.AllDeciders, func(digest string) (*corev1.Pod, error) { return manifest.Load(manifests[digest]) })
	f.CreateSingletons()
	for _, rec := range m.Records[:to] {
		f.Record(rec)
	}
	return f
}

func compare(t *testing.T, name string, g *timeline.Group, state *journaletv1.PodState) (compared int) {
	t.Helper()
	open := func(kind, lane string) string {
		for _, l := range g.Lanes {
			if n := len(l.Spans); l.Kind == kind && (lane == "" || l.Name == lane) && n > 0 && l.Spans[n-1].Open {
				return l.Spans[n-1].Label
			}
		}
		return ""
	}
	if want := phase(state); want != "?" {
		compared++
		if got := open("phase", ""); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: the phase is drawn as %q, it is %q: %v", name, got, want, state.GetStage())
		}
	}
	for _, c := range state.GetContainers() {
		got, current := open("container", c.GetName()), c.GetCurrent()
		runs := current.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING
		compared++
		if drawn := strings.HasPrefix(got, "running") || strings.HasPrefix(got, "stopping"); drawn != runs {
			t.Errorf("%s: container %s is drawn as %q, it is %v", name, c.GetName(), got, current.GetState())
		}
	}
	return compared
}

// phase returns the beginning of the label of a pod's phase: "" for no label, "?" for a label that is not compared.
func phase(state *journaletv1.PodState) string {
	switch state.GetStage() {
	case journaletv1.PodStage_POD_STAGE_ADMITTING:
		return "Pending"
	case journaletv1.PodStage_POD_STAGE_RUNNING:
		if state.GetPhase() != journaletv1.PodPhase_POD_PHASE_RUNNING {
			return "Pending"
		}
		if state.GetConditions()["Ready"].GetStatus() {
			return "Ready"
		}
		return "Running, not ready"
	case journaletv1.PodStage_POD_STAGE_TERMINATING:
		return "Terminating"
	case journaletv1.PodStage_POD_STAGE_TERMINATED:
		if !state.GetRemoved() {
			return map[bool]string{true: "Succeeded", false: "Failed"}[state.GetPhase() ==
				journaletv1.PodPhase_POD_PHASE_SUCCEEDED]
		}
	case journaletv1.PodStage_POD_STAGE_CLEANING:
		if !state.GetOrphan() {
			return "Cleaning up"
		}
	case journaletv1.PodStage_POD_STAGE_FINISHED:
		return ""
	}
	return "?"
}
