package replay

import (
	"cmp"
	"context"
	"slices"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/history"
)

// Options configure a replay. The zero value is fine.
type Options struct {
	// Workers is the number of goroutines that fold; 0: one a core, at least two.
	Workers int
	// Progress, if set, is called now and then with the records that were read, and how many there are.
	Progress func(done, total uint64)
}

// Report is the result of Check.
type Report struct {
	Node string `json:"node,omitempty"`
	// First and Last are the first and the last record that were folded; First is above Last if there was none. Base is
	// the last record that the fold's first snapshots contain; 0: the fold began at the journal's beginning.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Base  uint64 `json:"base,omitempty"`
	// Records and Events were read. Actors were folded.
	Records uint64 `json:"records"`
	Events  uint64 `json:"events"`
	Actors  int    `json:"actors"`
	// Absent counts the records that are missing in between: damaged, or left out of a bundle of some pods.
	Absent uint64 `json:"absent,omitempty"`
	// Steps and Decisions were decided again and compared. Quiet counts the records that an actor recorded no
	// decision on, and has to take none on now.
	Steps     uint64 `json:"steps"`
	Decisions uint64 `json:"decisions"`
	Quiet     uint64 `json:"quiet"`
	// NotCompared counts what could not be.
	NotCompared NotCompared `json:"notCompared"`
	// Diverged counts the actors with a divergence. Divergences holds the first one of each, at most MaxDivergences, in
	// the journal's order.
	Diverged    int          `json:"diverged"`
	Divergences []Divergence `json:"divergences,omitempty"`
}

// NotCompared counts the steps, and the records without a step, that Check could not compare, by reason.
type NotCompared struct {
	// Base are steps that the fold's first snapshots contain.
	Base uint64 `json:"base,omitempty"`
	// Quarantined are steps of actors after a divergence that could not be folded.
	Quarantined uint64 `json:"quarantined,omitempty"`
	// Missing are steps of actors that the source lacks records or manifests of, as a bundle of some pods or without
	// manifests does. MissingActors counts the actors.
	Missing       uint64 `json:"missing,omitempty"`
	MissingActors int    `json:"missingActors,omitempty"`
	// Pending are deliveries of records after the last step of an actor: the journal does not show whether it has handled
	// them.
	Pending uint64 `json:"pending,omitempty"`
}

// MaxDivergences bounds the divergences in a report.
const MaxDivergences = 1000

// Partial is a Reader that holds the records of some actors only, such as a bundle of some pods.
type Partial interface {
	// Complete reports whether it holds all records of an actor, within its bounds.
	Complete(messages.Ref) bool
}

// Check makes every actor decide again on each record, and compares its decisions with the recorded step. It stays on
// the recorded path: after a difference the actor folds what was recorded, so that each difference is due to the
// present version, and not a consequence of another difference. Check returns the errors of the source, and an error
// for a record that this version cannot read.
func Check(ctx context.Context, src history.Reader, o Options) (*Report, error) {
	b, err := firstBase(ctx, src)
	if err != nil {
		return nil, err
	}
	r := &Report{Node: src.Node(), First: b.barrier + 1, Base: b.barrier}
	_, r.Last = src.Bounds()
	lib := newLibrary(ctx, src)
	var checkers []*checker
	var p *pipeline
	p = newPipeline(o, lib.get, func(f *fold.Fold) {
		c := &checker{fold: f, complete: completeness(src), absent: func() bool { return p.absent.Load() > 0 },
			first: map[messages.Ref]*Divergence{}, missing: map[messages.Ref]bool{}}
		f.Handle, f.Skip = c.handle, c.skip
		checkers = append(checkers, c)
	})
	if err := p.run(ctx, src, b, 0); err != nil {
		return nil, err
	}
	r.Records, r.Events, r.Absent = p.records, p.events, p.absent.Load()
	r.NotCompared.MissingActors = p.lost
	for _, c := range checkers {
		c.addTo(r)
	}
	slices.SortFunc(r.Divergences, func(a, b Divergence) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Actor, b.Actor))
	})
	r.Divergences = r.Divergences[:min(len(r.Divergences), MaxDivergences)]
	return r, nil
}

// completeness returns what reports whether a source holds all records of an actor.
func completeness(src history.Reader) func(messages.Ref) bool {
	if p, ok := src.(Partial); ok {
		return p.Complete
	}
	return func(messages.Ref) bool { return true }
}

