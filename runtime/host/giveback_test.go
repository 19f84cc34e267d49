package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/test/must"
)

// cpuHog is a pod that requests a CPU.
func cpuHog(uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "ns", UID: types.UID(uid)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "i",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
			Ports:     []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
		}}},
	}
}

func podFile(uid string) *journaletv1.ManifestFile {
	return &journaletv1.ManifestFile{Path: uid, Pods: []*journaletv1.PodRef{{
		Uid: uid, Namespace: "ns", Name: uid, Digest: "sha256:" + uid, Api: &journaletv1.ApiPod{Generation: 1},
	}}}
}

// oneCPU starts a host of a node with one CPU, whose journal refuses what a check refuses.
func oneCPU(t *testing.T, refuse func(*journaletv1.Record) bool) (*memory, *Host) {
	t.Helper()
	m := newMemory(t)
	m.refuse = func(rec *journaletv1.Record) error {
		if refuse(rec) {
			return errors.New("it is too large")
		}
		return nil
	}
	h := newHost(m, fold.AllDeciders)
	h.opts.Manifest = func(_ context.Context, digest string) (*corev1.Pod, error) {
		return cpuHog(digest[len("sha256:"):]), nil
	}
	r, err := h.Recover()
	must.OK(t, err)
	h.Start(r, &journaletv1.AgentStarted{Epoch: 1, Config: &journaletv1.AgentConfig{
		NodeName: "n", MaxPods: 10, Sources: []string{messages.APISource}, StartConcurrency: 1,
		Allocatable: &journaletv1.NodeCapacity{MilliCpu: 1000, MemoryBytes: 1 << 30, EphemeralStorageBytes: 1 << 30},
	}})
	h.Outcome(messages.Runtime, messages.NewEvent(&journaletv1.RuntimeHealthChanged{
		RuntimeReady: true, NetworkReady: true,
	}))
	return m, h
}

func read(h *Host, f *journaletv1.ManifestFile) {
	h.Outcome(messages.Source(messages.APISource), messages.NewEvent(&journaletv1.ManifestsRead{
		Source: messages.APISource, Synced: true, Changed: []*journaletv1.ManifestFile{f},
	}))
}

// decides returns a condition: a record has the admission of a pod.
func decides(uid string, admitted bool) func(*journaletv1.Record) bool {
	return func(rec *journaletv1.Record) bool {
		for _, e := range rec.GetStep().GetDecisions() {
			if d := e.GetAdmissionDecided(); d.GetUid() == uid && d.GetAdmitted() == admitted {
				return true
			}
		}
		return false
	}
}

func TestARemovedQuarantinedPodGivesBackWhatItHeld(t *testing.T) {
	m, h := oneCPU(t, func(rec *journaletv1.Record) bool {
		if rec.GetActor().GetId() != "a" {
			return false
		}
		for _, e := range rec.GetStep().GetDecisions() {
			if e.GetCallRequested() != nil || e.GetPodTerminated() != nil {
				return true // neither its start nor its end fits
			}
		}
		return false
	})
	defer stopHost(t, h)
	read(h, podFile("a"))
	m.await(t, "the admission", decides("a", true))
	m.await(t, "quarantine", isQuarantine("a"))
	h.repairs.Wait()
	read(h, podFile("b"))
	m.await(t, "no room for another", decides("b", false))
	read(h, &journaletv1.ManifestFile{Path: "a"})
	m.await(t, "the actor's end", forgets("a"))
	read(h, podFile("c"))
	m.await(t, "room for a third", decides("c", true))
	if q := h.Quarantines(); len(q) > 0 {
		t.Errorf("quarantined are %v", q)
	}
}

// forgets returns a condition: a record has the end of a pod's actor.
func forgets(uid string) func(*journaletv1.Record) bool {
	return func(rec *journaletv1.Record) bool {
		return slices.ContainsFunc(rec.GetStep().GetDecisions(), func(e *journaletv1.Event) bool {
			return e.GetPodForgotten().GetUid() == uid
		})
	}
}

// stuck is a node of one CPU with pod a, which was removed and is quarantined while its sandbox is created.
type stuck struct {
	*testing.T
	m *memory
	h *Host
	// sandbox is the call that creates the sandbox.
	sandbox string
	others  int
}

func newStuck(t *testing.T) *stuck {
	s := newRemoved(t, func(e *journaletv1.Event) bool {
		return e.GetPodTerminating() != nil || e.GetCallWithdrawn() != nil
	})
	s.m.await(t, "quarantine", isQuarantine("a"))
	return s
}

