package pod

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

func (a *Actor) evolveBackOff(e actors.Event, b *journaletv1.BackOffStarted) {
	a.ensureRecord(b.GetContainer()).BackOff = &journaletv1.BackOff{
		Key: b.GetKey(), Delay: b.GetDelay(), UpdatedAt: timestamppb.New(e.Time),
	}
}

// evolveTimerSet folds that a container begins to wait for a delay. It does not wait for an image meanwhile, even if a
// request of the same step for another container named its image.
func (a *Actor) evolveTimerSet(timer string) {
	for _, prefix := range []string{startTimer, backOffTimer} {
		if name, ok := strings.CutPrefix(timer, prefix); ok && a.state.Containers[name] != nil {
			awaitNoImage(a.state.Containers[name])
		}
	}
}

// evolveTimerFired folds that a wait is over by dropping when it began. Computing that from the time of day would start
// the wait again and again after the clock was set back.
func (a *Actor) evolveTimerFired(timer string) {
	s := a.state
	switch timer {
	case orphanTimer:
		s.OrphanGraceOver = true
	case sandboxTimer:
		s.SandboxFailedAt = nil
	case tearDownTimer:
		s.CleanFailedAt = nil
	case graceTimer:
		s.PastGrace = true
	case restartTimer:
		if s.GetRestart() != nil {
			s.Restart.PastGrace = true
		}
	case claimsTimer:
		if s.GetClaims() != nil {
			s.Claims.FailedAt = nil
		}
	case resizeTimer:
		if s.GetResize() != nil {
			s.Resize.FailedAt = nil
		}
	}
	if name, ok := strings.CutPrefix(timer, volumeTimer); ok && s.Volumes[name] != nil {
		s.Volumes[name].FailedAt = nil
	}
	if name, ok := strings.CutPrefix(timer, preStopTimer); ok && s.Containers[name] != nil {
		s.Containers[name].PreStoppedId = s.Containers[name].GetTermination().GetContainerId()
	}
	if name, ok := strings.CutPrefix(timer, startTimer); ok && s.Containers[name] != nil {
		s.Containers[name].StartFailedAt = nil
	}
	if name, ok := strings.CutPrefix(timer, cpusTimer); ok && s.Containers[name] != nil {
		s.Containers[name].CpusFailedAt = nil
	}
	for _, alloc := range s.GetDevices() {
		if timer == timerOf(alloc.GetDevices()) {
			alloc.FailedAt = nil
		}
	}
	if name, ok := strings.CutPrefix(timer, backOffTimer); ok && s.Containers[name].GetBackOff() != nil {
		s.Containers[name].BackOff.UpdatedAt = nil
	}
}

// resetStartFailures drops, when a new sandbox is ready, which starts failed before. That their sandbox was ending is
// no reason to wait in this one. sandboxWait and the back-off of what ran bound how often there is a new sandbox.
func (a *Actor) resetStartFailures() {
	for _, name := range slices.Sorted(maps.Keys(a.state.Containers)) {
		if r := a.state.Containers[name]; r.GetStartFailures() > 0 {
			a.resetStart(r)
		}
	}
}

// resetStart drops the failed starts of a container.
func (a *Actor) resetStart(r *journaletv1.ContainerRecord) {
	r.StartFailures, r.StartFailedAt = 0, nil
	if !awaitsImages(r) {
		r.StartError = nil
	}
	// Where an inspection has shown the sandbox before, a start is under way, with its back-off. A wait that has begun
	// continues.
	if !a.calling(startOf(r.GetName())) && a.state.GetTimers().GetSet()[backOffTimer+r.GetName()] == nil {
		undoBackOff(r)
	}
}

// undoBackOff undoes the back-off step of a start that did not take place: the wait before it is over, and the next
// start takes the same step. A step that was undone before is not undone again. A start that an operator requested took
// none.
func undoBackOff(r *journaletv1.ContainerRecord) {
	if b := r.GetBackOff(); b.GetUpdatedAt() != nil && !r.GetRestartRequested() {
		b.UpdatedAt, b.Delay = nil, durationpb.New(b.GetDelay().AsDuration()/2)
	}
}
