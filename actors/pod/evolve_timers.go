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
	a.keep(b.GetContainer()).BackOff = &journaletv1.BackOff{
		Key: b.GetKey(), Delay: b.GetDelay(), UpdatedAt: timestamppb.New(e.Time),
	}
}

// evolveFired notes that a wait is over, by forgetting when it began. To work that out from the time
// of day would have it begin again and again after the clock was set back.
func (a *Actor) evolveFired(timer string) {
	s := a.state
	switch timer {
	case orphanTimer:
		s.OrphanGraceOver = true
	case sandboxTimer:
		s.SandboxFailedAt = nil
	case volumesTimer:
		s.VolumeFailedAt = nil
	case tearDownTimer:
		s.CleanFailedAt = nil
	case graceTimer:
		s.PastGrace = true
	case resizeTimer:
		if s.GetResize() != nil {
			s.Resize.FailedAt = nil
		}
	}
	if name, ok := strings.CutPrefix(timer, preStopTimer); ok && s.Containers[name] != nil {
		s.Containers[name].PreStoppedId = s.Containers[name].GetTermination().GetContainerId()
	}
	if name, ok := strings.CutPrefix(timer, startTimer); ok && s.Containers[name] != nil {
		s.Containers[name].StartFailedAt = nil
	}
	if name, ok := strings.CutPrefix(timer, backOffTimer); ok && s.Containers[name].GetBackOff() != nil {
		s.Containers[name].BackOff.UpdatedAt = nil
	}
}

// forgetStarts forgets, when a new sandbox stands, which starts failed before: that their sandbox was ending is no reason to
// wait in this one. How often there is a new sandbox is bounded by sandboxWait and by the back-off of what ran.
func (a *Actor) forgetStarts() {
	for _, name := range slices.Sorted(maps.Keys(a.state.Containers)) {
		r := a.state.Containers[name]
		if r.GetStartFailures() == 0 {
			continue
		}
		r.StartFailures, r.StartFailedAt = 0, nil
		if !r.GetImageRequested() {
			r.StartError = nil
		}
		takeBackOffBack(r)
	}
}

// takeBackOffBack undoes the step of the back-off that was taken for a start which came to nothing: the wait before it is
// over, and the next start takes the same step.
func takeBackOffBack(r *journaletv1.ContainerRecord) {
	if b := r.GetBackOff(); b != nil {
		b.UpdatedAt, b.Delay = nil, durationpb.New(b.GetDelay().AsDuration()/2)
	}
}
