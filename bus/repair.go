package bus

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// RepairReport is what is wrong with the files of a journal, and what a repair does about it.
type RepairReport struct {
	// Sound: nothing is wrong, and a repair does nothing.
	Sound bool `json:"sound"`
	// Found describes what is wrong, at most MaxProblems.
	Found []string `json:"found,omitempty"`
	// Lost are ranges of records that cannot be read or were changed, and that no record reports yet.
	Lost []LostRecords `json:"lost,omitempty"`
	// Tail are whole records behind a loss, which a repair sets aside with it: no snapshot was taken after the loss, so
	// the state at their end cannot be computed.
	Tail *LostRecords `json:"tail,omitempty"`
	// Files are the files that are set aside, below the bus's directory; SetAside is the directory that holds them once
	// they are: a journal that can be read.
	Files    []string `json:"files,omitempty"`
	SetAside string   `json:"setAside,omitempty"`
}

// LostRecords is a range of records.
type LostRecords struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// Pods are the pods of some of them, by UID, as far as the damaged bytes show.
	Pods []string `json:"pods,omitempty"`
}

func (r *RepairReport) found(format string, args ...any) {
	if len(r.Found) < MaxProblems {
		r.Found = append(r.Found, fmt.Sprintf(format, args...))
	}
}

// Repair is a journal whose files were checked for a repair.
type Repair struct {
	Report RepairReport

	s    *Stored
	node string // as a token of subjects
	// kept are ranges of records that stay, in order.
	kept []Loss
	// drop are the records of blocks that do not stay, by block and offset.
	drop     map[uint64]map[int]bool
	damaged  map[string]map[uint64]bool // blocks with bytes that are no record, by stream
	pods     map[uint64][]string        // of the bytes that are no record, by the record before
	reported []*journaletv1.JournalDamaged
	cutFrom  uint64 // records from here on do not stay; 0 for none
	cutWrong bool   // the note of the last cut does not match the first record
	previous []byte // the first record's hash of the one before
}

// CheckForRepair finds what is wrong with the journal in the bus's directory dir, and changes nothing. It returns
// the errors of OpenStored. progress may be nil.
func CheckForRepair(ctx context.Context, dir string, progress func(done, total uint64)) (*Repair, error) {
	s, err := OpenStored(dir)
	if err != nil {
		return nil, err
	}
	r := &Repair{s: s, node: s.stream.node, drop: map[uint64]map[int]bool{}, damaged: map[string]map[uint64]bool{},
		pods: map[uint64][]string{}}
	if err := s.checkUnchanged(r.check(ctx, progress)); err != nil {
		return nil, fmt.Errorf("check the journal for a repair: %w", err)
	}
	return r, nil
}

func (r *Repair) check(ctx context.Context, progress func(done, total uint64)) error {
	if err := r.checkJournal(ctx, progress); err != nil {
		return err
	}
	for _, stream := range []string{manifestStream, snapshotStream} {
		if err := r.checkStream(ctx, stream); err != nil {
			return err
		}
	}
	r.checkHead()
	if r.s.meta != nil && len(r.kept) > 0 {
		r.Report.found("the description of the journal's stream cannot be used: %v", r.s.meta)
	}
	if r.cutWrong {
		r.Report.found("the note of the last cut, %s, does not match the first record", cutFile)
	}
	sets, err := r.s.barriers(ctx, func(uint64) bool { return true })
	if err != nil {
		return err
	}
	r.findLost(sets)
	r.Report.Sound = len(r.Report.Found) == 0
	return nil
}

// repairScan is a check of the journal's blocks in order.
type repairScan struct {
	*Repair
	progress func(done, total uint64)
	done     uint64
	last     struct { // record kept
		seq   uint64
		block uint64
		at    int
		hash  [messages.HashBytes]byte
	}
}

func (r *Repair) checkJournal(ctx context.Context, progress func(done, total uint64)) error {
	sc := &repairScan{Repair: r, progress: progress}
	if err := r.s.eachBlock(ctx, sc.block); err != nil {
		return err
	}
	if h := r.s.head; h.GetSeq() == sc.last.seq && sc.last.seq > 0 && !bytes.Equal(h.GetHash(), sc.last.hash[:]) {
		sc.dropLast("is not the one that was stored")
	}
	return nil
}

