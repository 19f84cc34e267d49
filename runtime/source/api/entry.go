package api

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
)

const (
	// maxExtended bounds the requests for extended resources that are kept of a pod's status, maxRequestBytes the names
	// of a request and of its claim. A container has a few.
	maxExtended     = 128
	maxRequestBytes = 253
)

// entryOf returns the entry of a pod, an empty one if it is gone.
func (d *Driver) entryOf(uid types.UID) feed.File {
	none := feed.File{ManifestFile: &journaletv1.ManifestFile{Path: string(uid)}}
	pod := d.pods.Get(uid)
	if pod == nil || manifest.IsMirror(pod) {
		return none
	}
	var known *journaletv1.PodRef
	if pods := d.sender.Files[string(uid)].GetPods(); len(pods) == 1 {
		known = pods[0]
	}
	why := refusal(pod)
	if known != nil && (why != "" || isBare(pod)) {
		return d.kept(known, pod, why)
	}
	file, err := d.read(known, pod)
	switch {
	case err == nil:
		return file
	case known != nil:
		return d.kept(known, pod, manifest.Defect)
	}
	names := pod.DeepCopy()
	refuse(names, manifest.Defect)
	if file, err = d.read(nil, names); err != nil {
		return none
	}
	return file
}

// kept returns the entry of a recorded pod whose manifest is refused, or not known any more.
func (d *Driver) kept(known *journaletv1.PodRef, pod *corev1.Pod, why string) feed.File {
	if why != "" && known.GetApi().GetUnsupported() == "" && pod.DeletionTimestamp == nil {
		d.opts.Refused(known, why) // a pod that was not admitted has the event of its rejection
	}
	return feed.File{ManifestFile: &journaletv1.ManifestFile{Path: known.GetUid(), Pods: []*journaletv1.PodRef{
		keptRef(known, pod, why),
	}}}
}

// failed returns a function that notes a panic of what only reads a pod as an error (ADR 115).
func (d *Driver) failed(pod *corev1.Pod, err *error) func(stack string) {
	return func(stack string) {
		*err = errors.New(defect.Message)
		d.log.Error("a pod of the API server cannot be read; other pods go on", "pod", pod.Namespace+"/"+pod.Name,
			"uid", pod.UID, "error", *err, "stack", stack)
	}
}

// read returns the entry of a pod with its manifest. known is the recorded entry, nil for a pod that is not recorded.
func (d *Driver) read(known *journaletv1.PodRef, pod *corev1.Pod) (file feed.File, err error) {
	defer defect.Recover(d.failed(pod, &err))
	ref := &journaletv1.PodRef{
		Uid: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
		Api: apiOf(pod, cmp.Or(refusal(pod), manifest.UnsupportedOfAPI(&pod.Spec))),
	}
	if was := known.GetApi(); known != nil {
		ref.Api.ReadyContainers, ref.Api.ShownRunning = was.GetReadyContainers(), was.GetShownRunning()
	} else {
		ref.Api.ReadyContainers, ref.Api.ShownRunning = readyContainers(pod), shownRunning(pod)
	}
	ref.Api.ShownRunning = ref.Api.ShownRunning && ref.Api.GetUnsupported() != ""
	if at := pod.CreationTimestamp; !at.IsZero() {
		ref.CreatedAt = timestamppb.New(at.Time)
	}
	if as := d.asAllocated(pod); as != nil {
		file, err = entry(ref, as, pod.Annotations[allocatedAs])
		if err == nil && (known == nil || known.GetDigest() == ref.GetDigest()) {
			d.awaitAdding(pod.UID)
			return file, nil
		}
	}
	if file, err = entry(ref, pod, pod.Annotations[storedAs]); err != nil {
		d.log.Error("cannot write a pod as JSON; it does not run", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID)
	}
	return file, err
}

// entry returns the entry of a pod with a manifest, which it gives to ref: the one with a digest if it is stored, "" if
// it is not.
func entry(ref *journaletv1.PodRef, pod *corev1.Pod, digest string) (feed.File, error) {
	file := feed.File{ManifestFile: &journaletv1.ManifestFile{Path: ref.GetUid(), Pods: []*journaletv1.PodRef{ref}}}
	if ref.Digest = digest; digest == "" {
		parsed, err := manifest.FromAPI(pod)
		if err != nil {
			return feed.File{}, err
		}
		ref.Digest, file.Pods = parsed.Digest, []manifest.Parsed{parsed}
	}
	return file, nil
}

