package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Shutdown is how pods end when the machine shuts down; the kubelet's fields.
type Shutdown struct {
	// Period is the time of all pods together, CriticalPods the last part of it, for system-critical ones.
	Period, CriticalPods time.Duration
	// ByPriority are the groups, instead of Period and CriticalPods.
	ByPriority []ShutdownGroup
}

// ShutdownGroup is a group of pods that end together: pods with this priority, and up to the next group's priority.
type ShutdownGroup struct {
	Priority int32
	Seconds  int64
}

// criticalPriority is the least priority of a system-critical pod (API: SystemCriticalPriority).
const criticalPriority = 2_000_000_000

// Groups returns the groups for the node actor, lowest priority first; none if shutdowns are not delayed.
func (s Shutdown) Groups() []*journaletv1.ShutdownGroup {
	groups := slices.Clone(s.ByPriority)
	if len(groups) == 0 && s.Period > 0 {
		// Whole seconds, as in the kubelet.
		groups = []ShutdownGroup{
			{Priority: 0, Seconds: int64((s.Period - s.CriticalPods) / time.Second)},
			{Priority: criticalPriority, Seconds: int64(s.CriticalPods / time.Second)},
		}
	}
	slices.SortStableFunc(groups, func(x, y ShutdownGroup) int { return cmp.Compare(x.Priority, y.Priority) })
	var out []*journaletv1.ShutdownGroup
	for _, g := range groups {
		out = append(out, &journaletv1.ShutdownGroup{
			Priority: g.Priority, Grace: durationpb.New(time.Duration(g.Seconds) * time.Second),
		})
	}
	return out
}

// Delay returns how long a shutdown is delayed at most; 0: not at all.
func (s Shutdown) Delay() (sum time.Duration) {
	for _, g := range s.Groups() {
		sum += g.GetGrace().AsDuration()
	}
	return sum
}

// maxShutdownSeconds bounds one group; systemd's times are 64-bit microseconds.
const maxShutdownSeconds = math.MaxInt32

func (s Shutdown) validate() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	short := func(d time.Duration) bool {
		return d < 0 || d > 0 && d < time.Second || d > maxShutdownSeconds*time.Second
	}
	if short(s.Period) {
		bad("shutdownGracePeriod: %v is neither 0 nor at least 1s", s.Period)
	}
	if short(s.CriticalPods) {
		bad("shutdownGracePeriodCriticalPods: %v is neither 0 nor at least 1s", s.CriticalPods)
	}
	if s.CriticalPods > s.Period {
		bad("shutdownGracePeriodCriticalPods: %v is above shutdownGracePeriod: %v", s.CriticalPods, s.Period)
	}
	if len(s.ByPriority) > 0 && (s.Period > 0 || s.CriticalPods > 0) {
		bad("shutdownGracePeriodByPodPriority and shutdownGracePeriod are both set: remove one of them")
	}
	for _, g := range s.ByPriority {
		if g.Seconds < 0 || g.Seconds > maxShutdownSeconds {
			bad("shutdownGracePeriodByPodPriority: %d seconds of priority %d are not within 0 and %d", g.Seconds, g.Priority,
				maxShutdownSeconds)
		}
	}
	return errs
}