// block checks the records of one block.
func (sc *repairScan) block(c *block) error {
	if c.err != nil {
		return c.err
	}
	all := examineAll(len(c.places), func(i int) examined {
		if p := &c.places[i]; p.isRecord() && p.seq >= sc.s.cut.first() {
			return examine(p.data, p.subject, sc.s.stream.node)
		}
		return examined{}
	})
	for i := range c.places {
		p := &c.places[i]
		switch {
		case p.bad != nil:
			end := len(c.data)
			if i+1 < len(c.places) {
				end = c.places[i+1].at
			}
			sc.badBytes(c, p, c.data[p.at:end])
		case p.isRecord() && p.seq >= sc.s.cut.first():
			sc.record(c.number, p, &all[i])
		}
		if sc.done++; sc.progress != nil && sc.done%progressEvery == 0 {
			sc.progress(sc.done, max(sc.done, sc.s.head.GetSeq()+1-min(sc.s.cut.first(), sc.s.head.GetSeq()+1)))
		}
	}
	return nil
}

func (sc *repairScan) badBytes(c *block, p *place, b []byte) {
	sc.markDamaged(journalStream, c.number)
	sc.Report.found("block %d is damaged at byte %d: %v", c.number, p.at, p.bad)
	sc.pods[sc.last.seq] = append(sc.pods[sc.last.seq], podsIn(b)...)
}

func (r *Repair) markDamaged(stream string, block uint64) {
	if r.damaged[stream] == nil {
		r.damaged[stream] = map[uint64]bool{}
	}
	r.damaged[stream][block] = true
}

// record keeps a record or drops it. It drops a record that cannot be decoded or does not belong there. Of two
// records that do not chain it drops the first: its hash is wrong.
func (sc *repairScan) record(block uint64, p *place, x *examined) {
	why := ""
	switch {
	case x.unreadable:
		why = "cannot be decoded"
	case x.seq != p.seq:
		why = fmt.Sprintf("has the number %d in it", x.seq)
	case x.foreign:
		why = fmt.Sprintf("has the subject %q, which is another node's or was changed", p.subject)
	case p.seq <= sc.last.seq:
		why = fmt.Sprintf("comes again, after record %d", sc.last.seq)
	}
	if why != "" {
		sc.dropAt(block, p.at)
		sc.Report.found("record %d %s", p.seq, why)
		sc.pods[sc.last.seq] = append(sc.pods[sc.last.seq], podsIn(p.subject)...)
		return
	}
	if sc.last.seq > 0 && sc.last.seq+1 == p.seq && !bytes.Equal(sc.last.hash[:], x.previous) {
		sc.dropLast("does not have the hash that the next one names: it was changed")
	}
	sc.keep(block, p, x)
}

func (sc *repairScan) keep(block uint64, p *place, x *examined) {
	if sc.node == "" {
		sc.node = nodeOf(p.subject)
	}
	if len(sc.kept) == 0 {
		sc.previous = bytes.Clone(x.previous)
		sc.cutWrong = sc.s.cut != nil && p.seq == sc.s.cut.first() && !bytes.Equal(x.previous, sc.s.cut.hash())
	}
	if n := len(sc.kept); n > 0 && sc.kept[n-1].To+1 == p.seq {
		sc.kept[n-1].To = p.seq
	} else {
		sc.kept = append(sc.kept, Loss{From: p.seq, To: p.seq})
	}
	sc.last.seq, sc.last.block, sc.last.at, sc.last.hash = p.seq, block, p.at, x.hash
	if x.damage != nil {
		sc.reported = append(sc.reported, x.damage)
	}
}

func (sc *repairScan) dropLast(why string) {
	sc.dropAt(sc.last.block, sc.last.at)
	sc.Report.found("record %d %s", sc.last.seq, why)
	n := len(sc.kept) - 1
	if sc.kept[n].To--; sc.kept[n].To < sc.kept[n].From {
		sc.kept = sc.kept[:n]
	}
	sc.last.seq--
}

