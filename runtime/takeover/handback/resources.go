package handback

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// addResources adds what is allocated to a pod of the API server, and what its containers were last given. A kubelet
// resizes no other pods. Without it, a kubelet would admit a pod whose resize is pending with what its spec requests.
func addResources(
	ctx context.Context, src history.Reader, g *kubeletstate.Given, uid string, p *journaletv1.PodState,
) error {
	if p.GetPod().GetApi() == nil {
		return nil
	}
	pod, err := load(ctx, src, p.GetPod().GetDigest())
	if err != nil {
		return fmt.Errorf("the manifest of pod %s: %w", uid, err)
	}
	if digest := p.GetAllocatedDigest(); digest != "" {
		allocated, err := load(ctx, src, digest)
		if err != nil {
			return fmt.Errorf("the manifest whose resources are allocated to pod %s: %w", uid, err)
		}
		pod = resources.Allocated(pod, allocated)
	}
	g.Allocated[uid], g.Actuated[uid] = kubeletstate.ResourcesOf(pod), actuated(pod, p)
	return nil
}

func load(ctx context.Context, src history.Reader, digest string) (*corev1.Pod, error) {
	b, err := src.Manifest(ctx, digest)
	if err != nil {
		return nil, err
	}
	return manifest.Load(b)
}

// actuated returns the resources that a pod's containers, and the pod as a whole, were last given: during a resize they
// differ from what is allocated.
func actuated(pod *corev1.Pod, p *journaletv1.PodState) kubeletstate.PodResources {
	out := kubeletstate.ResourcesOf(pod)
	for name, r := range p.GetContainers() {
		if has, ok := out.Containers[name]; ok && r.GetApplied() != nil {
			out.Containers[name] = given(has, r.GetApplied())
		}
	}
	if applied := p.GetResize().GetApplied(); applied != nil && out.Pod != nil {
		whole := given(*out.Pod, applied)
		out.Pod = &whole
	}
	return out
}

// given returns the resources of a container or a pod with the CPU and memory that it was last given.
func given(has corev1.ResourceRequirements, applied *journaletv1.Resources) corev1.ResourceRequirements {
	out, from := *has.DeepCopy(), resources.Requirements(applied)
	for _, list := range []corev1.ResourceList{from.Requests, from.Limits} {
		maps.DeleteFunc(list, func(_ corev1.ResourceName, q resource.Quantity) bool { return q.IsZero() })
	}
	resources.Put(&out, &from)
	return out
}
