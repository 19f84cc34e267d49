package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// MaxProblems bounds how many problems a report lists; it counts them all.
	MaxProblems = 100
	// progressEvery is how many records lie between two calls of a progress function.
	progressEvery = 4096
)

// Problem is one thing wrong with the journal.
type Problem struct {
	Seq     uint64 `json:"seq"`
	Message string `json:"message"`
}

// Loss is a row of records that is gone, which a later record tells: the agent found it at a start and went on
// behind it. It is history, and nothing that is wrong with what is there.
type Loss struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// Told is the record that tells it.
	Told uint64 `json:"told"`
}

// VerifyReport is what Verify found.
type VerifyReport struct {
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Records uint64 `json:"records"`
	// Cut: the records before First were cut by retention. The chain begins with the hash that the cut noted.
	Cut bool `json:"cut,omitempty"`
	// Bytes are the records' as encoded, without the store's own.
	Bytes uint64 `json:"bytes"`
	// Epochs is how many runs wrote what is there.
	Epochs   uint64    `json:"epochs"`
	Problems []Problem `json:"problems,omitempty"`
	// Lost are losses that the journal itself tells, at most MaxProblems; they are no problems.
	Lost []Loss `json:"lost,omitempty"`
	// Found counts all problems; at most MaxProblems are listed.
	Found int `json:"found"`
}

// OK tells that nothing is wrong with what is there.
func (r *VerifyReport) OK() bool { return r.Found == 0 }

func (r *VerifyReport) problem(seq uint64, format string, args ...any) {
	r.Found++
	if len(r.Problems) < MaxProblems {
		r.Problems = append(r.Problems, Problem{seq, fmt.Sprintf(format, args...)})
	}
}

type verifier struct {
	r     VerifyReport
	head  *journaletv1.Head
	at    uint64 // number expected next
	hash  []byte // of the record before; nil if it is not known
	epoch uint64
	gaps  []gap // of which no record has told yet

	tell  func(done, total uint64) // nil if nobody wants to know how far it is
	total uint64
}

// Verify reads the whole journal and checks it: contiguous numbers, the hash chain, epochs that never
// fall, steps that answer earlier records, and the head beside the stream. Records that are missing are no
// problem where a later one tells that they were lost. It may run while the agent
// writes; it looks at what was stored when it began. progress may be nil. An error means that the
// check itself could not be done; what is wrong with the journal stands in the report.
func (j *Journal) Verify(ctx context.Context, progress func(done, total uint64)) (VerifyReport, error) {
	j.cutting.RLock()
	defer j.cutting.RUnlock()
	h, err := readHead(j.dir)
	if err != nil && !errors.Is(err, errHeadDamaged) {
		return VerifyReport{}, err
	}
	v := &verifier{head: h, at: j.First(), tell: progress}
	v.r.First, v.r.Last = j.First(), j.Last()
	v.front(j.cut.Load())
	if v.total = v.r.Last + 1 - v.r.First; v.total > 0 {
		err = j.readBytes(ctx, v.at, v.r.Last, "", func(b []byte) (uint64, error) {
			return v.check(b), ctx.Err()
		})
		if err != nil {
			return VerifyReport{}, fmt.Errorf("verify the journal: %w", err)
		}
	}
	return v.end(), nil
}

// end looks at what is missing at the end, and gives the report.
func (v *verifier) end() VerifyReport {
	if v.at <= v.r.Last {
		v.r.problem(v.at, "records %d to %d are missing", v.at, v.r.Last)
	}
	switch {
	case v.head == nil:
		v.r.problem(v.r.Last, "the head beside the journal is missing or cannot be read")
	case v.head.GetSeq() > v.r.Last:
		v.r.problem(v.head.GetSeq(), "the head beside the journal names record %d, and the last one is %d", v.head.GetSeq(), v.r.Last)
	}
	if v.tell != nil {
		v.tell(v.r.Records, max(v.total, v.r.Records))
	}
	return v.r
}

// front holds the first record against what retention left.
func (v *verifier) front(c *cut) {
	if v.r.First > c.first() {
		v.gap(c.first(), v.r.First-1, "are missing, and retention did not cut them")
		return
	}
	if v.r.Cut = c != nil; v.r.Cut {
		v.hash = c.hash()
	}
}

