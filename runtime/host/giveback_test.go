package host

import (
	"context"
	"errors"
	"testing"

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
	m.await(t, "the actor's end", func(rec *journaletv1.Record) bool {
		for _, e := range rec.GetStep().GetDecisions() {
			if e.GetPodForgotten().GetUid() == "a" {
				return true
			}
		}
		return false
	})
	read(h, podFile("c"))
	m.await(t, "room for a third", decides("c", true))
	if q := h.Quarantines(); len(q) > 0 {
		t.Errorf("quarantined are %v", q)
	}
}

func TestAQuarantinedPodThatMayRunKeepsItsShareWhenItIsRemoved(t *testing.T) {
	m, h := oneCPU(t, func(rec *journaletv1.Record) bool {
		for _, e := range rec.GetStep().GetDecisions() {
			if rec.GetActor().GetId() == "a" && (e.GetPodStatusChanged().GetPhase() == journaletv1.PodPhase_POD_PHASE_RUNNING ||
				e.GetPodTerminating() != nil || e.GetCallWithdrawn() != nil) {
				return true
			}
		}
		return false
	})
	defer stopHost(t, h)
	read(h, podFile("a"))
	m.await(t, "the start", func(rec *journaletv1.Record) bool {
		for _, e := range rec.GetStep().GetDecisions() {
			if e.GetCallRequested().GetPodUid() == "a" {
				return true
			}
		}
		return false
	})
	read(h, &journaletv1.ManifestFile{Path: "a"})
	m.await(t, "quarantine", isQuarantine("a"))
	read(h, podFile("b"))
	m.await(t, "no room for another", decides("b", false))
}
