package why

import (
	"bytes"
	"errors"
	"slices"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// firstStretch is how many records podLog reads at once at first; each further stretch is twice as long.
const firstStretch = 8192

// podLog holds the events that concern a pod, from some record on. It reads further back when more is needed.
type podLog struct {
	x   *explainer
	uid string
	// low is the first record that was read, floor the first that may be: the pod's first one.
	low, floor uint64
	stretch    uint64
	events     []Event // ascending
	records    []*journaletv1.Record
}

// newPodLog returns the log of the records from..to.
func (x *explainer) newPodLog(uid string, from, to uint64) (*podLog, error) {
	l := &podLog{x: x, uid: uid, low: max(from, x.j.first), floor: x.j.first, stretch: firstStretch}
	recs, err := l.read(l.low, to)
	l.records = recs
	for _, rec := range recs {
		l.events = append(l.events, eventsOf(rec)...)
	}
	return l, err
}

// read returns the records from..to that concern the pod, and the agent's records.
func (l *podLog) read(from, to uint64) (recs []*journaletv1.Record, err error) {
	needle := []byte(l.uid)
	var bad error
	err = l.x.j.forwardOf(l.uid, from, to, func(h head, b []byte) bool {
		if h.author.Kind != journaletv1.ActorKind_ACTOR_KIND_AGENT && !bytes.Contains(b, needle) {
			return false
		}
		rec, err := messages.Decode(b)
		if err != nil {
			bad = err
			return true
		}
		recs = append(recs, rec)
		return false
	})
	return recs, errors.Join(err, bad)
}

// extend reads an earlier stretch. It returns false if no stretch is left, or if it may not be read.
func (l *podLog) extend() bool {
	if l.low <= l.floor {
		return false
	}
	from := l.floor
	if l.low-l.floor > l.stretch {
		from = l.low - l.stretch
	}
	l.stretch *= 2
	recs, err := l.read(from, l.low-1)
	if err != nil {
		l.floor = l.low
		return false
	}
	var events []Event
	for _, rec := range recs {
		events = append(events, eventsOf(rec)...)
	}
	l.low, l.events, l.records = from, slices.Concat(events, l.events), slices.Concat(recs, l.records)
	return true
}

// last returns the newest event before record seq that match accepts, nil for none. It reads back to the record from,
// or to the pod's first one.
func (l *podLog) last(seq, from uint64, match func(*Event) bool) *Event {
	for back := 1; ; back++ { // counted from the end: match may read further back itself
		for back > len(l.events) {
			if l.low <= from || !l.extend() {
				return nil
			}
		}
		e := l.events[len(l.events)-back]
		if e.Seq < from {
			return nil
		}
		if e.Seq < seq && match(&e) {
			return &e
		}
	}
}

// next returns the oldest event from record seq on that match accepts; nil if no event matches. It reads no records
// before the records that were read already.
func (l *podLog) next(seq uint64, match func(*Event) bool) *Event {
	for i := range l.events {
		if e := &l.events[i]; e.Seq >= seq && match(e) {
			found := *e
			return &found
		}
	}
	return nil
}

// since returns the event that began a present condition: the oldest of the pod's newest events of one kind that match
// without a gap. isKind selects the kind.
func (l *podLog) since(before uint64, isKind, match func(*Event) bool) *Event {
	var found *Event
	l.last(before, l.floor, func(e *Event) bool {
		if !isKind(e) {
			return false
		}
		if !match(e) {
			return true
		}
		at := *e
		found = &at
		return false
	})
	return found
}
