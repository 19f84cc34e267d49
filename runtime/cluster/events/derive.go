package events

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/describe"
)

// draft is an event of a record, or one without a record.
type draft struct {
	// pod is the pod that it is about; nil: the Node.
	pod *journaletv1.PodRef
	// container is the container that it is about; empty: the whole pod.
	container             string
	kind, reason, message string
	at                    time.Time
	// record is the record. index is the number of the event among the record's events about the same object: of other
	// objects another run may know less.
	record messages.Position
	index  int
}

// deriver derives events from records, in the journal's order. It remembers pods and calls under way; without the
// records that name them it derives less. It is not safe for concurrent use.
type deriver struct {
	// manifest returns the manifest with a digest, or an error.
	manifest func(digest string) (*corev1.Pod, error)
	pods     map[string]*journaletv1.PodRef
	calls    map[string]*journaletv1.CallRequested // by intent id
	killing  map[string]bool                       // containers, by id, whose hook has emitted Killing
	ending   map[string]time.Time                  // by pod that the node ends: when it is to have ended
	mounts   map[string]string                     // by pod: the message of its last FailedMount
	health   *journaletv1.RuntimeHealthChanged
	images   imageCollection
	eviction journaletv1.EvictionStage
	bootID   string
	other    *journaletv1.OtherMachine // that reports itself as this Node, too
	hostIP   string                    // the machine's first address; empty: none
	families string                    // the message of the last mismatch of families; empty: no mismatch
	out      []draft
	rec      *journaletv1.Record
}

func newDeriver(manifest func(string) (*corev1.Pod, error)) *deriver {
	return &deriver{
		manifest: manifest, pods: map[string]*journaletv1.PodRef{}, calls: map[string]*journaletv1.CallRequested{},
		killing: map[string]bool{}, ending: map[string]time.Time{}, mounts: map[string]string{},
	}
}

// derive returns the events of a record.
func (d *deriver) derive(rec *journaletv1.Record) []draft {
	d.rec, d.out = rec, nil
	author := messages.RefOf(rec.GetActor())
	if e := rec.GetFact(); e != nil {
		d.agent(e)
		d.event("", author.ID, e)
	}
	for i, e := range rec.GetStep().GetDecisions() {
		id := messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), author, int(rec.GetStep().GetOffset())+i)
		d.event(id, author.ID, e)
	}
	return d.out
}

// add adds an event of a pod. Pods that are not known have none.
func (d *deriver) add(uid, container, kind, reason, format string, args ...any) {
	ref := d.pods[uid]
	if ref == nil {
		return
	}
	d.append(draft{pod: ref, container: container, kind: kind, reason: reason, message: fmt.Sprintf(format, args...)})
}

func (d *deriver) append(e draft) {
	e.at = d.rec.GetTime().AsTime()
	e.record = messages.Position{Epoch: d.rec.GetEpoch(), Seq: d.rec.GetSeq()}
	for _, other := range d.out {
		if other.pod.GetUid() == e.pod.GetUid() {
			e.index++
		}
	}
	d.out = append(d.out, e)
}

// updated notes a pod's name and manifest. What a source says under another name, also that this one is gone, belongs
// to the next incarnation: a pod keeps its name until it is added again.
func (d *deriver) updated(u *journaletv1.PodUpdated) {
	is := u.GetPod()
	was := d.pods[is.GetUid()]
	if was == nil || added(u) ||
		was.GetName() == is.GetName() && was.GetNamespace() == is.GetNamespace() {
		d.pods[is.GetUid()] = is
	}
}

// event derives the Kubernetes events of one event. author is the id of the event's actor, id the id of a decision.
func (d *deriver) event(id, author string, e *journaletv1.Event) {
	eventType := describe.EventType(e)
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PodUpdated:
		d.updated(k.PodUpdated)
	case *journaletv1.Event_PodForgotten:
		delete(d.pods, k.PodForgotten.GetUid())
		delete(d.ending, k.PodForgotten.GetUid())
		delete(d.mounts, k.PodForgotten.GetUid())
	case *journaletv1.Event_AdmissionDecided:
		if a := k.AdmissionDecided; a.GetReason() != "" {
			d.add(a.GetUid(), "", eventType, a.GetReason(), "%s", strings.TrimPrefix(a.GetMessage(), rejected))
		}
	case *journaletv1.Event_AdmissionPendingPreemption:
		d.preempted(eventType, k.AdmissionPendingPreemption.GetVictims())
	case *journaletv1.Event_ResizePendingPreemption:
		d.preempted(eventType, k.ResizePendingPreemption.GetVictims())
	case *journaletv1.Event_PodEvictionDecided:
		d.ends(k.PodEvictionDecided.GetUid(), k.PodEvictionDecided.GetGrace())
		if k := k.PodEvictionDecided; k.GetReason() != "" {
			d.add(k.GetUid(), "", eventType, k.GetReason(), "%s", k.GetMessage())
		}
	case *journaletv1.Event_ImagePullRequested:
		d.pullRequested(eventType, k.ImagePullRequested)
	case *journaletv1.Event_ImagePullDecided:
		d.pullDecided(eventType, k.ImagePullDecided)
	case *journaletv1.Event_CallRequested:
		d.callRequested(id, author, k.CallRequested)
	case *journaletv1.Event_CallDropped:
		delete(d.calls, k.CallDropped.GetIntentId())
	case *journaletv1.Event_CallFinished:
		d.callFinished(k.CallFinished)
	case *journaletv1.Event_ProbeResult:
		d.probed(eventType, k.ProbeResult)
	case *journaletv1.Event_PodTerminating:
		if k := k.PodTerminating; k.GetReason() != "" {
			d.add(author, "", eventType, k.GetReason(), "%s", strings.TrimPrefix(k.GetMessage(), rejected))
			if k.GetReason() == pod.ReasonEvicted {
				d.ends(author, k.GetGrace())
			}
		}
	case *journaletv1.Event_PodStatusChanged:
		d.waits(author, k.PodStatusChanged)
		d.resizeConditions(author, k.PodStatusChanged)
	case *journaletv1.Event_PodTerminated:
		d.ended(author)
	case *journaletv1.Event_EvictionProgressed:
		d.evictionProgressed(k.EvictionProgressed)
	case *journaletv1.Event_ImagesCollected:
		d.collected(k.ImagesCollected)
	case *journaletv1.Event_ResizeDecided:
		if r := k.ResizeDecided; r.GetAllocated() {
			d.resize(r.GetUid(), eventType, "ResizeStarted", "Pod resize started", "")
		}
	case *journaletv1.Event_ResizeCompleted:
		d.resize(author, eventType, "ResizeCompleted", "Pod resize completed", "")
	}
}

