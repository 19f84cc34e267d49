package pod

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Actor is the decider of one pod.
type Actor struct {
	self  messages.Ref
	state *journaletv1.PodState
	// desired is the manifest of state.pod.digest, nil before the first PodUpdated.
	desired *corev1.Pod
	// allocated is the manifest of state.allocated_digest, nil where the desired resources are allocated.
	allocated *corev1.Pod
	// manifest is the effective one: desired, with the CPU and memory of allocated.
	manifest *corev1.Pod
	derived  derived
}

var _ actors.Decider = (*Actor)(nil)

// New returns the decider of the pod with this UID, with an empty state.
func New(uid string) *Actor {
	return &Actor{self: messages.Pod(uid), state: withMaps(new(journaletv1.PodState))}
}

func withMaps(s *journaletv1.PodState) *journaletv1.PodState {
	if s.Containers == nil {
		s.Containers = map[string]*journaletv1.ContainerRecord{}
	}
	if s.Calls == nil {
		s.Calls = map[string]*journaletv1.PodCall{}
	}
	if s.Conditions == nil {
		s.Conditions = map[string]*journaletv1.Condition{}
	}
	if s.Volumes == nil {
		s.Volumes = map[string]*journaletv1.VolumeRecord{}
	}
	if s.Timers == nil {
		s.Timers = new(journaletv1.Timers)
	}
	return s
}

// State returns the state, to be read only.
func (a *Actor) State() proto.Message { return a.state }

// Pod returns the typed state, to be read only.
func (a *Actor) Pod() *journaletv1.PodState { return a.state }

// Manifest returns the effective manifest: the desired one with the allocated resources. It is nil for a pod that no
// source has named. To be read only.
func (a *Actor) Manifest() *corev1.Pod { return a.manifest }

// Observed reports whether every started container has been observed since its start. Only then is the observation
// complete, and an inspection that finds the same again brings nothing new.
func (a *Actor) Observed() bool {
	for _, name := range slices.Sorted(maps.Keys(a.state.Containers)) {
		if cur := a.state.Containers[name].GetCurrent(); running(cur) && cur.GetStartedAt() == nil {
			return false
		}
	}
	return true
}

// Restore replaces the state.
func (a *Actor) Restore(b []byte) error {
	s := new(journaletv1.PodState)
	if err := proto.Unmarshal(b, s); err != nil {
		return fmt.Errorf("restore %s: %w", a.self, err)
	}
	a.state, a.manifest, a.desired, a.allocated, a.derived = withMaps(s), nil, nil, nil, derived{}
	return nil
}

// Digests returns the digest of the desired manifest, and of the one with the allocated resources where that is
// another.
func (a *Actor) Digests() []string {
	var all []string
	for _, d := range []string{a.state.GetPod().GetDigest(), a.state.GetAllocatedDigest()} {
		if d != "" {
			all = append(all, d)
		}
	}
	return all
}

// Resolve takes a manifest that Digests names.
func (a *Actor) Resolve(digest string, manifest *corev1.Pod) {
	switch digest {
	case a.state.GetPod().GetDigest():
		a.desired = manifest
	case a.state.GetAllocatedDigest():
		a.allocated = manifest
	}
	a.setManifest()
}

// Timers returns the timers that are set.
func (a *Actor) Timers() *journaletv1.Timers { return a.state.GetTimers() }

// record returns what is known of a container, a zero record if it was never started. A zero record is not part of the
// state: Evolve uses ensureRecord.
func (a *Actor) record(name string) *journaletv1.ContainerRecord {
	if r := a.state.Containers[name]; r != nil {
		return r
	}
	return &journaletv1.ContainerRecord{Name: name}
}

// ensureRecord returns the record of a container, which it creates if need be. Only Evolve may call it.
func (a *Actor) ensureRecord(name string) *journaletv1.ContainerRecord {
	r := a.state.Containers[name]
	if r == nil {
		r = &journaletv1.ContainerRecord{Name: name}
		a.state.Containers[name] = r
	}
	return r
}

// spec returns the container of this name in the effective manifest, or nil.
func (a *Actor) spec(name string) *corev1.Container { return containers.Find(a.manifest, name) }

// last returns the instance before a container's newest one, if it ended. After a lost journal it is the newest such
// instance that the runtime still shows.
func (a *Actor) last(r *journaletv1.ContainerRecord) *journaletv1.ContainerObservation {
	if r.GetLast() != nil {
		return r.GetLast()
	}
	var last *journaletv1.ContainerObservation
	for _, c := range a.state.GetObserved().GetContainers() {
		if c.GetName() == r.GetName() && exited(c) && c.GetAttempt() < r.GetCurrent().GetAttempt() &&
			(last == nil || c.GetAttempt() > last.GetAttempt()) {
			last = c
		}
	}
	return last
}