// checker compares the steps of the actors of one fold.
type checker struct {
	fold     *fold.Fold
	complete func(messages.Ref) bool
	// absent reports whether records are missing in the source.
	absent func() bool
	counts struct {
		steps, decisions, quiet uint64
		not                     NotCompared
	}
	// first holds the first divergence of each actor, missing the actors with missing records or manifests.
	first   map[messages.Ref]*Divergence
	missing map[messages.Ref]bool
	// taken counts the decisions of the present step that were as recorded; differs is the first that was not.
	taken   int
	differs *journaletv1.Event
}

// handle decides on a record again and compares. It is fold.Fold's Handle.
func (c *checker) handle(cell *fold.Cell, d *fold.Delivery, step *journaletv1.Record) *fold.Failure {
	if !c.complete(cell.Ref) {
		c.missing[cell.Ref] = true
		return &fold.Failure{Cause: d.Seq(), Err: errIncomplete}
	}
	if fail := cell.Follows(step); fail != nil {
		return c.failed(cell, d, step, fail)
	}
	recorded := step.GetStep().GetDecisions()
	c.taken, c.differs = 0, nil
	fail := cell.Decide(d, step.GetEpoch(), func(e *journaletv1.Event) error {
		if c.taken < len(recorded) && equal(e, recorded[c.taken]) {
			c.taken++
			return nil
		}
		c.differs = e
		return errDiffers
	})
	if fail != nil && c.differs == nil {
		return c.failed(cell, d, step, fail)
	}
	if step != nil {
		c.counts.steps++
	} else {
		c.counts.quiet++
	}
	c.counts.decisions += uint64(len(recorded))
	if c.differs == nil && c.taken == len(recorded) {
		return nil
	}
	c.note(cell, d, step, nil)
	return cell.FoldStep(d, step, c.taken)
}

// failed notes that an actor cannot fold a record or a step. It takes no part any more.
func (c *checker) failed(cell *fold.Cell, d *fold.Delivery, step *journaletv1.Record,
	fail *fold.Failure) *fold.Failure {
	switch {
	case fail.Code == journaletv1.DecisionError_DECISION_ERROR_MANIFEST_MISSING,
		fail.Code == journaletv1.DecisionError_DECISION_ERROR_ORDER_BROKEN && c.absent():
		c.missing[cell.Ref] = true
	default:
		c.note(cell, d, step, fail)
	}
	return fail
}

// skip counts a step that was not folded. It is fold.Fold's Skip.
func (c *checker) skip(step *journaletv1.Record, why fold.Skipped) {
	author := messages.RefOf(step.GetActor())
	if why == fold.NoActor || why == fold.NoCause || c.missing[author] || !c.complete(author) {
		c.missing[author] = true
		c.counts.not.Missing++
		return
	}
	if why == fold.Contained {
		c.counts.not.Base++
	} else {
		c.counts.not.Quarantined++
	}
}

// note keeps the first divergence of an actor.
func (c *checker) note(cell *fold.Cell, d *fold.Delivery, step *journaletv1.Record, fail *fold.Failure) {
	if c.first[cell.Ref] != nil {
		return
	}
	var recorded *journaletv1.Event
	if decisions := step.GetStep().GetDecisions(); c.taken < len(decisions) && fail == nil {
		recorded = decisions[c.taken]
	}
	c.first[cell.Ref] = newDivergence(cell, d, step, c.taken, recorded, c.differs, fail)
}

// addTo adds what was found to a report.
func (c *checker) addTo(r *Report) {
	r.Actors += len(c.fold.Cells)
	r.Steps, r.Decisions, r.Quiet = r.Steps+c.counts.steps, r.Decisions+c.counts.decisions, r.Quiet+c.counts.quiet
	n := &r.NotCompared
	n.Base, n.Quarantined = n.Base+c.counts.not.Base, n.Quarantined+c.counts.not.Quarantined
	n.Missing, n.MissingActors = n.Missing+c.counts.not.Missing, n.MissingActors+len(c.missing)
	for ref, pending := range c.fold.Pending {
		if !c.missing[ref] {
			n.Pending += uint64(len(pending))
		}
	}
	r.Diverged += len(c.first)
	for _, d := range c.first {
		r.Divergences = append(r.Divergences, *d)
	}
}
