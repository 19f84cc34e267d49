package api

import (
	"context"
	"iter"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

// requesting returns a pod that requests so many CPUs, with so many bytes of arguments.
func requesting(cpu string, bytes int) *corev1.Pod {
	p := testPod("a")
	p.UID, p.Spec.Containers[0].Args = "u1", []string{strings.Repeat("x", bytes)}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return p
}

// added is the record of the source that adds a pod.
func added(uid string) *journaletv1.Record {
	return &journaletv1.Record{Actor: messages.Source(messages.APISource).Proto(), Body: &journaletv1.Record_Step{
		Step: &journaletv1.Step{Decisions: []*journaletv1.Event{messages.NewEvent(&journaletv1.PodUpdated{
			Operation: journaletv1.PodOperation_POD_OPERATION_ADD, Pod: &journaletv1.PodRef{Uid: uid},
		})}},
	}}
}

// A pod whose resize a kubelet had not granted is added with what was allocated, a small pod and one that is stored as
// it arrives. Its spec follows once the source has added it, also where the agent was killed meanwhile. One that is
// listed later counts as it is.
func TestPodIsAddedAsAKubeletHadAdmittedIt(t *testing.T) {
	for what, bytes := range map[string]int{"small": 10, "large": 2 * minStored} {
		stored, facts := map[string][]byte{}, []*journaletv1.ManifestsRead{}
		begin := func(seed *journaletv1.SourceState) *Driver {
			d := New(Options{
				ListWatch: &cache.ListWatch{}, NodeName: "n1",
				Allocated: func(p *corev1.Pod) *corev1.Pod {
					p = p.DeepCopy()
					p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
					return p
				},
				Store: func(_ context.Context, all iter.Seq2[string, []byte]) error { maps.Insert(stored, all); return nil },
				Sink:  func(_ context.Context, m *journaletv1.ManifestsRead) error { facts = append(facts, m); return nil },
			})
			d.Seed(seed)
			return d
		}
		list := func(d *Driver) {
			t.Helper()
			p := requesting("8", bytes)
			d.Reduce(t.Context(), p)
			must.OK(t, d.Store().Replace([]any{p}, "1"))
			must.OK(t, d.HandOver(t.Context()))
		}
		// cpu is what the newest of some facts says that the pod requests.
		cpu := func(n int) string {
			t.Helper()
			if len(facts) != n {
				t.Fatalf("%s: %d facts, want %d", what, len(facts), n)
			}
			p, err := manifest.Load(stored[facts[n-1].GetChanged()[0].GetPods()[0].GetDigest()])
			must.OK(t, err)
			return p.Spec.Containers[0].Resources.Requests.Cpu().String()
		}
		d := begin(nil)
		list(d)
		if got := cpu(1); got != "2" {
			t.Errorf("%s: it is added with %s CPUs, want 2", what, got)
		}
		d.Stored(added("another"))
		must.OK(t, d.HandOver(t.Context()))
		cpu(1)
		// Killed before the source has added it, the agent waits again.
		d = begin(&journaletv1.SourceState{Files: map[string]*journaletv1.ManifestFile{"u1": facts[0].GetChanged()[0]}})
		d.adding[types.UID("u1")] = true // Recover finds no actor of the pod
		list(d)
		if n := len(facts); n != 2 || len(facts[1].GetChanged()) > 0 {
			t.Fatalf("%s: %v after a restart, want that the source is complete", what, facts[n-1])
		}
		d.Stored(added("u1"))
		must.OK(t, d.HandOver(t.Context()))
		if got := cpu(3); got != "8" {
			t.Errorf("%s: then it has %s CPUs, want 8", what, got)
		}
		list(d)
		cpu(3)
	}
}
