package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// MaxProblems bounds how many problems a report lists; it counts them all.
	MaxProblems = 100
	// progressEvery is how many records lie between two calls of a progress function.
	progressEvery = 4096
)

// Problem is one defect of the journal.
type Problem struct {
	Seq     uint64 `json:"seq"`
	Message string `json:"message"`
}

// Loss is a range of records that is gone, and that a later record reports: the agent found the loss at a start and
// continued after it. It is history, not a problem of the records that are there.
type Loss struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// ReportedBy is the number of the record that reports it.
	ReportedBy uint64 `json:"reportedBy"`
}

// VerifyReport is the result of Verify.
type VerifyReport struct {
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Records uint64 `json:"records"`
	// Cut: the records before First were cut by retention. The chain begins with the hash that the cut recorded.
	Cut bool `json:"cut,omitempty"`
	// Bytes is the size of the records as encoded, without the store's headers.
	Bytes uint64 `json:"bytes"`
	// Epochs is how many runs wrote these records.
	Epochs   uint64    `json:"epochs"`
	Problems []Problem `json:"problems,omitempty"`
	// Lost are losses that the journal itself reports, at most MaxProblems; they are no problems.
	Lost []Loss `json:"lost,omitempty"`
	// Found counts all problems; at most MaxProblems are listed.
	Found int `json:"found"`
}

// OK reports whether the records that are there are sound.
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
	node  string // of the journal, "" if not known; of records from files
	at    uint64 // number expected next
	hash  []byte // of the record before; nil if unknown
	epoch uint64
	gaps  []gap // that no record has reported yet

	progress func(done, total uint64) // may be nil
	total    uint64
}

// Verify reads the whole journal and checks it: contiguous numbers, the hash chain, epochs that never fall, steps
// whose causes are earlier records, and the head beside the stream. Missing records are no problem where a later
// record reports their loss. Verify may run while the agent writes; it checks what was stored when it began. progress
// may be nil. An error means that the check could not be done; defects of the journal are in the report.
func (j *Journal) Verify(ctx context.Context, progress func(done, total uint64)) (VerifyReport, error) {
	j.cutting.RLock()
	defer j.cutting.RUnlock()
	h, err := readHead(j.dir)
	if err != nil && !errors.Is(err, errHeadDamaged) {
		return VerifyReport{}, err
	}
	v := &verifier{head: h, at: j.First(), progress: progress}
	v.r.First, v.r.Last = j.First(), j.Last()
	v.front(j.cut.Load())
	if v.total = v.r.Last + 1 - v.r.First; v.total > 0 {
		err = j.readPages(ctx, v.at, v.r.Last, "", func(page [][]byte) (last uint64, err error) {
			for _, x := range examineAll(len(page), func(i int) examined { return examine(page[i], nil, "") }) {
				if last = v.check(&x); last >= v.r.Last {
					break
				}
			}
			return last, ctx.Err()
		})
		if err != nil {
			return VerifyReport{}, fmt.Errorf("verify the journal: %w", err)
		}
	}
	return v.end(), nil
}

// end checks the journal's end and returns the report.
func (v *verifier) end() VerifyReport {
	if v.at <= v.r.Last {
		v.r.problem(v.at, "records %d to %d are missing", v.at, v.r.Last)
	}
	switch {
	case v.head == nil:
		v.r.problem(v.r.Last, "the journal's head is missing or cannot be read")
	case v.head.GetSeq() > v.r.Last:
		v.r.problem(v.head.GetSeq(), "the journal's head names record %d, and the last one is %d",
			v.head.GetSeq(), v.r.Last)
	}
	if v.progress != nil {
		v.progress(v.r.Records, max(v.total, v.r.Records))
	}
	return v.r
}

// front compares the first record with retention's last cut.
func (v *verifier) front(c *cut) {
	if v.r.First > c.first() {
		v.gap(c.first(), v.r.First-1, "are missing, and retention did not cut them")
		return
	}
	if v.r.Cut = c != nil; v.r.Cut {
		v.hash = c.hash()
	}
}

