package fold

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Deciders creates a decider for an actor, nil for a kind without one.
type Deciders func(messages.Ref) actors.Decider

// Manifests returns the manifest with a digest, or an error if no manifest has that digest.
type Manifests func(digest string) (*corev1.Pod, error)

// Fold rebuilds actors from records in canonical order: for each actor a record, then the actor's step on it, then the
// next record, even if that one is before the step in the journal. Records after an actor's last step are pending: it
// is unknown whether the actor has handled them, so it handles them again.
type Fold struct {
	deciders Deciders
	manifest Manifests
	// Cells are the actors, each after the last record that it has a step on.
	Cells map[messages.Ref]*Cell
	// Pending are the records delivered to an actor since its last step, in order.
	Pending map[messages.Ref][]*Delivery
	// Started is the first record of the newest run; every new actor folds it first.
	Started *journaletv1.Record
	// Mine, if set, reports whether to fold an actor.
	Mine func(messages.Ref) bool
	// Handle, if set, replaces Cell.Refold: it folds a record of an actor and the step on it (nil without a step).
	Handle func(c *Cell, d *Delivery, step *journaletv1.Record) *Failure
	// Skip, if set, is called for each step that is not folded.
	Skip func(step *journaletv1.Record, why Skipped)
	// Barrier is the barrier of the snapshots that the fold begins with; 0 without snapshots.
	Barrier uint64
	// Last is the last record to fold. It belongs to the caller.
	Last uint64
	// parts are the parts of the newest step so far, while more must follow.
	parts Parts
}

// New returns a fold without actors. Pass it the snapshots to begin with (Restore), then call CreateSingletons, then
// pass it the records after them in order (Record).
func New(deciders Deciders, manifest Manifests) *Fold {
	return &Fold{
		deciders: deciders, manifest: manifest,
		Cells: map[messages.Ref]*Cell{}, Pending: map[messages.Ref][]*Delivery{},
	}
}

// singletons are the actors that every node has. The first read of another source creates its actor.
var singletons = []messages.Ref{messages.Runtime, messages.Node, messages.Image, messages.Source(messages.FileSource)}

// CreateSingletons creates the actors that every node has and no snapshot has restored.
func (f *Fold) CreateSingletons() {
	for _, ref := range singletons {
		if f.Cells[ref] == nil && f.mine(ref) {
			f.create(ref)
		}
	}
}

// Restore restores an actor from a snapshot, or the newest run from the agent's snapshot. It fails if this version
// cannot read the snapshot, or if the snapshot names a missing manifest.
func (f *Fold) Restore(s *journaletv1.Snapshot) error {
	ref := messages.RefOf(s.GetActor())
	if ref == messages.Agent {
		rec, err := messages.Decode(s.GetState())
		f.Started = rec
		return err
	}
	if !f.mine(ref) {
		return nil
	}
	c, err := f.Cell(s)
	if err == nil {
		f.Cells[ref] = c
	}
	return err
}

// Cell returns a cell with the state of a snapshot, which is no part of the fold.
func (f *Fold) Cell(s *journaletv1.Snapshot) (*Cell, error) {
	ref := messages.RefOf(s.GetActor())
	c := &Cell{Ref: ref, Decider: f.deciders(ref), Handled: s.GetHandled(), Contained: f.Barrier}
	if c.Decider == nil {
		return nil, fmt.Errorf("snapshot of %s: no such kind of actor", ref)
	}
	if err := c.Decider.Restore(s.GetState()); err != nil {
		return nil, err
	}
	if err := checkSnapshot(s, c.Decider.State().ProtoReflect()); err != nil {
		return nil, err
	}
	for _, digest := range c.Decider.Digests() {
		m, err := f.manifest(digest)
		if err != nil {
			return nil, fmt.Errorf("snapshot of %s: %w", ref, err)
		}
		c.Decider.Resolve(digest, m)
	}
	if s.GetQuarantined() != nil {
		c.Quarantined, c.Contained, c.Behind = s.GetQuarantined(), s.GetContained(), true
	}
	return c, nil
}

// Missed folds a record that the snapshots contain, for the actors that were quarantined then: the record is pending
// for the ones it concerns. A quarantined actor takes no step.
func (f *Fold) Missed(rec *journaletv1.Record) {
	if rec = f.parts.Join(rec); rec == nil {
		return
	}
	f.quarantines(rec)
	for ref, d := range Route(rec, f.refs) {
		if c := f.Cells[ref]; c != nil && c.Behind {
			f.deliver(ref, d)
		}
	}
}

