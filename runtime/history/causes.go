package history

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// maxLed bounds the records that a Filter remembers as led to by its Cause; the older half is forgotten first. A cause
// is hardly ever older: an actor handles a record at once, and a call has a deadline.
const maxLed = 1 << 16

// led is what a Filter knows of the records that its Cause led to.
type led struct {
	from    uint64          // every record from here on was shown, or is beyond the last one; 0: none yet
	records map[uint64]bool // true: Cause led to it; before from also false: it did not
	root    string          // the ids of the decisions of Cause, without their index; "" for a fact
}

// isLed reports whether Cause led to an event, or holds it.
func (f *Filter) isLed(e *messages.Flat, event *journaletv1.Event) (bool, error) {
	if f.Cause == 0 {
		return true, nil
	}
	if f.led.from == 0 {
		f.led.from, f.led.records = e.Seq, map[uint64]bool{}
		if err := f.findRoot(); err != nil {
			return false, err
		}
	}
	in, err := f.follows(e, event)
	if err != nil {
		return false, err
	}
	f.noteTimer(e, event, in)
	if in {
		f.led.records[e.Seq] = true
		f.forgetOld()
	}
	return in, nil
}

// findRoot reads the ids of the decisions of Cause where events from a later record on are shown.
func (f *Filter) findRoot() error {
	if f.Record == nil || f.led.from <= f.Cause {
		return nil
	}
	events, err := f.record(f.Cause)
	if len(events) > 0 {
		f.led.root = stepOf(events[0].ID)
	}
	return err
}

// record returns the events of a record; none if the record no longer exists.
func (f *Filter) record(seq uint64) ([]messages.Flat, error) {
	if f.Record == nil {
		return nil, nil
	}
	events, err := f.Record(seq)
	if errors.Is(err, ErrGone) || errors.Is(err, ErrNoRecord) {
		return nil, nil
	}
	return events, err
}

// follows reports whether an event is of Cause, or follows from a record that Cause led to.
func (f *Filter) follows(e *messages.Flat, event *journaletv1.Event) (bool, error) {
	switch {
	case e.Seq < f.Cause:
		return false, nil
	case e.Seq == f.Cause:
		f.led.root = stepOf(e.ID)
		return true, nil
	case e.Cause > 0:
		return f.hasLed(e.Cause)
	}
	if event.GetTimerFired() != nil {
		return slices.Contains(f.Timers, timerKey(e.Author, event.GetTimerFired())), nil
	}
	// The outcome of a call follows from the step that requested it.
	intent := event.GetCallFinished().GetIntentId()
	if intent != "" && stepOf(intent) == f.led.root {
		return true, nil
	}
	if d, err := messages.ParseDecisionID(intent); err == nil {
		return f.hasLed(d.Cause)
	}
	return false, nil
}

// hasLed reports whether Cause is a record or led to it. It reads records that the filter was not shown, back to a
// known record.
func (f *Filter) hasLed(seq uint64) (bool, error) {
	var chain []uint64
	in := false
	for seq > 0 {
		if known, ok := f.known(seq); ok {
			in = known
			break
		}
		chain = append(chain, seq)
		events, err := f.record(seq)
		if err != nil {
			return false, err
		}
		seq, in = f.before(events)
		if in {
			break
		}
	}
	for _, seq := range chain {
		f.led.records[seq] = in
	}
	return in, nil
}

// before returns the record that the events of a record follow from, 0 if none is known; or that it is Cause.
func (f *Filter) before(events []messages.Flat) (cause uint64, isCause bool) {
	if len(events) == 0 {
		return 0, false
	}
	first := &events[0]
	if first.Cause > 0 {
		return first.Cause, false
	}
	event := first.Message()
	if event == nil {
		event, _ = Event(first)
	}
	intent := event.GetCallFinished().GetIntentId()
	if intent != "" && stepOf(intent) == f.led.root {
		return 0, true
	}
	d, _ := messages.ParseDecisionID(intent) // the zero Decision for another fact
	return d.Cause, false
}

func (f *Filter) known(seq uint64) (in, ok bool) {
	if seq <= f.Cause {
		return seq == f.Cause, true
	}
	if slices.Contains(f.Fired, seq) {
		return true, true
	}
	in, ok = f.led.records[seq]
	return in, ok || seq >= f.led.from
}

// noteTimer remembers the timers that are set by events that Cause led to.
func (f *Filter) noteTimer(e *messages.Flat, event *journaletv1.Event, in bool) {
	set, fired := event.GetTimerSet(), event.GetTimerFired()
	name := set.GetName() + event.GetTimerCleared().GetName() + fired.GetName() // at most one of the three is set
	if name == "" {
		return
	}
	own := e.Author + "\t" + name + "\t"
	f.Timers = slices.DeleteFunc(f.Timers, func(t string) bool { return strings.HasPrefix(t, own) })
	switch {
	case in && set != nil:
		f.Timers = latest(f.Timers, timerKey(e.Author, set), maxTimers)
	case in && fired != nil:
		f.Fired = latest(f.Fired, e.Seq, maxFired)
	}
}

func timerKey(author string, t interface {
	GetName() string
	GetGeneration() uint64
}) string {
	return author + "\t" + t.GetName() + "\t" + strconv.FormatUint(t.GetGeneration(), 10)
}

func (f *Filter) forgetOld() {
	if len(f.led.records) <= maxLed {
		return
	}
	seqs := slices.Sorted(maps.Keys(f.led.records))
	f.led.from = max(f.led.from, seqs[maxLed/2])
	for _, seq := range seqs[:maxLed/2] {
		delete(f.led.records, seq)
	}
}

// stepOf returns what the ids of all decisions of a step begin with, "" for no id.
func stepOf(id string) string { return id[:max(strings.LastIndexByte(id, '.'), 0)] }