// rejected begins the status message of a rejected pod; its event has the rest.
const rejected = "Pod was rejected: "

func (d *deriver) preempted(eventType string, victims []string) {
	for _, uid := range victims {
		d.ends(uid, nil)
		d.add(uid, "", eventType, pod.ReasonPreempting, "%s", pod.MessagePreempting)
	}
}

// containerWith returns the first container of a pod with an image.
func (d *deriver) containerWith(uid, image string) string {
	for c := range containers.All(d.podOf(uid)) {
		if c.Image == image {
			return c.Name
		}
	}
	return ""
}

// podOf returns a pod's manifest, an empty pod if it is not known.
func (d *deriver) podOf(uid string) *corev1.Pod {
	if ref := d.pods[uid]; ref != nil {
		if p, err := d.manifest(ref.GetDigest()); err == nil && p != nil {
			return p
		}
	}
	return new(corev1.Pod)
}

func (d *deriver) imageOf(uid, container string) string {
	if c := containers.Find(d.podOf(uid), container); c != nil {
		return c.Image
	}
	return ""
}

func (d *deriver) pullRequested(eventType string, r *journaletv1.ImagePullRequested) {
	d.add(r.GetUid(), d.containerWith(r.GetUid(), r.GetImage()), eventType, "Pulling", "Pulling image %q",
		r.GetImage())
}

const (
	reasonFailed = "Failed"
	present      = "Container image %q already present on machine and can be accessed by the pod"
)

func (d *deriver) pullDecided(eventType string, a *journaletv1.ImagePullDecided) {
	uid, image := a.GetUid(), a.GetImage()
	container := d.containerWith(uid, image)
	took := a.GetDuration().AsDuration().Truncate(time.Millisecond)
	switch a.GetError() {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		if a.GetAlreadyPresent() {
			d.add(uid, container, eventType, "Pulled", present, image)
			return
		}
		d.add(uid, container, eventType, "Pulled",
			"Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", image, took, took, a.GetBytes())
	case journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME:
		d.add(uid, container, eventType, "InspectFailed", "Failed to apply default image tag %q: %s", image,
			a.GetMessage())
		d.add(uid, container, eventType, reasonFailed, "Error: InvalidImageName")
	default:
		d.missingSecrets(uid, a.GetMessage())
		d.add(uid, container, eventType, reasonFailed, "Failed to pull image %q: %s", image, a.GetMessage())
		d.add(uid, container, eventType, reasonFailed, "Error: ErrImagePull")
	}
}

// waits derives the events of containers that begin to wait.
func (d *deriver) waits(uid string, c *journaletv1.PodStatusChanged) {
	ref := d.pods[uid]
	for _, name := range slices.Sorted(maps.Keys(c.GetWaiting())) {
		w := c.GetWaiting()[name]
		// One that waits for an object, which is missing or cannot be read, has no call that fails.
		if m := w.GetMessage(); strings.HasPrefix(m, failedSetUp) && m != d.mounts[uid] {
			d.notMounted(uid, m)
		}
		switch w.GetReason() {
		case "CrashLoopBackOff":
			d.add(uid, name, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)",
				name, ref.GetName(), ref.GetNamespace(), uid)
		case "ImagePullBackOff":
			d.add(uid, name, corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", d.imageOf(uid, name))
			d.add(uid, name, corev1.EventTypeWarning, reasonFailed, "Error: ImagePullBackOff")
		case "ErrImageNeverPull":
			d.add(uid, name, corev1.EventTypeWarning, "ErrImageNeverPull",
				"Container image %q is not present with pull policy of Never", d.imageOf(uid, name))
			d.add(uid, name, corev1.EventTypeWarning, reasonFailed, "Error: ErrImageNeverPull")
		case "CreateContainerConfigError":
			d.add(uid, name, corev1.EventTypeWarning, reasonFailed, "Error: %s", w.GetMessage())
		}
	}
}

// probed derives events of failures, and of successes with a warning.
func (d *deriver) probed(eventType string, r *journaletv1.ProbeResult) {
	if r.GetMessage() == "" {
		return
	}
	reason := "Unhealthy"
	if r.GetSuccess() {
		reason = "ProbeWarning"
	}
	d.add(r.GetUid(), r.GetContainer(), eventType, reason, "%s", r.GetMessage())
}