// check looks at one record, and returns its number as far as it can be told.
func (v *verifier) check(b []byte) uint64 {
	v.r.Bytes += uint64(len(b))
	if v.r.Records++; v.tell != nil && v.r.Records%progressEvery == 0 {
		v.tell(v.r.Records, max(v.total, v.r.Records))
	}
	hash := messages.Hash(b)
	rec, err := messages.Decode(b)
	if err != nil {
		v.r.problem(v.at, "record %d cannot be read", v.at)
		v.hash = hash
		v.at++
		return v.at - 1
	}
	seq := rec.GetSeq()
	switch {
	case seq > v.at:
		v.gap(v.at, seq-1, "are missing")
		v.hash = nil
	case seq < v.at:
		v.r.problem(v.at, "record %d says that it is %d", v.at, seq)
		seq = v.at
	}
	if seq == 1 && len(rec.GetPreviousHash()) > 0 || v.hash != nil && !bytes.Equal(v.hash, rec.GetPreviousHash()) {
		v.r.problem(seq, "record %d does not follow from the one before it: one of them was changed", seq)
	}
	if seq == v.head.GetSeq() && !bytes.Equal(hash, v.head.GetHash()) {
		v.r.problem(seq, "record %d is not the one that was stored: the head beside the journal has another hash of it", seq)
	}
	v.content(rec, seq)
	v.hash, v.at = hash, seq+1
	return seq
}

// gap is a row of records that are missing, and how that was listed.
type gap struct {
	Loss
	front  bool
	listed Problem
}

// gap lists that records are not there, and why: a problem until a record is met that tells it.
func (v *verifier) gap(from, to uint64, why string) {
	text := fmt.Sprintf("records %d to %d %s", from, to, why)
	v.r.problem(from, "%s", text)
	if len(v.gaps)+len(v.r.Lost) < MaxProblems {
		v.gaps = append(v.gaps, gap{Loss{From: from, To: to}, v.r.Records <= 1, Problem{from, text}})
	}
}

// told takes the agent's word for what was lost. A start names the row in full: from behind the last record that
// could be read, or the whole journal, or the front; see finding.
func (v *verifier) told(d *journaletv1.JournalDamaged, seq uint64) {
	v.gaps = slices.DeleteFunc(v.gaps, func(g gap) bool {
		end := d.GetExpectedSeq() == g.To && (d.GetFoundSeq()+1 == g.From || d.GetFoundSeq() == 0 && g.front)
		front := g.front && d.GetExpectedSeq() == g.From && d.GetFoundSeq() == g.To+1
		if !end && !front {
			return false
		}
		g.Told = seq
		v.r.Lost = append(v.r.Lost, g.Loss)
		v.r.Found--
		if i := slices.Index(v.r.Problems, g.listed); i >= 0 {
			v.r.Problems = slices.Delete(v.r.Problems, i, i+1)
		}
		return true
	})
}

func (v *verifier) content(rec *journaletv1.Record, seq uint64) {
	if d := rec.GetFact().GetJournalDamaged(); d != nil && messages.RefOf(rec.GetActor()) == messages.Agent {
		v.told(d, seq)
	}
	if e := rec.GetEpoch(); e < v.epoch {
		v.r.problem(seq, "record %d has epoch %d, after one of epoch %d", seq, e, v.epoch)
	} else if e > v.epoch {
		v.r.Epochs++
		v.epoch = e
	}
	if err := checkRecord(rec); err != nil {
		v.r.problem(seq, "record %d: %v", seq, err)
	}
	if step := rec.GetStep(); step != nil {
		if step.GetCause() == 0 || step.GetCause() >= seq {
			v.r.problem(seq, "step %d answers record %d, which is not before it", seq, step.GetCause())
		}
		if step.GetAfter() != 0 && step.GetAfter() >= step.GetCause() {
			v.r.problem(seq, "step %d answers record %d after record %d, which is not before that", seq, step.GetCause(), step.GetAfter())
		}
	}
}
