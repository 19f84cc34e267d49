package pod

import (
	"maps"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
)

// podOfPull returns the pod as its pulls carry it, and what it must have in common with pods that share them (ADR 100).
// Pulls that an earlier version requests carry none.
func (d *step) podOfPull() *journaletv1.PodOfPull {
	if !d.state.GetPullsForPods() {
		return nil
	}
	p := &journaletv1.PodOfPull{
		Uid: d.self.ID, Digest: d.state.GetPod().GetDigest(), AllocatedDigest: d.state.GetAllocatedDigest(),
		UserNamespace: d.state.GetUserNamespace(), Namespace: d.manifest.Namespace,
	}
	if class := d.manifest.Spec.RuntimeClassName; class != nil {
		p.RuntimeClass = *class
	}
	p.Alone = slices.ContainsFunc(slices.Sorted(maps.Keys(d.manifest.Annotations)), forRuntime)
	return p
}

// forRuntime reports whether an annotation with this key may be for the container runtime. Runtimes name what is theirs
// as the OCI does, by a domain without a slash, mostly in reverse: io.containerd.cri.runtime-handler,
// userns-mode.crio.io. A few of CRI-O's end in a slash and a container's name, and begin like the others. The keys of
// everybody else have the form of Kubernetes, which is a domain, a slash and a name, or are a single word.
func forRuntime(key string) bool {
	domain, _, named := strings.Cut(key, "/")
	return strings.Contains(domain, ".") && (!named || strings.HasPrefix(domain, "io."))
}
