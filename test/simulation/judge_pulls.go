package simulation

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of pulls: who shares one, and what the runtime gets of the pod. The judge goes by manifests.

// runtimeHandler is the annotation that has containerd choose one of its runtimes and unpack an image for it.
const runtimeHandler = "io.containerd.cri.runtime-handler"

// pullBook is what was recorded of pulls.
type pullBook struct {
	// requests are the last requests of pods, by UID and image.
	requests map[[2]string]*journaletv1.ImagePullRequested
	// ended are the calls that ended a pull, by the record of their outcome.
	ended map[uint64]*intent
}

func newPullBook() pullBook {
	return pullBook{map[[2]string]*journaletv1.ImagePullRequested{}, map[uint64]*intent{}}
}

// onePull: pods that need the same image with the same credentials wait for the same pull, unless a runtime
// distinguishes them.
func (j *judge) onePull(requester *podHistory, in *intent) {
	pull := in.req.GetPullImage()
	if pull == nil {
		return
	}
	withoutPod := func(p *journaletv1.PullImage) *journaletv1.PullImage {
		p = proto.CloneOf(p)
		p.Pod = nil
		return p
	}
	same := func(other *intent) bool {
		o := other.req.GetPullImage()
		return o != nil && proto.Equal(withoutPod(o), withoutPod(pull)) && j.alike(o.GetPod(), pull.GetPod())
	}
	if slices.ContainsFunc(requester.openCalls, same) {
		j.broken(onePull, "", "a second pull of %s at once", pull.GetImage())
	}
}

// alike reports whether no runtime distinguishes two pods when it pulls an image.
func (j *judge) alike(a, b *journaletv1.PodOfPull) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	p, q := j.sim.manifests.byDigest[a.GetDigest()], j.sim.manifests.byDigest[b.GetDigest()]
	if p == nil || q == nil {
		return false
	}
	class := func(p *corev1.Pod) string {
		if p.Spec.RuntimeClassName == nil {
			return ""
		}
		return *p.Spec.RuntimeClassName
	}
	if p.Annotations[runtimeHandler] != "" || q.Annotations[runtimeHandler] != "" {
		// An earlier pod of the UID may have had another annotation.
		return p.UID == q.UID && p.Annotations[runtimeHandler] == q.Annotations[runtimeHandler]
	}
	return p.Namespace == q.Namespace && class(p) == class(q)
}

// pulls: the runtime gets the annotations and the sandbox of a pod that waits for the image, as its manifest has them.
func (j *judge) pulls(pull *journaletv1.PullImage, request *runtimeapi.PullImageRequest) {
	if pull.GetPod() == nil {
		return // for an operator
	}
	uid, m := pull.GetPod().GetUid(), j.sim.manifests.byDigest[pull.GetPod().GetDigest()]
	sandbox := request.GetSandboxConfig()
	requested := j.pulled.requests[[2]string{uid, pull.GetImage()}]
	switch {
	case m == nil || requested == nil:
		j.broken(pullsForPods, uid, "a pull of %s for a pod that has not requested it", pull.GetImage())
	case sandbox.GetMetadata().GetUid() != uid || sandbox.GetMetadata().GetNamespace() != m.Namespace ||
		sandbox.GetAnnotations()[runtimeHandler] != m.Annotations[runtimeHandler]:
		j.broken(pullsForPods, uid, "a pull of %s with the sandbox %v", pull.GetImage(), sandbox)
	case !maps.Equal(request.GetImage().GetAnnotations(), m.Annotations):
		j.broken(pullsForPods, uid, "a pull of %s without the annotations of the pod", pull.GetImage())
	}
}

// bookPulls keeps the books of pulls, and judges their outcomes.
func (j *judge) bookPulls(rec *journaletv1.Record, e *journaletv1.Event) {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ImagePullRequested:
		r := k.ImagePullRequested
		j.pulled.requests[[2]string{r.GetUid(), r.GetImage()}] = r
	case *journaletv1.Event_CallFinished:
		// Records may be lost, and others have their numbers then.
		delete(j.pulled.ended, rec.GetSeq())
		if in := j.intents[k.CallFinished.GetIntentId()]; in != nil && in.req.GetPullImage() != nil {
			j.pulled.ended[rec.GetSeq()] = in
		}
	case *journaletv1.Event_ImagePullDecided:
		j.served(rec.GetStep().GetCause(), k.ImagePullDecided)
	}
}

// served: an image counts as pulled for a pod if it was pulled for this pod, or for a pod that no runtime distinguishes
// from it. cause is the record of the pull's outcome.
func (j *judge) served(cause uint64, d *journaletv1.ImagePullDecided) {
	in, requested := j.pulled.ended[cause], j.pulled.requests[[2]string{d.GetUid(), d.GetImage()}]
	if in == nil || requested == nil {
		return
	}
	if !j.alike(in.req.GetPullImage().GetPod(), requested.GetPod()) {
		j.broken(pullsForPods, d.GetUid(), "it is served by a pull of %s for pod %s", d.GetImage(),
			in.req.GetPullImage().GetPod().GetUid())
	}
}
