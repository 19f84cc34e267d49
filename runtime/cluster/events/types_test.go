package events

import (
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/describe"
)

// TestPodDescribeHasTheTypesOfTheAPIServersEvents compares both views of the same records.
func TestPodDescribeHasTheTypesOfTheAPIServersEvents(t *testing.T) {
	waiting := func(reason string) proto.Message {
		return &journaletv1.PodStatusChanged{Waiting: map[string]*journaletv1.ContainerWaiting{"main": {Reason: reason}}}
	}
	for _, e := range []proto.Message{
		&journaletv1.AdmissionDecided{Uid: "u", Reason: "OutOfcpu"},
		&journaletv1.AdmissionDecided{Uid: "u", Admitted: true, Reason: "PodFeatureUnsupported"},
		&journaletv1.AdmissionPendingPreemption{Uid: "v", Victims: []string{"u"}},
		&journaletv1.ImagePullRequested{Uid: "u", Image: "app:1"},
		&journaletv1.ImagePullDecided{Uid: "u", Image: "app:1"},
		&journaletv1.ImagePullDecided{Uid: "u", Image: "app:1", Error: journaletv1.CallError_CALL_ERROR_RUNTIME},
		&journaletv1.ProbeResult{Uid: "u", Container: "main", Message: "no"},
		&journaletv1.ProbeResult{Uid: "u", Container: "main", Success: true, Message: "moved"},
		&journaletv1.PodTerminating{Reason: "Evicted", Failed: true},
		&journaletv1.PodTerminating{Reason: "DeadlineExceeded", Failed: true},
		&journaletv1.ResizeDecided{Uid: "u", Allocated: true},
		&journaletv1.ResizeCompleted{Uid: "u"},
		waiting("CrashLoopBackOff"), waiting("ImagePullBackOff"), waiting("ContainerCreating"),
	} {
		j := newJournal()
		j.step(e)
		api, local := typesOf(t, j)
		if !maps.Equal(api, local) {
			t.Errorf("%T %v: the API server has %v, pod describe %v", e, e, api, local)
		}
	}
}

func TestCallThatHasNotFailedHasNoWarning(t *testing.T) {
	for _, work := range []proto.Message{
		&journaletv1.StartContainer{Container: "main"}, &journaletv1.RunSandbox{}, &journaletv1.StopContainer{},
		&journaletv1.SetUpVolumes{}, &journaletv1.PrepareClaims{},
	} {
		for code := range journaletv1.CallError_name {
			ended := journaletv1.CallError(code)
			j := newJournal()
			j.call(work, ended, "why")
			failed := !slices.Contains([]journaletv1.CallError{ok, journaletv1.CallError_CALL_ERROR_WITHDRAWN,
				journaletv1.CallError_CALL_ERROR_NOT_DONE, journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT}, ended)
			api, local := typesOf(t, j)
			for view, all := range map[string]map[string]string{"the API server": api, "pod describe": local} {
				if warns := slices.Contains(slices.Collect(maps.Values(all)), "Warning"); warns != failed {
					t.Errorf("%T that ended with %s: %s has %v", work, ended, view, all)
				}
			}
		}
	}
}

// typesOf returns the types of a pod's events by their reasons, at the API server and of pod describe.
func typesOf(t *testing.T, j *journal) (api, local map[string]string) {
	t.Helper()
	api, local = map[string]string{}, map[string]string{}
	d, p := newDeriver(manifest), describe.NewPodEvents(messages.Pod("u"))
	for _, rec := range j.records {
		for _, e := range d.derive(rec) {
			api[e.reason] = e.kind
		}
		for i, e := range messages.Events(rec) {
			id := ""
			if step := rec.GetStep(); step != nil {
				id = messages.DecisionID(rec.GetEpoch(), step.GetCause(), messages.RefOf(rec.GetActor()), i)
			}
			p.Add(rec, id, e)
		}
	}
	for _, e := range p.List() {
		local[e.Reason] = e.Type
	}
	return api, local
}
