package scenario

import (
	"cmp"
	"fmt"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// moment is the world when the scenario recorded a fact, and the final state that the history reaches from there.
type moment struct {
	first, last int // the record of the fact, and the last record that followed at once
	g           engine
	world       *world
	started     *journaletv1.AgentStarted
	finalState  string
}

// crashEverywhere kills the agent at every record of the scenario's journal, once before the calls under way took
// place and once after, with their outcomes lost. A world without faults must then lead to the same final state as
// without the crash.
func (s *Scenario) crashEverywhere() error {
	for _, m := range s.moments {
		for last := m.first; last <= m.last; last++ {
			for _, ahead := range []bool{false, true} {
				g := m.g
				g.core = s.g.core
				g.pass(time.Millisecond)
				f, err := g.fork(last, m.world, m.started, ahead)
				var end string
				if err == nil {
					end, err = f.finalState()
					end = cmp.Or(end, noPods)
				}
				if err == nil && end != m.finalState {
					err = fmt.Errorf("the final state is\n%s\nand without the crash\n%s", end, m.finalState)
				}
				if err != nil {
					return fmt.Errorf("crash after record %d (calls took place before it: %t): %w\nrecords from there:\n%s",
						last, ahead, err, tail(f, last-3))
				}
			}
		}
	}
	return nil
}

// tail prints the first records of a journal from a record on.
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
