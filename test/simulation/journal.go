package simulation

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"math/rand/v2"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// maxBatch is how many records one sync may cover (bus: maxInFlight).
const maxBatch = 512

// journal stands for bus.Journal: one order, records that wait together share a sync, and a crash costs what waits, from
// some place on.
type journal struct {
	clock *clock
	noise *rand.Rand
	// stored are the records that were acknowledged, pending those appended since, in order.
	stored, pending []*journaletv1.Record
	// storedAt is when each was acknowledged.
	storedAt []time.Duration
	// encoded is the size of the journal as stored, for reports.
	size int
	// last is the hash of the last stored record, sum that of all.
	last []byte
	sum  hash.Hash
	// of is the run that may write, and hears of what is stored.
	of       *scope
	onStored func(recs []*journaletv1.Record, encoded [][]byte)
	writing  bool
	// stalledUntil is the moment until which nothing reaches the disk, failing in how many batches one fails in the middle.
	stalledUntil time.Duration
	failing      int
	// deepest is the most records that ever waited.
	deepest int
	// waiters are facts that wait for room.
	waiters []*proc
	err     error
}

func newJournal(c *clock, seed uint64) *journal {
	return &journal{clock: c, noise: stream(seed, "disk"), sum: sha256.New()}
}

// append takes a record that must not be refused.
func (j *journal) append(epoch uint64, rec *journaletv1.Record) {
	rec.Seq, rec.Epoch = uint64(len(j.stored)+len(j.pending))+1, epoch
	j.pending = append(j.pending, rec)
	j.deepest = max(j.deepest, len(j.pending))
	j.write()
}

// appendFact takes a fact from outside; it waits while too much is waiting to be stored.
func (j *journal) appendFact(p *proc, epoch uint64, rec func() *journaletv1.Record) {
	for len(j.pending) >= bus.MaxQueued {
		j.waiters = append(j.waiters, p)
		p.sleep(time.Hour)
	}
	j.append(epoch, rec())
}

func (j *journal) write() {
	if j.writing || len(j.pending) == 0 {
		return
	}
	j.writing = true
	took := between(j.noise, 200*time.Microsecond, 4*time.Millisecond)
	if chance(j.noise, 200) {
		took = between(j.noise, 10*time.Millisecond, time.Second)
	}
	took += max(0, j.stalledUntil-j.clock.uptime)
	n := min(len(j.pending), maxBatch)
	j.clock.after(j.of, took, func() { j.synced(n) })
}

// synced acknowledges a batch, or, where the disk fails, the front of it.
func (j *journal) synced(n int) {
	j.writing = false
	if j.clock.uptime < j.stalledUntil {
		j.write()
		return
	}
	if chance(j.noise, j.failing) {
		n = j.noise.IntN(n + 1)
	}
	recs := j.commit(n)
	j.onStored(recs.records, recs.encoded)
	if len(j.pending) < bus.MaxQueued {
		for _, p := range j.waiters {
			p.interrupt()
		}
		j.waiters = nil
	}
	j.write()
}

type committed struct {
	records []*journaletv1.Record
	encoded [][]byte
}

// commit makes the first n records that wait part of the journal.
func (j *journal) commit(n int) committed {
	out := committed{records: j.pending[:n:n]}
	for _, rec := range out.records {
		rec.PreviousHash = j.last
		b, err := messages.Encode(rec)
		if err != nil && j.err == nil {
			j.err = err
		}
		j.last = messages.Hash(b)
		j.sum.Write(b)
		j.size += len(b)
		out.encoded = append(out.encoded, b)
		j.stored, j.storedAt = append(j.stored, rec), append(j.storedAt, j.clock.uptime)
	}
	j.pending = j.pending[n:]
	return out
}

// crash ends the run that writes. Of what waited, some may have reached the disk, from the front; nobody was told.
func (j *journal) crash() committed {
	n := 0
	if len(j.pending) > 0 && chance(j.noise, 2) {
		n = j.noise.IntN(min(len(j.pending), maxBatch) + 1)
	}
	out := j.commit(n)
	j.pending, j.writing, j.waiters = nil, false, nil
	return out
}

// lose takes the end of what was acknowledged, as a power cut does where syncs are put off: all from a moment of uptime on.
func (j *journal) lose(from time.Duration) (lost int) {
	n := len(j.stored)
	for n > 0 && j.storedAt[n-1] > from {
		n--
	}
	lost = len(j.stored) - n
	j.stored, j.storedAt = j.stored[:n:n], j.storedAt[:n:n]
	j.last = nil
	if n > 0 {
		if b, err := messages.Encode(j.stored[n-1]); err == nil {
			j.last = messages.Hash(b)
		}
	}
	return lost
}

// digest is the hash of everything that was ever stored.
func (j *journal) digest() string { return hex.EncodeToString(j.sum.Sum(nil)) }
