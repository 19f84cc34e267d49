package simulation

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"math/rand/v2"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
)

// maxBatch bounds how many records one sync covers (bus: maxInFlight).
const maxBatch = 512

// journal models bus.Journal: one order, and one sync for the records that wait together. A crash loses a tail of
// what waits.
type journal struct {
	clock *virtualTime
	noise *rand.Rand
	// stored are the acknowledged records, pending those appended since, in order.
	stored, pending []*journaletv1.Record
	// storedAt is when each was acknowledged, in uptime.
	storedAt []time.Duration
	// last is the hash of the last stored record, sum the hash of all.
	last []byte
	sum  hash.Hash
	// owner is the scope of the run that may write; onStored receives what was stored.
	owner    *scope
	onStored func(recs []*journaletv1.Record, encoded [][]byte)
	writing  bool
	// Until stalledUntil (uptime) nothing reaches the disk. One in failing batches fails in the middle, 0: none.
	stalledUntil time.Duration
	failing      int
	// waiters are the coroutines that wait for room in the queue.
	waiters []*proc
	err     error
}

func newJournal(c *virtualTime, seed uint64) *journal {
	return &journal{clock: c, noise: stream(seed, "disk"), sum: sha256.New()}
}

// append appends a record that must not be refused. A fact is cleaned, as bus.Journal does.
func (j *journal) append(epoch uint64, rec *journaletv1.Record) {
	if fact := rec.GetFact(); fact != nil {
		rec.Body = &journaletv1.Record_Fact{Fact: clean.Fact(fact)}
	}
	rec.Seq, rec.Epoch = uint64(len(j.stored)+len(j.pending))+1, epoch
	j.pending = append(j.pending, rec)
	j.write()
}

// appendFact appends a fact from outside. It waits while the queue is full.
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
	j.clock.after(j.owner, took, func() { j.synced(n) })
}

// synced acknowledges a batch, or its first records where the disk fails.
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

// commit stores the first n pending records.
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
		out.encoded = append(out.encoded, b)
		j.stored, j.storedAt = append(j.stored, rec), append(j.storedAt, j.clock.uptime)
	}
	j.pending = j.pending[n:]
	return out
}

// crash ends the run that writes. Some of the pending records, from the first on, may have reached the disk without
// an acknowledgement.
func (j *journal) crash() committed {
	n := 0
	if len(j.pending) > 0 && chance(j.noise, 2) {
		n = j.noise.IntN(min(len(j.pending), maxBatch) + 1)
	}
	out := j.commit(n)
	j.pending, j.writing, j.waiters = nil, false, nil
	return out
}

// lose removes acknowledged records, all from an uptime on, as a power cut does where syncs are delayed. It returns
// how many.
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

// digest returns the hash of all records that were ever stored.
func (j *journal) digest() string { return hex.EncodeToString(j.sum.Sum(nil)) }

// loseJournal starts the agent with an empty journal beside the pods that run.
func (s *sim) loseJournal(o Op) {
	if s.config.syncs == 0 || s.agent == nil {
		return
	}
	s.crash()
	s.journal.lose(-1)
	s.snapshots, s.barrier, s.epoch = nil, 0, 0
	s.judge.rebuild()
	s.showRefused()
	s.later(o.lasts, s.start)
}
