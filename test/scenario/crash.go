package scenario

import (
	"cmp"
	"fmt"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// moment is the world as it was when the story recorded a fact, and where the history came to from there.
type moment struct {
	first, last int // records from the fact to the last one that followed at once
	g           engine
	world       *world
	started     *journaletv1.AgentStarted
	end         string
}

// crashEverywhere kills the agent at every record of the story's journal, once with the calls under
// way not yet made and once with them made and their outcomes lost. A world without faults must then
// lead to where it would have led without the crash.
func (s *Story) crashEverywhere() error {
	for _, m := range s.moments {
		for last := m.first; last <= m.last; last++ {
			for _, ahead := range []bool{false, true} {
				g := m.g
				g.core = s.g.core
				g.pass(time.Millisecond)
				f, err := g.fork(last, m.world, m.started, ahead)
				var end string
				if err == nil {
					end, err = f.end()
					end = cmp.Or(end, nothing)
				}
				if err == nil && end != m.end {
					err = fmt.Errorf("it came to\n%s\nand without the crash to\n%s", end, m.end)
				}
				if err != nil {
					return fmt.Errorf("crash after record %d (calls made before it: %t): %w\nrecords from there:\n%s", last, ahead, err, tail(f, last-3))
				}
			}
		}
	}
	return nil
}

// tail prints a journal from a record on.
func tail(f *engine, from int) string {
	if f == nil {
		return ""
	}
	const most = 40
	text, n := "", 0
	for _, rec := range f.core.Records()[max(0, from):] {
		lines := f.names.lines(rec)
		if rec.GetFact() != nil {
			lines = []string{"(" + rec.GetFact().String() + ")"}
		}
		for _, line := range lines {
			text += fmt.Sprintf("%4d %s\n", rec.GetSeq(), line)
			if n++; n == most {
				return text + "...\n"
			}
		}
	}
	return text
}
