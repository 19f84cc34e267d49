package podmetrics

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages/journaletv1"
)

// starting has the starts of pods that are measured, by UID. The goroutine that delivers records uses it.
type starting map[string]*podStart

// podStart is a start of a pod that has not ended.
type podStart struct {
	// added is the time of the pod's first record. ran: the pod has run.
	added time.Time
	ran   bool
	// sli is nil where the start does not count for the latency of starts.
	sli *sliStart
}

// sliStart is what the latency of a pod's start is computed from (kubelet: pkg/kubelet/util, its tracker of latencies).
type sliStart struct {
	// created is the creationTimestamp, of the API server's clock, in whole seconds.
	created time.Time
	// pulling has the images that are being pulled, since is when the first of them was requested, and pulled is how long
	// there was at least one before that.
	pulling map[string]bool
	since   time.Time
	pulled  time.Duration
	// attempts has, for each init container, the first attempt that initialized does not include yet. initialized is
	// how long init containers have run.
	attempts    map[string]uint32
	initialized time.Duration
}

func newPodStart(at time.Time, p *journaletv1.PodRef) *podStart {
	s := &podStart{added: at}
	if p.GetApi() != nil && p.GetCreatedAt() != nil {
		s.sli = &sliStart{created: p.GetCreatedAt().AsTime(), pulling: map[string]bool{}, attempts: map[string]uint32{}}
	}
	return s
}

// over reports whether all of the start is measured.
func (s *podStart) over() bool { return s.ran && s.sli == nil }

// measureObserved ends the latency of a pod's start once all its containers run.
func (d *Driver) measureObserved(at time.Time, o *journaletv1.PodObserved) {
	s := d.starting[o.GetUid()]
	if s == nil || s.sli == nil {
		return
	}
	m := d.newest(o.GetUid())
	if m == nil {
		return
	}
	ranBefore := slices.ContainsFunc(o.GetContainers(), func(c *journaletv1.ContainerObservation) bool {
		return c.GetStartedAt() != nil && c.GetStartedAt().AsTime().Before(s.added)
	})
	if ranBefore || isStateful(m) {
		s.sli = nil
		d.endStart(o.GetUid(), s)
		return
	}
	running := map[string]bool{}
	for _, c := range o.GetContainers() {
		s.sli.initExited(m, c)
		running[c.GetName()] = c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING
	}
	if !allRun(m, running) {
		return
	}
	d.metrics.PodContainersStarted(max(0, at.Sub(s.sli.created)-s.sli.pulled-s.sli.initialized))
	s.sli = nil
	d.endStart(o.GetUid(), s)
}

// endStart forgets a start once all of it is measured.
func (d *Driver) endStart(uid string, s *podStart) {
	if s.over() {
		delete(d.starting, uid)
	}
}

// allRun reports whether each container runs that is no init container.
func allRun(m *corev1.Pod, running map[string]bool) bool {
	for i := range m.Spec.Containers {
		if !running[m.Spec.Containers[i].Name] {
			return false
		}
	}
	return true
}

// initExited adds the run of an init container. The runtime shows the end of a run again and again.
func (s *sliStart) initExited(m *corev1.Pod, c *journaletv1.ContainerObservation) {
	if c.GetState() != journaletv1.ContainerState_CONTAINER_STATE_EXITED || c.GetStartedAt() == nil ||
		s.attempts[c.GetName()] > c.GetAttempt() {
		return
	}
	for i := range m.Spec.InitContainers {
		init := &m.Spec.InitContainers[i]
		if init.Name == c.GetName() && ptr.Deref(init.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			s.attempts[c.GetName()] = c.GetAttempt() + 1
			s.initialized += max(0, c.GetFinishedAt().AsTime().Sub(c.GetStartedAt().AsTime()))
		}
	}
}

// pullRequested notes that a pod waits for an image.
func (s *podStart) pullRequested(at time.Time, image string) {
	if s == nil || s.sli == nil {
		return
	}
	if len(s.sli.pulling) == 0 {
		s.sli.since = at
	}
	s.sli.pulling[image] = true
}

// pullEnded notes that a pod waits for an image no more. A pull that the image actor has repeated by itself counts by
// its duration: the pod did not request it.
func (s *podStart) pullEnded(at time.Time, image string, took time.Duration) {
	switch {
	case s == nil || s.sli == nil:
	case !s.sli.pulling[image]:
		s.sli.pulled += took
	default:
		delete(s.sli.pulling, image)
		if len(s.sli.pulling) == 0 {
			s.sli.pulled += max(0, at.Sub(s.sli.since))
		}
	}
}

// isStateful reports whether a pod has volumes that exclude its start from the latencies (kubelet: the same).
func isStateful(m *corev1.Pod) bool {
	for i := range m.Spec.Volumes {
		v := &m.Spec.Volumes[i]
		if v.Secret == nil && v.ConfigMap == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.Projected == nil {
			return true
		}
	}
	return false
}