func (r *Repair) dropAt(block uint64, at int) {
	if r.drop[block] == nil {
		r.drop[block] = map[int]bool{}
	}
	r.drop[block][at] = true
}

// checkStream finds damaged blocks of another stream.
func (r *Repair) checkStream(ctx context.Context, stream string) error {
	prefix := strings.ToLower(strings.TrimSuffix(stream, "S")) + "."
	return r.s.eachFrame(ctx, stream, prefix, func(frame) error { return nil }, func(block uint64, at int, why error) {
		r.markDamaged(stream, block)
		r.Report.found("block %d of the %s is damaged at byte %d: %v", block, strings.ToLower(stream), at, why)
	})
}

func (r *Repair) checkHead() {
	if r.s.head == nil {
		r.Report.found("the journal's head is missing or cannot be read")
	}
}

// last returns the last record that is there, 0 for none.
func (r *Repair) last() uint64 {
	if len(r.kept) == 0 {
		return 0
	}
	return r.kept[len(r.kept)-1].To
}

// findLost finds the lost records that no record reports, and where a journal must end whose state can be computed from
// the sets of snapshots.
func (r *Repair) findLost(sets []uint64) {
	var lost []Loss
	next := r.s.cut.first()
	for _, k := range r.kept {
		if k.From > next {
			lost = append(lost, Loss{From: next, To: k.From - 1})
		}
		next = k.To + 1
	}
	last := r.last()
	if h := r.s.head.GetSeq(); h >= next {
		lost = append(lost, Loss{From: next, To: h})
	}
	front := r.s.cut.first()
	lost = slices.DeleteFunc(lost, func(l Loss) bool { return r.isReported(l, l.From == front) })
	for _, l := range lost {
		pods := slices.Compact(slices.Sorted(slices.Values(r.pods[l.From-1])))
		r.Report.Lost = append(r.Report.Lost, LostRecords{l.From, l.To, pods})
		r.Report.found("records %d to %d are lost", l.From, l.To)
	}
	r.cutFrom = foldsUpTo(lost, sets, last)
	if r.cutFrom > last {
		r.cutFrom = 0
		return
	}
	for _, k := range r.kept { // the whole records behind the loss
		if k.To >= r.cutFrom {
			r.Report.Tail = &LostRecords{From: max(k.From, r.cutFrom), To: last}
			break
		}
	}
}

// foldsUpTo returns the number of the first record that is not in the state: the journal is whole from the barrier of a
// set of snapshots, or from its beginning, up to there. It is above last if the state contains all records.
func foldsUpTo(lost []Loss, sets []uint64, last uint64) uint64 {
	for end := last; ; {
		base := uint64(0)
		for _, at := range sets {
			if at <= end {
				base = max(base, at)
			}
		}
		i := slices.IndexFunc(lost, func(l Loss) bool { return l.To > base && l.From <= end })
		if i < 0 {
			return end + 1
		}
		if end = lost[i].From - 1; end == 0 {
			return 1
		}
	}
}

// isReported reports whether a record reports a loss; compare verifier.matchLoss.
func (r *Repair) isReported(l Loss, front bool) bool {
	return slices.ContainsFunc(r.reported, func(d *journaletv1.JournalDamaged) bool { return l.reportedBy(d, front) })
}

// podsIn returns the UIDs of pods in what is left of subjects in b.
func podsIn(b []byte) (out []string) {
	const kind = ".pod."
	for len(out) < MaxProblems {
		i := bytes.Index(b, []byte(journalSubjects))
		if i < 0 {
			return out
		}
		b = b[i+len(journalSubjects):]
		end := bytes.IndexFunc(b, func(c rune) bool {
			return c != '-' && c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
		})
		if end < 0 {
			end = len(b)
		}
		subject := string(b[:end])
		if _, rest, ok := strings.Cut(subject, kind); ok {
			uid, _, _ := strings.Cut(rest, ".")
			out = append(out, uid)
		}
	}
	return out
}

// nodeOf returns the node of a subject of the journal.
func nodeOf(subject []byte) string {
	rest, _ := strings.CutPrefix(string(subject), journalSubjects)
	node, _, _ := strings.Cut(rest, ".")
	return node
}
