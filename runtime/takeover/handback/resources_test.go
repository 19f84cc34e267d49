package handback

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/kubeletstate"
)

// manifests are a journal that has nothing but manifests: pods with so many CPUs, by digest.
type manifests struct {
	history.Reader
	cpus map[string]string
}

func (m manifests) Manifest(_ context.Context, digest string) ([]byte, error) {
	if m.cpus[digest] == "" {
		return nil, history.ErrNoManifest
	}
	return fmt.Appendf(nil, `{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "uid": "u1"}, "spec": {
		"resources": {"requests": {"cpu": %[1]q}},
		"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": %[1]q, "example.com/gpu": "1"}}}]
	}}`, m.cpus[digest]), nil
}

// A kubelet gets what is allocated to a pod of the API server, which may be less than its spec requests, and what its
// containers were last given, which may be less than what is allocated.
func TestKubeletGetsTheResourcesOfPods(t *testing.T) {
	src := manifests{cpus: map[string]string{"desired": "8", "allocated": "4"}}
	one := &journaletv1.Resources{CpuRequestMillis: 1000}
	for what, c := range map[string]struct {
		pod  *journaletv1.PodState
		want string // CPUs that are allocated and actuated, of the container and of the pod as a whole
	}{
		"a static pod": {pod: &journaletv1.PodState{Pod: &journaletv1.PodRef{Digest: "desired"}}},
		"as its spec says": {want: "8 8, 8 8", pod: &journaletv1.PodState{
			Pod: &journaletv1.PodRef{Digest: "desired", Api: &journaletv1.ApiPod{}},
		}},
		"a resize that is pending": {want: "4 4, 4 4", pod: &journaletv1.PodState{
			Pod: &journaletv1.PodRef{Digest: "desired", Api: &journaletv1.ApiPod{}}, AllocatedDigest: "allocated",
		}},
		"a resize in progress": {want: "4 4, 1 1", pod: &journaletv1.PodState{
			Pod: &journaletv1.PodRef{Digest: "desired", Api: &journaletv1.ApiPod{}}, AllocatedDigest: "allocated",
			Containers: map[string]*journaletv1.ContainerRecord{"main": {Applied: one}, "gone": {Applied: one}},
			Resize:     &journaletv1.PodResize{Applied: one},
		}},
		"a journal without its manifest": {pod: &journaletv1.PodState{
			Pod: &journaletv1.PodRef{Digest: "gone", Api: &journaletv1.ApiPod{}},
		}},
		"a journal without what is allocated": {pod: &journaletv1.PodState{
			Pod: &journaletv1.PodRef{Digest: "desired", Api: &journaletv1.ApiPod{}}, AllocatedDigest: "gone",
		}},
	} {
		g := kubeletstate.Given{
			Allocated: map[string]kubeletstate.PodResources{}, Actuated: map[string]kubeletstate.PodResources{},
		}
		err := addResources(t.Context(), src, &g, "u1", c.pod)
		if fails := strings.HasPrefix(what, "a journal without"); fails != (err != nil) {
			t.Errorf("%s: %v", what, err)
		}
		got := ""
		if p, ok := g.Allocated["u1"]; ok {
			got = cpus(p) + ", " + cpus(g.Actuated["u1"])
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", what, got, c.want)
		}
		for _, all := range []map[string]kubeletstate.PodResources{g.Allocated, g.Actuated} {
			if p, ok := all["u1"]; ok && len(p.Containers["main"].Requests) != 2 {
				t.Errorf("%s: its other resources are gone: %v", what, p)
			}
			if _, ok := all["u1"].Containers["gone"]; ok {
				t.Errorf("%s: a container that its manifest does not have is noted", what)
			}
		}
	}
}

// cpus are the CPUs of a pod's container, and of the pod as a whole.
func cpus(p kubeletstate.PodResources) string {
	main := p.Containers["main"]
	return main.Requests.Cpu().String() + " " + p.Pod.Requests.Cpu().String()
}
