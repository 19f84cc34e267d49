package bus

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// examined is what a check needs of one record. It depends on no other record, so that records are decoded and hashed
// on all cores.
type examined struct {
	size       int
	hash       [messages.HashBytes]byte
	previous   []byte // the hash of the record before
	unreadable bool
	foreign    bool // its subject is not its own
	seq        uint64
	epoch      uint64
	step       bool
	cause      uint64
	after      uint64
	malformed  error
	damage     *journaletv1.JournalDamaged // that it records
}

// examine decodes a record. Its subject is compared if node, as a token of subjects, is not empty.
func examine(b, subject []byte, node string) examined {
	x := examined{size: len(b)}
	copy(x.hash[:], messages.Hash(b))
	rec, err := messages.Decode(b)
	if err != nil {
		x.unreadable = true
		return x
	}
	x.seq, x.epoch, x.malformed = rec.GetSeq(), rec.GetEpoch(), checkRecord(rec)
	x.previous = rec.GetPreviousHash()
	x.foreign = node != "" && string(subject) != messages.Subject(node, rec)
	if step := rec.GetStep(); step != nil {
		x.step, x.cause, x.after = true, step.GetCause(), step.GetAfter()
	}
	if d := rec.GetFact().GetJournalDamaged(); d != nil && messages.RefOf(rec.GetActor()) == messages.Agent {
		x.damage = d
	}
	return x
}

// examineChunk is how many records one goroutine examines at a time.
const examineChunk = 128

// examineAll returns the results of f for 0 to n-1, computed on all cores.
func examineAll(n int, f func(i int) examined) []examined {
	out := make([]examined, n)
	var next atomic.Int64
	work := func() {
		for {
			from := int(next.Add(examineChunk)) - examineChunk
			if from >= n {
				return
			}
			for i := from; i < min(from+examineChunk, n); i++ {
				out[i] = f(i)
			}
		}
	}
	var others sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/examineChunk) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	return out
}
