package pleg

import (
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Stamps put the looks and the ends of calls of one run of the agent in order (ADR 022). Each is given the time of day, or, where
// that is not after everything that was given before, a nanosecond more than the newest. So of a look and a call the one with the
// greater stamp came later, whatever becomes of the clock. Stamps of two runs do not compare.
type Stamps struct {
	now func() time.Time

	mu   sync.Mutex
	last time.Time
}

// NewStamps makes stamps from a clock that tells the time of day.
func NewStamps(now func() time.Time) *Stamps { return &Stamps{now: now} }

// InspectionBegan is the stamp of a look that begins now. Call it before anything is asked of the runtime.
func (s *Stamps) InspectionBegan() *timestamppb.Timestamp {
	_, stamp := s.next()
	return timestamppb.New(stamp)
}

// CallEnded is called when the outcome of a call is known and not recorded yet. The record is to have the time at; ended is the stamp, nil
// where at is it.
func (s *Stamps) CallEnded() (at time.Time, ended *timestamppb.Timestamp) {
	at, stamp := s.next()
	if stamp.Equal(at) {
		return at, nil
	}
	return at, timestamppb.New(stamp)
}

func (s *Stamps) next() (at, stamp time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Without its monotonic part: with it two times would compare as if nobody had set the clock.
	at = s.now().Round(0)
	if stamp = at; !stamp.After(s.last) {
		stamp = s.last.Add(1)
	}
	s.last = stamp
	return at, stamp
}
