package host

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Deciders makes a fresh decider for an actor, nil for a kind that has none.
type Deciders func(messages.Ref) actors.Decider

// manifests finds what a digest names.
type manifests func(digest string) (*corev1.Pod, error)

// fold rebuilds actors from records in their canonical order: for each actor a record, then the
// step that it took on it, then the next record, even where that one reached the journal before the
// step did. Records that an actor has no step for after its last one stay open: whether they were
// handled is not known, so they are handled again.
type fold struct {
	deciders Deciders
	manifest manifests
	cells    map[messages.Ref]*cell
	// open are the records delivered to an actor since its last step, in order.
	open map[messages.Ref][]*delivery
	// started is the record that opened the newest run; every actor hears it before anything else.
	started *journaletv1.Record
	// only, if set, is the one actor to be folded; all others are left out.
	only *messages.Ref
}

func newFold(deciders Deciders, manifest manifests) *fold {
	return &fold{deciders: deciders, manifest: manifest, cells: map[messages.Ref]*cell{}, open: map[messages.Ref][]*delivery{}}
}

// restore takes in a snapshot.
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
	if err := knownState(s, c.decider.State().ProtoReflect()); err != nil {
		return err
	}
	for _, digest := range c.decider.Digests() {
		m, err := f.manifest(digest)
		if err != nil {
			return fmt.Errorf("snapshot of %s: %w", ref, err)
		}
		c.decider.Resolve(digest, m)
	}
	f.cells[ref] = c
	return nil
}

// record takes in the next record of the journal.
func (f *fold) record(rec *journaletv1.Record) {
	author := messages.RefOf(rec.GetActor())
	if rec.GetStep() != nil {
		f.close(author, rec)
	}
	f.lifecycle(rec)
	for ref, d := range route(rec, f.hearers) {
		f.deliver(ref, d)
	}
	f.forget(rec)
}

// lifecycle takes in what the host itself wrote.
func (f *fold) lifecycle(rec *journaletv1.Record) {
	switch k := rec.GetFact().GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		f.started = rec
	case *journaletv1.Event_Quarantined:
		if c := f.named(k.Quarantined.GetKind(), k.Quarantined.GetId()); c != nil {
			c.quarantined = k.Quarantined
		}
	case *journaletv1.Event_QuarantineLifted:
		if c := f.named(k.QuarantineLifted.GetKind(), k.QuarantineLifted.GetId()); c != nil {
			c.quarantined = nil
		}
	}
}

func (f *fold) named(kind, id string) *cell {
	ref, err := messages.ParseRef(kind + "/" + id)
	if err != nil {
		return nil
	}
	return f.cells[ref]
}

// hearers lists everybody who hears an event for all.
func (f *fold) hearers() []messages.Ref {
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
		if !bearing(ref, d) {
			return
		}
		if c = f.bear(ref); c == nil {
			return
		}
	}
	if d.rec.GetSeq() > c.handled {
		f.open[ref] = append(f.open[ref], d)
	}
}

// bearing tells whether a delivery to an actor that does not exist makes it: a pod that its source
// adds, or that the runtime shows, or a source that is read for the first time.
func bearing(ref messages.Ref, d *delivery) bool {
	if ref.Kind == journaletv1.ActorKind_ACTOR_KIND_SOURCE {
		return d.rec.GetFact().GetManifestsRead() != nil
	}
	if ref.Kind != journaletv1.ActorKind_ACTOR_KIND_POD {
		return false
	}
	events := messages.Events(d.rec)
	for _, i := range d.heard {
		o := events[i].GetPodObserved()
		// A late look that finds nothing of a pod that is forgotten makes no actor.
		if len(o.GetSandboxes()) > 0 || len(o.GetContainers()) > 0 ||
			events[i].GetPodUpdated().GetOperation() == journaletv1.PodOperation_POD_OPERATION_ADD {
			return true
		}
	}
	return false
}

// bear makes an actor. The first thing it hears is the start of the run that it is born in.
func (f *fold) bear(ref messages.Ref) *cell {
	c := &cell{ref: ref, decider: f.deciders(ref)}
	if c.decider == nil {
		return nil
	}
	c.hearStart(f.started)
	f.cells[ref] = c
	return c
}

// hearStart folds the start of the run into an actor that was born after it.
func (c *cell) hearStart(started *journaletv1.Record) {
	if started == nil {
		return
	}
	// A decider folds AgentStarted in any state; the first state is one.
	_ = c.decider.Evolve(actors.Event{
		Seq: started.GetSeq(), Time: started.GetTime().AsTime(), Author: messages.Agent, Body: started.GetFact(),
	})
}

// close folds everything up to the record that a step was taken on, and the step.
func (f *fold) close(author messages.Ref, step *journaletv1.Record) {
	c := f.cells[author]
	cause := step.GetStep().GetCause()
	if c == nil || c.quarantined != nil || cause <= c.handled {
		return
	}
	open := f.open[author]
	for len(open) > 0 && open[0].rec.GetSeq() <= cause {
		d := open[0]
		open = open[1:]
		var own *journaletv1.Record
		if d.rec.GetSeq() == cause {
			own = step
		}
		f.resolve(d)
		if fail := c.refold(d, own); fail != nil {
			c.quarantined = fail.quarantine(author)
			break
		}
	}
	f.open[author] = open
}

// resolve looks up the manifests of a delivery, if that was not done yet. One that is missing shows
// when the delivery is handled.
func (f *fold) resolve(d *delivery) { resolveWith(d, f.manifest) }

func resolveWith(d *delivery, find manifests) {
	if d.manifests != nil {
		return
	}
	events := messages.Events(d.rec)
	for n, i := range d.heard {
		digest := digestOf(events[i])
		if digest == "" {
			continue
		}
		if d.manifests == nil {
			d.manifests = make([]*corev1.Pod, len(d.heard))
		}
		if m, err := find(digest); err == nil {
			d.manifests[n] = m
		}
	}
}

// forget ends the actors of pods that are no more.
func (f *fold) forget(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		if k := e.GetPodForgotten(); k != nil {
			delete(f.cells, messages.Pod(k.GetUid()))
			delete(f.open, messages.Pod(k.GetUid()))
		}
	}
}

func (f *failure) quarantine(ref messages.Ref) *journaletv1.Quarantined {
	return &journaletv1.Quarantined{Kind: ref.KindName(), Id: ref.ID, Cause: f.cause, Code: f.code, Message: firstLine(f.err.Error())}
}

// route finds who hears a record. everybody is asked only for an event that all hear.
func route(rec *journaletv1.Record, everybody func() []messages.Ref) map[messages.Ref]*delivery {
	author := messages.RefOf(rec.GetActor())
	var to map[messages.Ref]*delivery
	for i, e := range messages.Events(rec) {
		hears, all := messages.Audience(author, e)
		if all {
			hears = everybody()
		}
		for _, ref := range hears {
			if rec.GetStep() != nil && ref == author {
				continue
			}
			if to == nil {
				to = make(map[messages.Ref]*delivery, len(hears))
			}
			d := to[ref]
			if d == nil {
				d = &delivery{rec: rec}
				to[ref] = d
			}
			d.heard = append(d.heard, i)
		}
	}
	return to
}