// check checks one record against the records before it, and returns its number as far as it is known.
func (v *verifier) check(x *examined) uint64 {
	v.r.Bytes += uint64(x.size)
	if v.r.Records++; v.progress != nil && v.r.Records%progressEvery == 0 {
		v.progress(v.r.Records, max(v.total, v.r.Records))
	}
	if x.unreadable {
		v.r.problem(v.at, "record %d cannot be read", v.at)
		v.hash = x.hash[:]
		v.at++
		return v.at - 1
	}
	seq := x.seq
	switch {
	case seq > v.at:
		v.gap(v.at, seq-1, "are missing")
		v.hash = nil
	case seq < v.at:
		v.r.problem(v.at, "record %d has the number %d in it", v.at, seq)
		seq = v.at
	}
	if seq == 1 && len(x.previous) > 0 || v.hash != nil && !bytes.Equal(v.hash, x.previous) {
		v.r.problem(seq, "record %d does not chain to the one before it: one of them was changed", seq)
	}
	if seq == v.head.GetSeq() && !bytes.Equal(x.hash[:], v.head.GetHash()) {
		v.r.problem(seq, "record %d is not the one that was stored: the journal's head has another hash for it", seq)
	}
	v.content(x, seq)
	v.hash, v.at = x.hash[:], seq+1
	return seq
}

// gap is a range of missing records, and the problem listed for it.
type gap struct {
	Loss
	front  bool
	listed Problem
}

// gap lists a range of missing records as a problem, which a later record that reports the loss removes again.
func (v *verifier) gap(from, to uint64, why string) {
	text := fmt.Sprintf("records %d to %d %s", from, to, why)
	v.r.problem(from, "%s", text)
	if len(v.gaps)+len(v.r.Lost) < MaxProblems {
		v.gaps = append(v.gaps, gap{Loss{From: from, To: to}, v.r.Records <= 1, Problem{from, text}})
	}
}

// matchLoss turns the gap that d reports into a Loss. A start reports the whole range: from after the last readable
// record, or the whole journal, or the oldest records; see finding.
func (v *verifier) matchLoss(d *journaletv1.JournalDamaged, seq uint64) {
	v.gaps = slices.DeleteFunc(v.gaps, func(g gap) bool {
		if !g.reportedBy(d, g.front) {
			return false
		}
		g.ReportedBy = seq
		v.r.Lost = append(v.r.Lost, g.Loss)
		v.r.Found--
		if i := slices.Index(v.r.Problems, g.listed); i >= 0 {
			v.r.Problems = slices.Delete(v.r.Problems, i, i+1)
		}
		return true
	})
}

// reportedBy reports whether d reports this loss. front: the journal's oldest records are lost.
func (l Loss) reportedBy(d *journaletv1.JournalDamaged, front bool) bool {
	end := d.GetExpectedSeq() == l.To && (d.GetFoundSeq()+1 == l.From || d.GetFoundSeq() == 0 && front)
	return end || front && d.GetExpectedSeq() == l.From && d.GetFoundSeq() == l.To+1
}

func (v *verifier) content(x *examined, seq uint64) {
	if x.damage != nil {
		v.matchLoss(x.damage, seq)
	}
	if x.epoch < v.epoch {
		v.r.problem(seq, "record %d has epoch %d, after one of epoch %d", seq, x.epoch, v.epoch)
	} else if x.epoch > v.epoch {
		v.r.Epochs++
		v.epoch = x.epoch
	}
	if x.malformed != nil {
		v.r.problem(seq, "record %d: %v", seq, x.malformed)
	}
	if x.step {
		if x.cause == 0 || x.cause >= seq {
			v.r.problem(seq, "step %d is caused by record %d, which is not before it", seq, x.cause)
		}
		if x.after != 0 && x.after >= x.cause {
			v.r.problem(seq, "step %d is caused by record %d after record %d, which is not before that",
				seq, x.cause, x.after)
		}
	}
}