// Record folds the next record of the journal. A cell that cannot fold it is quarantined in the fold.
func (f *Fold) Record(rec *journaletv1.Record) {
	if rec = f.parts.Join(rec); rec == nil {
		return
	}
	author := messages.RefOf(rec.GetActor())
	if rec.GetStep() != nil && f.mine(author) {
		if why := f.foldStep(author, rec); why != Folded && f.Skip != nil {
			f.Skip(rec, why)
		}
	}
	f.lifecycle(rec)
	for ref, d := range Route(rec, f.refs) {
		f.deliver(ref, d)
	}
	f.forget(rec)
}

// lifecycle folds the host's own facts.
func (f *Fold) lifecycle(rec *journaletv1.Record) {
	if rec.GetFact().GetAgentStarted() != nil {
		f.Started = rec
	}
	f.quarantines(rec)
}

// quarantines folds the beginning and the end of a quarantine.
func (f *Fold) quarantines(rec *journaletv1.Record) {
	if q := rec.GetFact().GetQuarantined(); q != nil {
		if c := f.cellNamed(q.GetKind(), q.GetId()); c != nil {
			c.Quarantined = q
		}
	}
	if l := rec.GetFact().GetQuarantineLifted(); l != nil {
		c := f.cellNamed(l.GetKind(), l.GetId())
		// A step that cannot be folded stays so, unless its cause is skipped.
		if c != nil && (!c.Diverged || l.GetSkipped() == c.Quarantined.GetCause()) {
			c.Quarantined, c.Diverged = nil, false
			f.Pending[c.Ref] = slices.DeleteFunc(f.Pending[c.Ref], func(d *Delivery) bool {
				return d.Seq() == l.GetSkipped()
			})
		}
	}
}

func (f *Fold) cellNamed(kind, id string) *Cell {
	ref, err := messages.ParseRef(kind + "/" + id)
	if err != nil {
		return nil
	}
	return f.Cells[ref]
}

// Decider returns an actor's decider, read-only, after the last record that the actor has a step on; nil if there is no
// such actor. The error says why the actor could not be folded.
func (f *Fold) Decider(ref messages.Ref) (actors.Decider, error) {
	c := f.Cells[ref]
	switch {
	case c == nil:
		return nil, nil
	case c.Quarantined != nil:
		return nil, fmt.Errorf("%s: %s: %s", ref, c.Quarantined.GetCode(), c.Quarantined.GetMessage())
	}
	return c.Decider, nil
}

// CatchUp folds the records up to handled that an actor has handled without a decision.
func (f *Fold) CatchUp(ref messages.Ref, handled uint64) error {
	c := f.Cells[ref]
	pending := f.Pending[ref]
	for c != nil && len(pending) > 0 && pending[0].Rec.GetSeq() <= handled {
		f.Resolve(pending[0])
		if fail := c.Refold(pending[0], nil); fail != nil {
			return fmt.Errorf("%s: %w", ref, fail)
		}
		pending = pending[1:]
	}
	if c != nil {
		f.Pending[ref] = pending
	}
	return nil
}

func (f *Fold) mine(ref messages.Ref) bool { return f.Mine == nil || f.Mine(ref) }

// refs returns all actors.
func (f *Fold) refs() []messages.Ref {
	refs := make([]messages.Ref, 0, len(f.Cells))
	for ref := range f.Cells {
		refs = append(refs, ref)
	}
	return refs
}

func (f *Fold) deliver(ref messages.Ref, d *Delivery) {
	if !f.mine(ref) {
		return
	}
	c := f.Cells[ref]
	if c == nil {
		if !Creates(ref, d) {
			return
		}
		if c = f.create(ref); c == nil {
			return
		}
	}
	if d.Rec.GetSeq() > c.Handled {
		f.Pending[ref] = append(f.Pending[ref], d)
	}
}

// Creates reports whether a delivery to an actor that does not exist creates it: a pod that a source adds, that the
// runtime shows or that has a directory, or the first read of a source.
func Creates(ref messages.Ref, d *Delivery) bool {
	if ref.Kind == journaletv1.ActorKind_ACTOR_KIND_SOURCE {
		return d.Rec.GetFact().GetManifestsRead() != nil
	}
	if ref.Kind != journaletv1.ActorKind_ACTOR_KIND_POD {
		return false
	}
	events := messages.Events(d.Rec)
	for _, i := range d.Indices {
		o := events[i].GetPodObserved()
		// A late inspection that finds nothing of a forgotten pod creates no actor.
		if len(o.GetSandboxes()) > 0 || len(o.GetContainers()) > 0 || events[i].GetPodDirectoryFound() != nil ||
			events[i].GetPodUpdated().GetOperation() == journaletv1.PodOperation_POD_OPERATION_ADD {
			return true
		}
	}
	return false
}