// keptRef returns the entry of a pod whose manifest is not known any more, or was never to be: the recorded one stays.
// An update that is refused changes nothing but that the pod is deleted.
func keptRef(known *journaletv1.PodRef, pod *corev1.Pod, why string) *journaletv1.PodRef {
	ref := proto.CloneOf(known)
	now := apiOf(pod, "")
	if ref.Api == nil {
		ref.Api = &journaletv1.ApiPod{}
	}
	if now.GetDeleted() {
		ref.Api.Deleted, ref.Api.DeletionGraceSeconds = true, now.GetDeletionGraceSeconds()
	}
	if now.GetTerminalPhase() != journaletv1.PodPhase_POD_PHASE_UNSPECIFIED {
		ref.Api.TerminalPhase = now.GetTerminalPhase()
	}
	if why == "" {
		ref.Api.Generation = now.GetGeneration()
	}
	return ref
}

// leastGraceSeconds is what the kubelet makes of a shorter period of a deletion.
const leastGraceSeconds = 1

func apiOf(pod *corev1.Pod, unsupported string) *journaletv1.ApiPod {
	a := &journaletv1.ApiPod{
		Deleted: pod.DeletionTimestamp != nil, Generation: pod.Generation,
		Unsupported: unsupported,
	}
	if a.Deleted {
		a.DeletionGraceSeconds = leastGraceSeconds
		grace := pod.DeletionGracePeriodSeconds
		if grace == nil {
			grace = pod.Spec.TerminationGracePeriodSeconds
		}
		if grace != nil {
			a.DeletionGraceSeconds = max(leastGraceSeconds, *grace)
		}
	}
	a.TerminalPhase = terminal(pod)
	a.ExtendedClaim = extendedClaim(pod)
	return a
}

// extendedClaim returns the claim that stands for extended resources of a pod, or nil.
func extendedClaim(pod *corev1.Pod) *journaletv1.ExtendedClaim {
	st := pod.Status.ExtendedResourceClaimStatus
	if st == nil || len(st.ResourceClaimName) > maxRequestBytes {
		return nil // its containers wait for a device plugin
	}
	has := map[[2]string]bool{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name, q := range c.Resources.Limits {
			has[[2]string{c.Name, string(name)}] = !q.IsZero()
		}
	}
	out := &journaletv1.ExtendedClaim{Name: st.ResourceClaimName}
	for _, m := range st.RequestMappings {
		if has[[2]string{m.ContainerName, m.ResourceName}] && len(m.RequestName) <= maxRequestBytes &&
			len(out.GetRequests()) < maxExtended {
			out.Requests = append(out.Requests, &journaletv1.ExtendedRequest{
				Container: m.ContainerName, Resource: m.ResourceName, Request: m.RequestName,
			})
		}
	}
	return out
}

const (
	// maxContainerIDBytes bounds the id of a container, without the name of its runtime. Of containerd and CRI-O: 64.
	maxContainerIDBytes = 128
	// maxReady bounds the containers whose ids are recorded: who may patch a status can write any number.
	maxReady = 80
)

// readyContainers returns the ids of the containers that a pod's status shows ready. Only a pod that a node agent has
// run before has any.
func readyContainers(pod *corev1.Pod) []string {
	var ids []string
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		_, id, _ := strings.Cut(c.ContainerID, "://")
		if c.Ready && c.State.Running != nil && id != "" && len(id) <= maxContainerIDBytes && len(ids) < maxReady {
			ids = append(ids, id)
		}
	}
	return ids
}

// shownRunning reports whether a container of a pod runs, as its status shows.
func shownRunning(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// terminal returns the phase of a pod that has ended at the API server, else none.
func terminal(pod *corev1.Pod) journaletv1.PodPhase {
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return journaletv1.PodPhase_POD_PHASE_SUCCEEDED
	case corev1.PodFailed:
		return journaletv1.PodPhase_POD_PHASE_FAILED
	}
	return journaletv1.PodPhase_POD_PHASE_UNSPECIFIED
}
