package pod

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// calling tells whether a call that match accepts is under way.
func (a *Actor) calling(match func(*journaletv1.CallRequested) bool) bool {
	for _, id := range slices.Sorted(maps.Keys(a.state.Calls)) {
		if match(a.state.Calls[id].GetRequest()) {
			return true
		}
	}
	return false
}

// forContainer matches every call for one container.
func forContainer(name string) func(*journaletv1.CallRequested) bool {
	return func(r *journaletv1.CallRequested) bool {
		return r.GetStartContainer() != nil && r.GetStartContainer().GetContainer() == name ||
			r.GetStopContainer() != nil && r.GetStopContainer().GetContainer() == name
	}
}

// mayRun tells whether an instance has not ended as far as is known.
func (a *Actor) mayRun(name, id string) bool {
	for _, c := range a.state.GetObserved().GetContainers() {
		if c.GetId() == id {
			return !exited(c) && c.GetState() != stoppedUnobserved
		}
	}
	cur := a.record(name).GetCurrent()
	return cur.GetId() == id && !exited(cur)
}

// made is the instance of a container that waits for its start, nil if there is none: one in another sandbox will not be
// started. What an update of the manifest brings it gets as one that runs does.
func (a *Actor) made(r *journaletv1.ContainerRecord) *journaletv1.CreatedContainer {
	m := r.GetCreated()
	if m == nil || m.GetSandboxId() != a.state.GetSandboxId() {
		return nil
	}
	return m
}

// alive tells whether a container may still hold a process.
func alive(c *journaletv1.ContainerObservation) bool {
	return running(c) || c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN
}

// podIPs are the addresses of the sandbox that containers run in.
func (a *Actor) podIPs() []string {
	for _, x := range a.state.GetObserved().GetSandboxes() {
		if x.GetId() == a.state.GetSandboxId() {
			return x.GetIps()
		}
	}
	return nil
}

// Actor is the decider of one pod.
type Actor struct {
	self  messages.Ref
	state *journaletv1.PodState
	// manifest is the one being carried out: wanted, with the resources of allocated; nil before the first PodUpdated.
	manifest *corev1.Pod
	// wanted is what state.pod.digest names, allocated what state.allocated_digest does.
	wanted, allocated *corev1.Pod
}

var _ actors.Decider = (*Actor)(nil)

// New makes the decider of the pod with this UID, of which nothing is known yet.
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
	if s.Timers == nil {
		s.Timers = new(journaletv1.Timers)
	}
	return s
}

// State is the state, to be read only.
func (a *Actor) State() proto.Message { return a.state }

// Pod is the state with its type, to be read only.
func (a *Actor) Pod() *journaletv1.PodState { return a.state }

// Manifest is the manifest being carried out, with the resources that are allocated; nil for a pod that no source has
// named. Read only.
func (a *Actor) Manifest() *corev1.Pod { return a.manifest }

// Observed tells whether every container that was started has been seen since: only then does the
// observation tell all, and a look that finds the same again brings nothing new.
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
	a.state, a.manifest, a.wanted, a.allocated = withMaps(s), nil, nil, nil
	return nil
}

// Digests names the manifest being carried out, and the one whose resources are allocated where that is another.
func (a *Actor) Digests() []string {
	var all []string
	for _, d := range []string{a.state.GetPod().GetDigest(), a.state.GetAllocatedDigest()} {
		if d != "" {
			all = append(all, d)
		}
	}
	return all
}

// Resolve hands over a manifest that Digests names.
func (a *Actor) Resolve(digest string, manifest *corev1.Pod) {
	switch digest {
	case a.state.GetPod().GetDigest():
		a.wanted = manifest
	case a.state.GetAllocatedDigest():
		a.allocated = manifest
	}
	a.carryOut()
}

// Timers are the back-offs under way.
func (a *Actor) Timers() *journaletv1.Timers { return a.state.GetTimers() }

// record is what is known of a container; a zero record for one that was never started. It is not
// part of the state until something is folded into it.
func (a *Actor) record(name string) *journaletv1.ContainerRecord {
	if r := a.state.Containers[name]; r != nil {
		return r
	}
	return &journaletv1.ContainerRecord{Name: name}
}

// keep is the record of a container, made if need be. Only Evolve may call it.
func (a *Actor) keep(name string) *journaletv1.ContainerRecord {
	r := a.state.Containers[name]
	if r == nil {
		r = &journaletv1.ContainerRecord{Name: name}
		a.state.Containers[name] = r
	}
	return r
}

// spec is the container of this name in the manifest, nil if there is none.
func (a *Actor) spec(name string) *corev1.Container { return findContainer(a.manifest, name) }

func findContainer(p *corev1.Pod, name string) *corev1.Container {
	for c := range containersOf(p) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// last is the instance before a container's newest one, if it ended. Where a journal was lost it is what the runtime still
// shows.
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

// running tells whether a container runs, or has to be taken to run until it is observed.
func running(c *journaletv1.ContainerObservation) bool {
	return c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING
}

func exited(c *journaletv1.ContainerObservation) bool {
	return c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED
}

// stoppedUnobserved is the state in what is observed of a container whose stop has ended and that no inspection has shown
// since. No inspection ever reports it.
const stoppedUnobserved = journaletv1.ContainerState_CONTAINER_STATE_UNSPECIFIED

// wasStopped tells whether a stop of an instance has ended, with nothing of it alive any more, though
// the look that tells how it ended is still to come.
func (a *Actor) wasStopped(c *journaletv1.ContainerObservation) bool {
	for _, o := range a.state.GetObserved().GetContainers() {
		if o.GetId() == c.GetId() {
			return o.GetState() == stoppedUnobserved
		}
	}
	return false
}

// grace is how long a container gets to end by itself, its preStop hook included.
func (a *Actor) grace() time.Duration {
	if a.manifest == nil || a.manifest.Spec.TerminationGracePeriodSeconds == nil {
		return defaultGrace
	}
	return time.Duration(*a.manifest.Spec.TerminationGracePeriodSeconds) * time.Second
}
