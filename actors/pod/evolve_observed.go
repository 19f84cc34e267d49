package pod

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/journaletv1"
)

// The status of a container that vanished while it should have run (pkg/kubelet: ContainerStatusUnknown with the exit
// code of SIGKILL).
const (
	reasonStatusUnknown  = "ContainerStatusUnknown"
	messageStatusUnknown = "The container could not be located when the pod was observed. The container used to be Running"
	exitStatusUnknown    = 137
)

// evolveObserved folds what the runtime shows of the pod, unless something newer is known.
func (a *Actor) evolveObserved(o *journaletv1.PodObserved) {
	s := a.state
	old := s.GetObserved()
	if old != nil && o.GetObservedAt().AsTime().Before(old.GetObservedAt().AsTime()) {
		return
	}
	if s.GetStage() == finished && old == nil {
		// The runtime created something late, for an earlier run of the agent or for a lost journal.
		s.Containers, s.SandboxId, s.NextSandboxAttempt = a.keptCounts(), "", 0
	}
	unseen := a.Unseen() && s.GetTrustsFirstInspection()
	shown, o := idsIn(old), a.withoutRemoved(o)
	as := &journaletv1.PodRef{Uid: a.self.ID, Namespace: o.GetPodNamespace(), Name: o.GetPodName()}
	if as.GetName() != "" && s.GetPod() == nil {
		s.ReportedAs = as
	}
	o, reported := withoutOnce(o)
	lost := a.lostNetwork()
	s.Observed = o
	if len(o.GetSandboxes()) > 0 || len(o.GetContainers()) > 0 {
		s.UsedRuntime = true
	}
	a.evolveSandboxes(o, shown[s.GetSandboxId()])
	a.evolveOtherName(as)
	a.evolveNetworkLost(o, lost)
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
		c := newest[name]
		recorded := a.hasStartRecord(c)
		if a.evolveContainer(c); !recorded {
			a.adoptHook(c, unseen)
			a.evolveFound(c, reported[c.GetId()])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Containers)) {
		r := s.Containers[name]
		if newest[name] == nil || r.GetCurrent().GetAttempt() > newest[name].GetAttempt() {
			a.evolveVanished(r, o.GetObservedAt(), shown[r.GetCurrent().GetId()])
		}
	}
}

// evolveOtherName folds that the pod's newest sandbox is an earlier pod's, by the name under which the first inspection
// has shown it: one with this UID, of a journal that was lost.
func (a *Actor) evolveOtherName(as *journaletv1.PodRef) {
	s := a.state
	p := s.GetPod()
	if p == nil || as.GetName() == "" || as.GetName() == p.GetName() && as.GetNamespace() == p.GetNamespace() {
		return
	}
	s.MisnamedSandboxId = s.GetSandboxId()
}

// withoutOnce returns an observation without what is folded once: the pod's name, and the containers' resources as the
// runtime reports them, by container id. It is a copy where something is left out.
func withoutOnce(o *journaletv1.PodObserved) (*journaletv1.PodObserved, map[string]*journaletv1.Resources) {
	reports := func(c *journaletv1.ContainerObservation) bool { return c.GetResources() != nil }
	if o.GetPodName() == "" && !slices.ContainsFunc(o.GetContainers(), reports) {
		return o, nil
	}
	o = proto.CloneOf(o)
	o.PodNamespace, o.PodName = "", ""
	reported := map[string]*journaletv1.Resources{}
	for _, c := range o.GetContainers() {
		reported[c.GetId()], c.Resources = c.GetResources(), nil
	}
	return o, reported
}

// idsIn returns the ids of the observed sandboxes and containers, without a container that only the outcome of a call
// put there: no inspection has shown it yet.
func idsIn(o *journaletv1.PodObserved) map[string]bool {
	shown := map[string]bool{}
	for _, x := range o.GetSandboxes() {
		shown[x.GetId()] = true
	}
	for _, c := range o.GetContainers() {
		shown[c.GetId()] = c.GetState() != stoppedUnobserved || c.GetStartedAt() != nil
	}
	return shown
}