// newRemoved is the same, but that the pod is quarantined when it decides what a check refuses.
func newRemoved(t *testing.T, refuse func(*journaletv1.Event) bool) *stuck {
	m, h := oneCPU(t, func(rec *journaletv1.Record) bool {
		return rec.GetActor().GetId() == "a" && slices.ContainsFunc(rec.GetStep().GetDecisions(), refuse)
	})
	h.retries.pause = func(int) time.Duration { return 0 }
	s := &stuck{T: t, m: m, h: h}
	t.Cleanup(func() { stopHost(t, h) })
	read(h, podFile("a"))
	m.await(t, "the start", func(rec *journaletv1.Record) bool {
		for i, e := range rec.GetStep().GetDecisions() {
			if c := e.GetCallRequested(); c.GetPodUid() == "a" && c.GetRunSandbox() != nil {
				s.sandbox = messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), messages.Pod("a"),
					int(rec.GetStep().GetOffset())+i)
			}
		}
		return s.sandbox != ""
	})
	read(h, &journaletv1.ManifestFile{Path: "a"})
	m.await(t, "its removal", func(rec *journaletv1.Record) bool {
		return slices.ContainsFunc(rec.GetStep().GetDecisions(), func(e *journaletv1.Event) bool {
			return e.GetPodUpdated().GetOperation() == journaletv1.PodOperation_POD_OPERATION_REMOVE
		})
	})
	return s
}

// second returns a time of the clock of calls and inspections.
func second(n int) *timestamppb.Timestamp { return timestamppb.New(time.Unix(int64(n), 0)) }

// ends records the end of the call that creates the sandbox.
func (s *stuck) ends(at int) {
	s.h.Outcome(messages.Pod("a"), messages.NewEvent(&journaletv1.CallFinished{
		IntentId: s.sandbox, Requester: "pod/a", SandboxId: "s", EndedAt: second(at),
	}))
}

// shows records an inspection.
func (s *stuck) shows(at int, sandboxes ...*journaletv1.SandboxObservation) {
	s.h.Outcome(messages.Pod("a"), messages.NewEvent(&journaletv1.PodObserved{
		Uid: "a", ObservedAt: second(at), Sandboxes: sandboxes,
	}))
}

// holds fails unless the pod still has its share after what is recorded so far.
func (s *stuck) holds(why string) {
	s.Helper()
	must.OK(s, s.m.Flush(s.Context()))
	if s.h.LiftQuarantine(messages.Pod("a"), false) == nil {
		s.Error("the quarantine is lifted")
	}
	s.others++
	uid := fmt.Sprint("other-", s.others)
	read(s.h, podFile(uid))
	s.m.await(s.T, "no room for another while "+why, decides(uid, false))
}

func TestAQuarantinedPodThatMayRunKeepsItsShareWhenItIsRemoved(t *testing.T) {
	s := newStuck(t)
	s.holds("its sandbox is created")
	s.shows(1)
	s.holds("its sandbox is created, and nothing is there yet")
	s.ends(3)
	s.shows(2)
	s.holds("the inspection began before its sandbox was there")
	s.shows(4, &journaletv1.SandboxObservation{Id: "s", State: journaletv1.SandboxState_SANDBOX_STATE_READY})
	s.holds("its sandbox runs")
}

func TestAQuarantinedPodGivesItsShareBackOnceTheRuntimeHasNothingOfIt(t *testing.T) {
	s := newStuck(t)
	s.ends(3)
	s.shows(4, &journaletv1.SandboxObservation{Id: "s", State: journaletv1.SandboxState_SANDBOX_STATE_READY})
	s.holds("its sandbox runs")
	s.shows(5)
	s.m.await(t, "the actor's end", forgets("a"))
	read(s.h, podFile("c"))
	s.m.await(t, "room for another", decides("c", true))
	if q := s.h.Quarantines(); len(q) > 0 {
		t.Errorf("quarantined are %v", q)
	}
}

func TestAPodThatIsQuarantinedWhileItTerminatesGivesItsShareBack(t *testing.T) {
	s := newRemoved(t, func(e *journaletv1.Event) bool { return e.GetPodTerminated() != nil })
	s.ends(3)
	s.shows(4, &journaletv1.SandboxObservation{Id: "s", State: journaletv1.SandboxState_SANDBOX_STATE_READY})
	s.m.await(t, "quarantine", isQuarantine("a"))
	s.holds("its sandbox runs")
	s.shows(5)
	s.m.await(t, "the actor's end", forgets("a"))
	read(s.h, podFile("c"))
	s.m.await(t, "room for another", decides("c", true))
}
