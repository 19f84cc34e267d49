package host

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Deciders creates a decider for an actor, nil for a kind without one.
type Deciders func(messages.Ref) actors.Decider

// manifests returns the manifest with a digest.
type manifests func(digest string) (*corev1.Pod, error)

// fold rebuilds actors from records in canonical order: for each actor a record, then the actor's step on it, then the
// next record, even if that one is before the step in the journal. Records after an actor's last step are pending: it
// is unknown whether the actor has handled them, so it handles them again.
type fold struct {
	deciders Deciders
	manifest manifests
	cells    map[messages.Ref]*cell
	// pending are the records delivered to an actor since its last step, in order.
	pending map[messages.Ref][]*delivery
	// started is the first record of the newest run; every new actor folds it first.
	started *journaletv1.Record
	// only, if set, is the one actor to fold.
	only *messages.Ref
	// barrier is that of the snapshots that the fold begins with, 0 for none.
	barrier uint64
	// parts are those of the newest step, while others must follow.
	parts parts
	// last is the last record that was read.
	last uint64
}

func newFold(deciders Deciders, manifest manifests) *fold {
	return &fold{
		deciders: deciders, manifest: manifest,
		cells: map[messages.Ref]*cell{}, pending: map[messages.Ref][]*delivery{},
	}
}

// restore restores an actor from a snapshot.
func (f *fold) restore(s *journaletv1.Snapshot) error {
	ref := messages.RefOf(s.GetActor())
	if ref == messages.Agent {
		rec, err := messages.Decode(s.GetState())
		f.started = rec
		return err
	}
	if f.only != nil && *f.only != ref {
		return nil
	}
	c := &cell{ref: ref, decider: f.deciders(ref), handled: s.GetHandled()}
	if c.decider == nil {
		return fmt.Errorf("snapshot of %s: no such kind of actor", ref)
	}
	if err := c.decider.Restore(s.GetState()); err != nil {
		return err
	}
	if err := checkSnapshot(s, c.decider.State().ProtoReflect()); err != nil {
		return err
	}
	for _, digest := range c.decider.Digests() {
		m, err := f.manifest(digest)
		if err != nil {
			return fmt.Errorf("snapshot of %s: %w", ref, err)
		}
		c.decider.Resolve(digest, m)
	}
	if c.contained = f.barrier; s.GetQuarantined() != nil {
		c.quarantined, c.contained, c.behind = s.GetQuarantined(), s.GetContained(), true
	}
	f.cells[ref] = c
	return nil
}

// missed folds a record that the snapshots contain, but for the actors that were quarantined then: it is pending for
// those that it concerns. A quarantined actor takes no step.
func (f *fold) missed(rec *journaletv1.Record) {
	if rec = f.parts.join(rec); rec == nil {
		return
	}
	f.quarantines(rec)
	for ref, d := range route(rec, f.refs) {
		if c := f.cells[ref]; c != nil && c.behind {
			f.deliver(ref, d)
		}
	}
}

// record folds the next record of the journal.
func (f *fold) record(rec *journaletv1.Record) {
	if rec = f.parts.join(rec); rec == nil {
		return
	}
	author := messages.RefOf(rec.GetActor())
	if rec.GetStep() != nil {
		f.foldStep(author, rec)
	}
	f.lifecycle(rec)
	for ref, d := range route(rec, f.refs) {
		f.deliver(ref, d)
	}
	f.forget(rec)
}

// lifecycle folds the host's own facts.
func (f *fold) lifecycle(rec *journaletv1.Record) {
	if rec.GetFact().GetAgentStarted() != nil {
		f.started = rec
	}
	f.quarantines(rec)
}

// quarantines folds the beginning and the end of a quarantine.
func (f *fold) quarantines(rec *journaletv1.Record) {
	if q := rec.GetFact().GetQuarantined(); q != nil {
		if c := f.cellNamed(q.GetKind(), q.GetId()); c != nil {
			c.quarantined = q
		}
	}
	if l := rec.GetFact().GetQuarantineLifted(); l != nil {
		c := f.cellNamed(l.GetKind(), l.GetId())
		// A step that cannot be folded stays so, unless its cause is skipped.
		if c != nil && (!c.diverged || l.GetSkipped() == c.quarantined.GetCause()) {
			c.quarantined, c.diverged = nil, false
			f.pending[c.ref] = slices.DeleteFunc(f.pending[c.ref], func(d *delivery) bool {
				return d.seq() == l.GetSkipped()
			})
		}
	}
}

func (f *fold) cellNamed(kind, id string) *cell {
	ref, err := messages.ParseRef(kind + "/" + id)
	if err != nil {
		return nil
	}
	return f.cells[ref]
}

// refs returns all actors.
func (f *fold) refs() []messages.Ref {
	refs := make([]messages.Ref, 0, len(f.cells))
	for ref := range f.cells {
		refs = append(refs, ref)
	}
	return refs
}

