package simulation

import (
	"time"

	"github.com/journalet/journalet/messages"
)

// maxRecords bounds the records of a run; the longest runs have some 20,000.
const maxRecords = 200_000

// maxRecords bounds the records of this run.
func (s *sim) maxRecords() uint64 {
	if s.config.hostile != nil {
		return maxRecords * uint64(1+s.clock.uptime/time.Hour)
	}
	return maxRecords
}

// maxMailbox bounds the records that may wait for one actor (host: mailboxSize).
const maxMailbox = 1024

// bounds: no queue grows without end.
func (j *judge) bounds(r *run, ref messages.Ref) {
	if n := r.cells.Waiting(ref); n > maxMailbox {
		j.broken(withinBounds, ref.ID, "%d records wait for %s", n, ref)
	}
	if n := len(r.journal.pending); n > 4*maxMailbox+maxBatch {
		j.broken(withinBounds, "", "%d records wait for the disk", n)
	}
}