// create creates an actor. It folds the start of the run first.
func (f *Fold) create(ref messages.Ref) *Cell {
	c := &Cell{Ref: ref, Decider: f.deciders(ref), Contained: f.Barrier}
	if c.Decider == nil {
		return nil
	}
	c.FoldStart(f.Started)
	f.Cells[ref] = c
	return c
}

// FoldStart folds the start of the run into an actor created after it.
func (c *Cell) FoldStart(started *journaletv1.Record) {
	if started == nil {
		return
	}
	// A decider folds AgentStarted in any state.
	_ = c.Decider.Evolve(actors.Event{
		Seq: started.GetSeq(), Time: started.GetTime().AsTime(), Author: messages.Agent, Body: started.GetFact(),
	})
}

// Skipped is why a step is not folded.
type Skipped int

// The reasons.
const (
	// Folded means that it was.
	Folded Skipped = iota
	// NoActor means that the step's author does not exist.
	NoActor
	// IsQuarantined means that its author is quarantined, or that it or a step before could not be folded.
	IsQuarantined
	// Contained means that the author's state contains the step: its snapshot does, or the author has taken a step
	// on the same record before.
	Contained
	// NoCause means that the author has not received the record that caused the step.
	NoCause
)

// foldStep folds the author's pending records up to the step's cause, and the step.
func (f *Fold) foldStep(author messages.Ref, step *journaletv1.Record) Skipped {
	c := f.Cells[author]
	cause := step.GetStep().GetCause()
	switch {
	case c == nil:
		return NoActor
	case c.Quarantined != nil:
		return IsQuarantined
	case cause <= c.Handled:
		return Contained
	}
	handle := f.Handle
	if handle == nil {
		handle = (*Cell).Refold
	}
	pending := f.Pending[author]
	for len(pending) > 0 && pending[0].Rec.GetSeq() <= cause {
		d := pending[0]
		pending = pending[1:]
		var own *journaletv1.Record
		if d.Rec.GetSeq() == cause {
			own = step
		}
		f.Resolve(d)
		if fail := handle(c, d, own); fail != nil {
			c.Quarantined, c.Diverged = fail.Quarantine(author), true
			break
		}
	}
	f.Pending[author] = pending
	switch {
	case c.Diverged:
		return IsQuarantined
	case c.Handled < cause:
		return NoCause
	}
	return Folded
}

// Resolve looks up the manifests of a delivery with the fold's Manifests.
func (f *Fold) Resolve(d *Delivery) { d.Resolve(f.manifest) }

// Resolve looks up the manifests of a delivery, once. A missing one is an error when the delivery is handled.
func (d *Delivery) Resolve(find Manifests) {
	if d.Manifests != nil {
		return
	}
	events := messages.Events(d.Rec)
	for n, i := range d.Indices {
		digest := digestOf(events[i])
		if digest == "" {
			continue
		}
		if d.Manifests == nil {
			d.Manifests = make([]*corev1.Pod, len(d.Indices))
		}
		if m, err := find(digest); err == nil {
			d.Manifests[n] = m
		}
	}
}

// forget drops the actors of forgotten pods.
func (f *Fold) forget(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		if k := e.GetPodForgotten(); k != nil {
			delete(f.Cells, messages.Pod(k.GetUid()))
			delete(f.Pending, messages.Pod(k.GetUid()))
		}
	}
}

// maxReasonBytes bounds the reason of a quarantine: an error may quote what it failed on.
const maxReasonBytes = 1 << 10

// Quarantine returns the quarantine of an actor that failed, with the first line of the reason.
func (f *Failure) Quarantine(ref messages.Ref) *journaletv1.Quarantined {
	message, _, _ := strings.Cut(f.Err.Error(), "\n")
	return &journaletv1.Quarantined{
		Kind: ref.KindName(), Id: ref.ID, Cause: f.Cause, Code: f.Code,
		Message: clean.Text(message, maxReasonBytes),
	}
}

// Route returns the deliveries of a record by actor. all is called only for an event that all actors receive.
func Route(rec *journaletv1.Record, all func() []messages.Ref) map[messages.Ref]*Delivery {
	author := messages.RefOf(rec.GetActor())
	var to map[messages.Ref]*Delivery
	for i, e := range messages.Events(rec) {
		audience, everyone := messages.Audience(author, e)
		if everyone {
			audience = all()
		}
		for _, ref := range audience {
			if rec.GetStep() != nil && ref == author {
				continue
			}
			if to == nil {
				to = make(map[messages.Ref]*Delivery, len(audience))
			}
			d := to[ref]
			if d == nil {
				d = &Delivery{Rec: rec}
				to[ref] = d
			}
			d.Indices = append(d.Indices, i)
		}
	}
	return to
}
