package pleg

import (
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Stamps order the inspections and the ends of calls of one run of the agent (ADR 022). A stamp is the time of day, or,
// if that is not after the last stamp, the last stamp plus a nanosecond. So of an inspection and a call, the one with
// the greater stamp came later, even if the clock was set. Stamps of two runs do not compare.
type Stamps struct {
	now func() time.Time

	mu   sync.Mutex
	last time.Time
}

// NewStamps returns stamps from a clock of the time of day.
func NewStamps(now func() time.Time) *Stamps { return &Stamps{now: now} }

// InspectionBegan returns the stamp of an inspection that begins now. Call it before the first call to the runtime.
func (s *Stamps) InspectionBegan() *timestamppb.Timestamp {
	_, stamp := s.next()
	return timestamppb.New(stamp)
}

// CallEnded is called when the outcome of a call is known and not yet recorded. The record gets the time at; ended is
// the stamp.
func (s *Stamps) CallEnded() (at time.Time, ended *timestamppb.Timestamp) {
	at, stamp := s.next()
	return at, timestamppb.New(stamp)
}

func (s *Stamps) next() (at, stamp time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Round removes the monotonic part: with it, two times would compare as if the clock was never set.
	at = s.now().Round(0)
	if stamp = at; !stamp.After(s.last) {
		stamp = s.last.Add(1)
	}
	s.last = stamp
	return at, stamp
}
