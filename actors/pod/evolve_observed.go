package pod

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/journaletv1"
)

// What the kubelet says of a container that vanished while it should have run
// (pkg/kubelet: ContainerStatusUnknown with the exit code of SIGKILL).
const (
	reasonStatusUnknown  = "ContainerStatusUnknown"
	messageStatusUnknown = "The container could not be located when the pod was observed. The container used to be Running"
	exitStatusUnknown    = 137
)

// evolveObserved folds what the runtime shows of the pod, unless something newer is known.
func (a *Actor) evolveObserved(o *journaletv1.PodObserved) {
	s := a.state
	if old := s.GetObserved(); old != nil && o.GetObservedAt().AsTime().Before(old.GetObservedAt().AsTime()) {
		return
	}
	s.Observed = o
	if len(o.GetSandboxes()) > 0 || len(o.GetContainers()) > 0 {
		s.Touched = true
	}
	a.evolveSandboxes(o)
	newest := map[string]*journaletv1.ContainerObservation{}
	var names []string
	for _, c := range o.GetContainers() {
		if newest[c.GetName()] == nil {
			names = append(names, c.GetName())
		}
		if n := newest[c.GetName()]; n == nil || c.GetAttempt() >= n.GetAttempt() {
			newest[c.GetName()] = c
		}
	}
	for _, name := range names {
		a.evolveContainer(newest[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Containers)) {
		r := s.Containers[name]
		if newest[name] == nil || r.GetCurrent().GetAttempt() > newest[name].GetAttempt() {
			a.vanish(r, o.GetObservedAt())
		}
	}
}

// evolveSandboxes finds the sandbox that containers are to run in: the newest that is ready.
func (a *Actor) evolveSandboxes(o *journaletv1.PodObserved) {
	s := a.state
	var newest *journaletv1.SandboxObservation
	known := false
	for _, x := range o.GetSandboxes() {
		s.NextSandboxAttempt = max(s.NextSandboxAttempt, x.GetAttempt()+1)
		known = known || x.GetId() == s.GetSandboxId()
		if newest == nil || x.GetAttempt() >= newest.GetAttempt() {
			newest = x
		}
	}
	switch {
	case newest.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY:
		s.SandboxId = newest.GetId()
	case known || o.GetObservedAt().AsTime().After(s.GetSandboxMadeAt().AsTime()):
		s.SandboxId = ""
	}
}

// evolveContainer folds the newest instance of one container. Its state never goes back.
func (a *Actor) evolveContainer(c *journaletv1.ContainerObservation) {
	r := a.keep(c.GetName())
	cur := r.GetCurrent()
	switch {
	case cur == nil || cur.GetId() != c.GetId():
		if cur.GetAttempt() > c.GetAttempt() && cur != nil {
			return
		}
		a.succeed(r, c)
	case !exited(cur) && !(running(cur) && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_CREATED):
		r.Current = c
	}
}

// vanish ends a container that ran and that the runtime no longer shows, unless it is younger than
// the look.
func (a *Actor) vanish(r *journaletv1.ContainerRecord, at *timestamppb.Timestamp) {
	cur := r.GetCurrent()
	if cur == nil || exited(cur) || !cur.GetCreatedAt().AsTime().Before(at.AsTime()) {
		return
	}
	gone := proto.CloneOf(cur)
	gone.State = journaletv1.ContainerState_CONTAINER_STATE_EXITED
	gone.ExitCode, gone.Reason, gone.Message = exitStatusUnknown, reasonStatusUnknown, messageStatusUnknown
	gone.FinishedAt = at
	r.Current = gone
}