// evolveSandboxes finds the sandbox for containers: the newest ready sandbox. A sandbox that was never observed may be
// younger than the inspection.
func (a *Actor) evolveSandboxes(o *journaletv1.PodObserved, known bool) {
	s := a.state
	var newest *journaletv1.SandboxObservation
	for _, x := range o.GetSandboxes() {
		s.NextSandboxAttempt = max(s.NextSandboxAttempt, x.GetAttempt()+1)
		known = known || x.GetId() == s.GetSandboxId()
		if newest == nil || x.GetAttempt() >= newest.GetAttempt() {
			newest = x
		}
	}
	// An inspection from before the last sandbox was created shows what was there then.
	before := s.GetSandboxId() != "" && newest.GetAttempt()+1 < s.GetNextSandboxAttempt() &&
		!o.GetObservedAt().AsTime().After(s.GetSandboxCreatedAt().AsTime())
	switch {
	case before:
	case newest.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY:
		s.SandboxId = newest.GetId()
	case known || o.GetObservedAt().AsTime().After(s.GetSandboxCreatedAt().AsTime()):
		s.SandboxId = ""
	}
	s.StoppedSandboxes = slices.DeleteFunc(s.StoppedSandboxes, func(id string) bool {
		return !slices.ContainsFunc(o.GetSandboxes(), func(x *journaletv1.SandboxObservation) bool { return x.GetId() == id })
	})
}

// evolveContainer folds the newest instance of one container. Its state never goes back.
func (a *Actor) evolveContainer(c *journaletv1.ContainerObservation) {
	r := a.ensureRecord(c.GetName())
	cur := r.GetCurrent()
	switch {
	case cur == nil || cur.GetId() != c.GetId():
		// A start in doubt may be repeated with another instance of the same attempt, which an earlier inspection does
		// not show.
		unknown := cur.GetAttempt() == c.GetAttempt() &&
			cur.GetCreatedAt().AsTime().After(a.state.GetObserved().GetObservedAt().AsTime())
		if cur != nil && (cur.GetAttempt() > c.GetAttempt() || unknown) {
			return
		}
		if cur == nil && isCreated(c) && r.GetCreated() == nil && !a.calling(forContainer(c.GetName())) {
			// A call without a record created it, and may still start it. It counts as a failed start, so that the next
			// one waits.
			r.StartFailures, r.StartFailedAt = 1, a.state.GetObserved().GetObservedAt()
		}
		a.setNewest(r, c)
	case isCreated(cur):
		a.setNewest(r, c)
	case !exited(cur) && !(running(cur) && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_CREATED):
		r.Current = c
	}
}

// forgetCreationTimes drops when an earlier run of the agent created what no inspection has shown. The first inspection
// of this run, at whatever time, then shows whether it exists.
func (a *Actor) forgetCreationTimes() {
	shown := idsIn(a.state.GetObserved())
	if id := a.state.GetSandboxId(); id != "" && !shown[id] {
		a.state.SandboxCreatedAt = nil
	}
	for _, name := range slices.Sorted(maps.Keys(a.state.Containers)) {
		if r := a.state.Containers[name]; running(r.GetCurrent()) && !shown[r.GetCurrent().GetId()] {
			r.Current = proto.CloneOf(r.GetCurrent())
			r.Current.CreatedAt = nil
		}
	}
}

// evolveVanished ends a container that ran and that the runtime no longer shows, unless it was never shown and is
// younger than the inspection. One that was never started is dropped.
func (a *Actor) evolveVanished(r *journaletv1.ContainerRecord, at *timestamppb.Timestamp, shown bool) {
	cur := r.GetCurrent()
	if cur == nil || exited(cur) || !shown && !cur.GetCreatedAt().AsTime().Before(at.AsTime()) {
		return
	}
	if isCreated(cur) && cur.GetId() == r.GetNeverStartedId() {
		a.evolveNotRun(r, cur.GetId(), cur.GetAttempt())
		return
	}
	gone := proto.CloneOf(cur)
	gone.State = journaletv1.ContainerState_CONTAINER_STATE_EXITED
	gone.ExitCode, gone.Reason, gone.Message = exitStatusUnknown, reasonStatusUnknown, messageStatusUnknown
	gone.FinishedAt = at
	r.Current = gone
}