func (f *fold) deliver(ref messages.Ref, d *delivery) {
	if f.only != nil && *f.only != ref {
		return
	}
	c := f.cells[ref]
	if c == nil {
		if !creates(ref, d) {
			return
		}
		if c = f.create(ref); c == nil {
			return
		}
	}
	if d.rec.GetSeq() > c.handled {
		f.pending[ref] = append(f.pending[ref], d)
	}
}

// creates reports whether a delivery to an actor that does not exist creates it: a pod that a source adds or the
// runtime shows, or the first read of a source.
func creates(ref messages.Ref, d *delivery) bool {
	if ref.Kind == journaletv1.ActorKind_ACTOR_KIND_SOURCE {
		return d.rec.GetFact().GetManifestsRead() != nil
	}
	if ref.Kind != journaletv1.ActorKind_ACTOR_KIND_POD {
		return false
	}
	events := messages.Events(d.rec)
	for _, i := range d.indices {
		o := events[i].GetPodObserved()
		// A late inspection that finds nothing of a forgotten pod creates no actor.
		if len(o.GetSandboxes()) > 0 || len(o.GetContainers()) > 0 ||
			events[i].GetPodUpdated().GetOperation() == journaletv1.PodOperation_POD_OPERATION_ADD {
			return true
		}
	}
	return false
}

// create creates an actor. It folds the start of the run first.
func (f *fold) create(ref messages.Ref) *cell {
	c := &cell{ref: ref, decider: f.deciders(ref), contained: f.barrier}
	if c.decider == nil {
		return nil
	}
	c.foldStart(f.started)
	f.cells[ref] = c
	return c
}

// foldStart folds the start of the run into an actor created after it.
func (c *cell) foldStart(started *journaletv1.Record) {
	if started == nil {
		return
	}
	// A decider folds AgentStarted in any state.
	_ = c.decider.Evolve(actors.Event{
		Seq: started.GetSeq(), Time: started.GetTime().AsTime(), Author: messages.Agent, Body: started.GetFact(),
	})
}

// foldStep folds the author's pending records up to the step's cause, and the step.
func (f *fold) foldStep(author messages.Ref, step *journaletv1.Record) {
	c := f.cells[author]
	cause := step.GetStep().GetCause()
	if c == nil || c.quarantined != nil || cause <= c.handled {
		return
	}
	pending := f.pending[author]
	for len(pending) > 0 && pending[0].rec.GetSeq() <= cause {
		d := pending[0]
		pending = pending[1:]
		var own *journaletv1.Record
		if d.rec.GetSeq() == cause {
			own = step
		}
		f.resolve(d)
		if fail := c.refold(d, own); fail != nil {
			c.quarantined, c.diverged = fail.quarantine(author), true
			break
		}
	}
	f.pending[author] = pending
}

// resolve looks up the manifests of a delivery once. A missing one is an error when the delivery is handled.
func (f *fold) resolve(d *delivery) { resolveWith(d, f.manifest) }

func resolveWith(d *delivery, find manifests) {
	if d.manifests != nil {
		return
	}
	events := messages.Events(d.rec)
	for n, i := range d.indices {
		digest := digestOf(events[i])
		if digest == "" {
			continue
		}
		if d.manifests == nil {
			d.manifests = make([]*corev1.Pod, len(d.indices))
		}
		if m, err := find(digest); err == nil {
			d.manifests[n] = m
		}
	}
}

// forget drops the actors of forgotten pods.
func (f *fold) forget(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		if k := e.GetPodForgotten(); k != nil {
			delete(f.cells, messages.Pod(k.GetUid()))
			delete(f.pending, messages.Pod(k.GetUid()))
		}
	}
}

// maxReasonBytes bounds the reason of a quarantine: an error may quote what it failed on.
const maxReasonBytes = 1 << 10

func (f *failure) quarantine(ref messages.Ref) *journaletv1.Quarantined {
	message := firstLine(f.err.Error())
	return &journaletv1.Quarantined{
		Kind: ref.KindName(), Id: ref.ID, Cause: f.cause, Code: f.code,
		Message: strings.ToValidUTF8(message[:min(len(message), maxReasonBytes)], ""),
	}
}

// route returns the deliveries of a record by actor. all is called only for an event that all actors receive.
func route(rec *journaletv1.Record, all func() []messages.Ref) map[messages.Ref]*delivery {
	author := messages.RefOf(rec.GetActor())
	var to map[messages.Ref]*delivery
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
				to = make(map[messages.Ref]*delivery, len(audience))
			}
			d := to[ref]
			if d == nil {
				d = &delivery{rec: rec}
				to[ref] = d
			}
			d.indices = append(d.indices, i)
		}
	}
	return to
}