// running reports whether a container runs, or counts as running until it is observed.
func running(c *journaletv1.ContainerObservation) bool {
	return c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING
}

func exited(c *journaletv1.ContainerObservation) bool {
	return c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED
}

// stoppedUnobserved is the observed state of a container whose stop has ended and that no inspection has shown since.
// No inspection ever reports it.
const stoppedUnobserved = journaletv1.ContainerState_CONTAINER_STATE_UNSPECIFIED

// wasStopped reports whether a stop of an instance has ended. Nothing of the instance is alive, but how it ended is not
// observed yet.
func (a *Actor) wasStopped(c *journaletv1.ContainerObservation) bool {
	for _, o := range a.state.GetObserved().GetContainers() {
		if o.GetId() == c.GetId() {
			return o.GetState() == stoppedUnobserved
		}
	}
	return false
}

// grace returns how long a container has to end by itself, its preStop hook included.
func (a *Actor) grace() time.Duration {
	if g := a.state.GetGrace(); g != nil {
		return g.AsDuration()
	}
	seconds := graceSeconds(a.manifest)
	if seconds == nil {
		return defaultGrace
	}
	return graceOf(*seconds)
}

// mostGraceSeconds bounds a grace period, which the API server does not: 68 years, as activeDeadlineSeconds. One of 300
// years is beyond what a duration holds, and became the least.
const mostGraceSeconds = math.MaxInt32

// graceOf returns so many seconds as a grace period.
func graceOf(seconds int64) time.Duration {
	return time.Duration(min(seconds, mostGraceSeconds)) * time.Second
}

// graceSeconds returns the grace period of a manifest. As in the kubelet, the grace period of a deletion replaces the
// pod's own.
func graceSeconds(p *corev1.Pod) *int64 {
	if p == nil {
		return nil
	}
	if d := p.DeletionGracePeriodSeconds; d != nil && *d != 0 {
		return d
	}
	return p.Spec.TerminationGracePeriodSeconds
}

// alive reports whether a container may still have a process.
func alive(c *journaletv1.ContainerObservation) bool {
	return running(c) || c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN
}

// AnyAlive reports whether the last inspection has shown a container of the pod that runs.
func (a *Actor) AnyAlive() bool {
	return slices.ContainsFunc(a.state.GetObserved().GetContainers(), alive)
}

// maybeRunning reports whether an instance has not ended, as far as is known.
func (a *Actor) maybeRunning(name, id string) bool {
	for _, c := range a.state.GetObserved().GetContainers() {
		if c.GetId() == id {
			return !exited(c) && c.GetState() != stoppedUnobserved
		}
	}
	cur := a.record(name).GetCurrent()
	return cur.GetId() == id && !exited(cur)
}

// created returns the instance of a container that waits for its start, or nil. An instance in another sandbox is never
// started. A created instance gets an update of the manifest as a running one does.
func (a *Actor) created(r *journaletv1.ContainerRecord) *journaletv1.CreatedContainer {
	m := r.GetCreated()
	if m == nil || m.GetSandboxId() != a.state.GetSandboxId() {
		return nil
	}
	return m
}

// podIPs returns the addresses of the pod's sandbox.
func (a *Actor) podIPs() []string {
	for _, x := range a.state.GetObserved().GetSandboxes() {
		if x.GetId() == a.state.GetSandboxId() {
			return x.GetIps()
		}
	}
	return nil
}

// calling reports whether a call that match accepts is under way.
func (a *Actor) calling(match func(*journaletv1.CallRequested) bool) bool {
	for _, id := range slices.Sorted(maps.Keys(a.state.Calls)) {
		if match(a.state.Calls[id].GetRequest()) {
			return true
		}
	}
	return false
}

// forContainer matches the starts and stops of one container, and what plugins do before a start.
func forContainer(name string) func(*journaletv1.CallRequested) bool {
	return func(r *journaletv1.CallRequested) bool {
		return r.GetStartContainer() != nil && r.GetStartContainer().GetContainer() == name ||
			r.GetPreStartContainer() != nil && r.GetPreStartContainer().GetContainer() == name ||
			r.GetStopContainer() != nil && r.GetStopContainer().GetContainer() == name
	}
}
