package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// An answer may be on its way when a pod that waits asks anew: it counts for the manifest that it is about, and no other.
func TestAnAnswerCountsForTheManifestThatWasAskedAbout(t *testing.T) {
	manifest := func(cpu string) *corev1.Pod {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:1", Resources: corev1.ResourceRequirements{Requests: list}}}}}
	}
	update := func(op journaletv1.PodOperation, digest string) *journaletv1.Event {
		return &journaletv1.Event{Kind: &journaletv1.Event_PodUpdated{PodUpdated: &journaletv1.PodUpdated{
			Operation: op, Source: "file", Resize: true, Pod: &journaletv1.PodRef{Uid: "u", Namespace: "d", Name: "web", Digest: digest},
		}}}
	}
	answer := func(admitted bool, digest string) *journaletv1.Event {
		return &journaletv1.Event{Kind: &journaletv1.Event_AdmissionDecided{AdmissionDecided: &journaletv1.AdmissionDecided{Uid: "u", Admitted: admitted, Digest: digest}}}
	}
	for name, c := range map[string]struct {
		admitted          bool
		digest, allocated string // the answer's, and what is allocated then
		stage             journaletv1.PodStage
	}{
		"the last question":           {true, "3", "", runningPod},
		"the one before":              {true, "2", "2", runningPod},
		"the first":                   {true, "", "1", runningPod},
		"the last, turned away":       {false, "3", "", terminated},
		"the one before, turned away": {false, "2", "1", finished},
		"the first one, turned away":  {false, "", "1", finished},
	} {
		a := New("u")
		asked := 0
		tell := func(e *journaletv1.Event, m *corev1.Pod) {
			in := actors.Event{Seq: 1, Time: time.Unix(1, 0), Body: e, Manifest: m}
			if err := a.Evolve(in); err != nil {
				t.Fatal(err)
			}
			if err := a.Decide(actors.Input{Seq: 1, Time: in.Time, Events: []actors.Event{in}}, func(e *journaletv1.Event) error {
				if q := e.GetAdmissionRequested(); q != nil {
					asked++
					if q.GetSupersedes() != (asked > 1) || q.GetDigest() != a.Pod().GetPod().GetDigest() || q.GetDemand().GetMilliCpu() != int64(asked)*1000 {
						t.Errorf("%s: question %d is %v", name, asked, q)
					}
				}
				return a.Evolve(actors.Event{ID: "1.1.pod/u.0", Seq: 1, Time: in.Time, Body: e})
			}); err != nil {
				t.Fatal(err)
			}
		}
		tell(update(journaletv1.PodOperation_POD_OPERATION_ADD, "1"), manifest("1"))
		tell(update(journaletv1.PodOperation_POD_OPERATION_UPDATE, "2"), manifest("2"))
		tell(update(journaletv1.PodOperation_POD_OPERATION_UPDATE, "3"), manifest("3"))
		if asked != 3 {
			t.Errorf("%s: it asked %d times", name, asked)
		}
		tell(answer(c.admitted, c.digest), manifest(map[string]string{"2": "2", "3": "3", "": "1"}[c.digest]))
		s := a.Pod()
		if s.GetStage() != c.stage || c.admitted && s.GetAllocatedDigest() != c.allocated {
			t.Errorf("%s: stage %s, allocated %q", name, s.GetStage(), s.GetAllocatedDigest())
		}
		if c.stage == runningPod && (s.GetResize().GetRequestedDigest() == "3") != (c.allocated != "") {
			t.Errorf("%s: it asks for %v", name, s.GetResize())
		}
	}
}
