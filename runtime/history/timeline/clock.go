package timeline

import "time"

const (
	// disorder is how far recorded times may fall without a step of the clock: facts are dated when they are learned, and
	// appended a little later.
	disorder = time.Second
	// leap is the shortest time without a record that is taken for a clock set forward, as on a machine without a
	// battery that boots in 1970. Even an idle agent records something within that time.
	leap = 30 * 24 * time.Hour
)

// clock gives each record its place on an axis that never runs backwards, in the order of the journal.
type clock struct {
	begun  bool
	start  time.Time
	offset time.Duration // the place of a record is its time - start + offset
	at     time.Duration
	steps  []ClockStep
}

// place returns the place of the next record.
func (c *clock) place(seq uint64, t time.Time) time.Duration {
	if !c.begun {
		c.begun, c.start = true, t
		return 0
	}
	at := t.Sub(c.start) + c.offset
	if moved := at - c.at; moved < -disorder || moved > leap {
		c.offset -= moved
		c.steps = append(c.steps, ClockStep{Seq: seq, At: millis(c.at), Shift: moved})
		at = c.at
	}
	c.at = max(c.at, at)
	return c.at
}

// recorded returns the time that a record at a place of the axis would have. steps are the clock steps of a Timeline.
func recorded(first time.Time, steps []ClockStep, at float64) time.Time {
	t := first.Add(time.Duration(at * float64(time.Millisecond)))
	for _, s := range steps {
		if s.At <= at {
			t = t.Add(s.Shift)
		}
	}
	return t
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
