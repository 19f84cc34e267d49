package replay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/dispatch"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

// Forecast is the result of WhatIf.
type Forecast struct {
	Node string `json:"node,omitempty"`
	// First and Last are the first and the last record that were folded.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Config are the fields of the configuration that differ from the one of the newest start in the journal.
	Config []Field `json:"config"`
	// Steps are the records, with or without decisions, that actors decided on again. Differing are the records that
	// they decide otherwise on.
	Steps     uint64 `json:"steps"`
	Differing uint64 `json:"differing"`
	// Actors counts the actors that decide otherwise. Changes holds the first difference of each, at most MaxDivergences,
	// in the journal's order. What such an actor decides otherwise later may be a consequence: it stays on the recorded
	// path, where the world followed what was recorded.
	Actors  int      `json:"actors"`
	Changes []Change `json:"changes,omitempty"`
	// Kinds counts the decisions that differ by their names, sorted.
	Kinds []KindCount `json:"kinds,omitempty"`
	// Missing counts the actors that the source lacks records or manifests of.
	Missing int `json:"missing,omitempty"`
}

// KindCount counts decisions of one kind.
type KindCount struct {
	Event string `json:"event"`
	// Dropped were recorded and would not be taken, Added would be taken and were not recorded, Changed would be taken
	// with other fields.
	Dropped uint64 `json:"dropped,omitempty"`
	Added   uint64 `json:"added,omitempty"`
	Changed uint64 `json:"changed,omitempty"`
}

// Change is the first record that an actor decides otherwise on.
type Change struct {
	// Seq is the recorded step; without a recorded step, it is the same as Cause. Cause is the record that the actor
	// decides on.
	Seq   uint64    `json:"seq"`
	Cause uint64    `json:"cause"`
	Time  time.Time `json:"time"`
	Actor string    `json:"actor"`
	Pod   string    `json:"pod,omitempty"`
	// Dropped and Added are the decisions in words. Changed are the fields of decisions that would be taken otherwise.
	Dropped []string `json:"dropped,omitempty"`
	Added   []string `json:"added,omitempty"`
	Changed []Field  `json:"changed,omitempty"`
	// Error is why the actor could not decide at all.
	Error string `json:"error,omitempty"`
	// Later counts the later records that the actor decides otherwise on, too.
	Later uint64 `json:"later,omitempty"`
}

// WhatIf makes every actor decide again under another configuration, and reports where its decisions differ. change
// gets the configuration of a start of the agent, and may change it. Each actor stays on the recorded path. WhatIf
// returns the errors of Check.
func WhatIf(ctx context.Context, src history.Reader, change func(*journaletv1.AgentConfig), o Options) (*Forecast,
	error) {
	b, err := firstBase(ctx, src)
	if err != nil {
		return nil, err
	}
	r := &Forecast{Node: src.Node(), First: b.barrier + 1, Config: []Field{}}
	_, r.Last = src.Bounds()
	if b, err = r.reconfigure(b, change); err != nil {
		return nil, err
	}
	var all []*forecaster
	p := newPipeline(o, newLibrary(ctx, src).get, func(f *fold.Fold) {
		x := &forecaster{fold: f, complete: completeness(src), twins: map[messages.Ref]twin{},
			first: map[messages.Ref]*difference{}, kinds: map[string]*KindCount{}, missing: map[messages.Ref]bool{}}
		f.Handle, f.Skip = x.handle, x.skip
		all = append(all, x)
	})
	p.change = func(rec *journaletv1.Record) *journaletv1.Record {
		if rec.GetFact().GetAgentStarted() == nil {
			return rec
		}
		return r.started(rec, change)
	}
	words := describe.New()
	p.joined = func(rec *journaletv1.Record, _ int) {
		for _, e := range messages.Events(rec) {
			for _, pod := range history.NamedPods(e) {
				words.Name(pod.GetUid(), pod.GetNamespace(), pod.GetName())
			}
		}
	}
	if err := p.run(ctx, src, b, 0); err != nil {
		return nil, err
	}
	r.Missing = p.lost
	for _, x := range all {
		x.addTo(r, words)
	}
	r.sort()
	return r, nil
}

// started returns a start of the agent with another configuration.
func (r *Forecast) started(rec *journaletv1.Record, change func(*journaletv1.AgentConfig)) *journaletv1.Record {
	rec = proto.CloneOf(rec)
	s := rec.GetFact().GetAgentStarted()
	was := s.GetConfig()
	if was == nil {
		was = &journaletv1.AgentConfig{}
	}
	s.Config = proto.CloneOf(was)
	change(s.Config)
	r.Config = append([]Field{}, Differences(was, s.Config)...)
	return rec
}

// reconfigure changes the configuration in the snapshots that the fold begins with.
func (r *Forecast) reconfigure(b base, change func(*journaletv1.AgentConfig)) (base, error) {
	b.snaps = slices.Clone(b.snaps)
	var started *journaletv1.AgentStarted
	for i, s := range b.snaps {
		if messages.RefOf(s.GetActor()) != messages.Agent {
			continue
		}
		rec, err := messages.Decode(s.GetState())
		if err != nil {
			return b, err
		}
		rec = r.started(rec, change)
		started = rec.GetFact().GetAgentStarted()
		state, err := messages.Encode(rec)
		if err != nil {
			return b, err
		}
		b.snaps[i] = &journaletv1.Snapshot{Actor: s.GetActor(), State: state}
	}
	for i, s := range b.snaps {
		if s.GetActor().GetKind() == journaletv1.ActorKind_ACTOR_KIND_AGENT {
			continue
		}
		state, err := reconfigured(s, started)
		if err != nil {
			return b, fmt.Errorf("snapshot of %s: %w: %w", messages.RefOf(s.GetActor()), history.ErrDamaged, err)
		}
		s = proto.CloneOf(s)
		s.State, b.snaps[i] = state, s
	}
	return b, nil
}

// reconfigured returns the state of a snapshot with what its actor keeps of a configuration.
func reconfigured(s *journaletv1.Snapshot, started *journaletv1.AgentStarted) ([]byte, error) {
	var m proto.Message
	var set func()
	switch s.GetActor().GetKind() {
	case journaletv1.ActorKind_ACTOR_KIND_NODE:
		st := &journaletv1.NodeState{}
		m, set = st, func() { st.Config = started.GetConfig() }
	case journaletv1.ActorKind_ACTOR_KIND_POD:
		st := &journaletv1.PodState{}
		m, set = st, func() {
			st.MaxBackOff, st.CpuQuota = started.GetConfig().GetMaxContainerBackOff(), started.GetConfig().GetCpuQuota()
		}
	case journaletv1.ActorKind_ACTOR_KIND_RUNTIME:
		st := &journaletv1.RuntimeState{}
		m, set = st, func() {
			fresh := dispatch.New() // it alone knows the limits that follow from a configuration
			_ = fresh.Evolve(actors.Event{Body: messages.NewEvent(started)})
			st.Limits = fresh.State().(*journaletv1.RuntimeState).GetLimits()
		}
	default:
		return s.GetState(), nil
	}
	if started == nil {
		return s.GetState(), nil
	}
	if err := proto.Unmarshal(s.GetState(), m); err != nil {
		return nil, err
	}
	set()
	return proto.Marshal(m)
}

func (r *Forecast) sort() {
	slices.SortFunc(r.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Actor, b.Actor))
	})
	r.Changes = r.Changes[:min(len(r.Changes), MaxDivergences)]
	slices.SortFunc(r.Kinds, func(a, b KindCount) int { return cmp.Compare(a.Event, b.Event) })
}

// forecaster decides again with a twin of each actor of one fold. The actor folds what is recorded; the twin decides.
// Where they differ, the twin is replaced by a copy of the actor before the next record.
type forecaster struct {
	fold     *fold.Fold
	complete func(messages.Ref) bool
	twins    map[messages.Ref]twin

	steps, differing uint64
	first            map[messages.Ref]*difference
	kinds            map[string]*KindCount
	missing          map[messages.Ref]bool
}

// handle is fold.Fold's Handle.
func (x *forecaster) handle(cell *fold.Cell, d *fold.Delivery, step *journaletv1.Record) *fold.Failure {
	if !x.complete(cell.Ref) {
		x.missing[cell.Ref] = true
		return &fold.Failure{Cause: d.Seq(), Err: errIncomplete}
	}
	twin, err := x.twinOf(cell)
	if err != nil {
		return &fold.Failure{Cause: d.Seq(), Err: err}
	}
	if fail := cell.Refold(d, step); fail != nil {
		if fail.Code == journaletv1.DecisionError_DECISION_ERROR_MANIFEST_MISSING {
			x.missing[cell.Ref] = true
		} else {
			x.note(cell, d, step, nil, nil, fail)
		}
		return fail
	}
	x.steps++
	var now []*journaletv1.Event
	fail := twin.Decide(d, step.GetEpoch(), func(e *journaletv1.Event) error {
		now = append(now, e)
		return nil
	})
	recorded, now := unequal(step.GetStep().GetDecisions(), now)
	if fail != nil || len(recorded)+len(now) > 0 {
		x.note(cell, d, step, recorded, now, fail)
		delete(x.twins, cell.Ref)
	}
	return nil
}

// twin decides in place of an actor. A UID may have several actors, one after the other.
type twin struct{ original, cell *fold.Cell }

// twinOf returns the twin of an actor, and creates the twin if needed.
func (x *forecaster) twinOf(c *fold.Cell) (*fold.Cell, error) {
	if t := x.twins[c.Ref]; t.original == c {
		return t.cell, nil
	}
	if len(x.twins) > 2*len(x.fold.Cells) {
		maps.DeleteFunc(x.twins, func(ref messages.Ref, _ twin) bool { return x.fold.Cells[ref] == nil })
	}
	cell, err := clone(x.fold, c)
	if err == nil {
		x.twins[c.Ref] = twin{c, cell}
	}
	return cell, err
}

// skip notes the authors with missing records. It is fold.Fold's Skip.
func (x *forecaster) skip(step *journaletv1.Record, why fold.Skipped) {
	if why == fold.NoActor || why == fold.NoCause {
		x.missing[messages.RefOf(step.GetActor())] = true
	}
}

// unequal returns what is only in one of two lists of decisions, in order.
func unequal(a, b []*journaletv1.Event) (onlyA, onlyB []*journaletv1.Event) {
	left := slices.Clone(b)
	for _, e := range a {
		if i := slices.IndexFunc(left, func(o *journaletv1.Event) bool { return equal(e, o) }); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		onlyA = append(onlyA, e)
	}
	return onlyA, left
}

// difference is the first record that an actor decides otherwise on, and the actor's decisions on that record.
type difference struct {
	Change
	ref           messages.Ref
	recorded, now []*journaletv1.Event
}

// note counts a difference, and keeps the first one of an actor.
func (x *forecaster) note(c *fold.Cell, d *fold.Delivery, step *journaletv1.Record, recorded,
	now []*journaletv1.Event, fail *fold.Failure) {
	x.differing++
	left := slices.Clone(now)
	for _, e := range recorded {
		if i := sameKind(e, left); i >= 0 {
			x.kind(e).Changed++
			left = slices.Delete(left, i, i+1)
		} else {
			x.kind(e).Dropped++
		}
	}
	for _, e := range left {
		x.kind(e).Added++
	}
	if first := x.first[c.Ref]; first != nil {
		first.Later++
		return
	}
	is := &difference{ref: c.Ref, recorded: recorded, now: now, Change: Change{
		Seq: d.Seq(), Cause: d.Seq(), Time: d.Rec.GetTime().AsTime(), Actor: c.Ref.String(), Pod: podName(c),
	}}
	if step != nil {
		is.Seq, is.Time = step.GetSeq(), step.GetTime().AsTime()
	}
	if fail != nil {
		is.Error, _, _ = strings.Cut(fail.Err.Error(), "\n")
	}
	x.first[c.Ref] = is
}

// sameKind returns the index of the first of some decisions that is of the same kind as e, -1 for none.
func sameKind(e *journaletv1.Event, all []*journaletv1.Event) int {
	return slices.IndexFunc(all, func(o *journaletv1.Event) bool {
		return messages.EventName(o) == messages.EventName(e)
	})
}

// describe puts the decisions into words.
func (d *difference) describe(words *describe.Describer) Change {
	for _, e := range d.recorded {
		if i := sameKind(e, d.now); i >= 0 {
			d.Changed = append(d.Changed, Differences(e, d.now[i])...)
			d.now = slices.Delete(d.now, i, i+1)
		} else {
			d.Dropped = append(d.Dropped, words.Describe("", d.ref, e))
		}
	}
	for _, e := range d.now {
		d.Added = append(d.Added, words.Describe("", d.ref, e))
	}
	return d.Change
}

func (x *forecaster) kind(e *journaletv1.Event) *KindCount {
	name := messages.EventName(e)
	if x.kinds[name] == nil {
		x.kinds[name] = &KindCount{Event: name}
	}
	return x.kinds[name]
}

// addTo adds what was found to a forecast.
func (x *forecaster) addTo(r *Forecast, words *describe.Describer) {
	r.Steps, r.Differing = r.Steps+x.steps, r.Differing+x.differing
	r.Actors, r.Missing = r.Actors+len(x.first), r.Missing+len(x.missing)
	for _, d := range x.first {
		r.Changes = append(r.Changes, d.describe(words))
	}
	for _, k := range x.kinds {
		i := slices.IndexFunc(r.Kinds, func(o KindCount) bool { return o.Event == k.Event })
		if i < 0 {
			r.Kinds = append(r.Kinds, *k)
			continue
		}
		o := &r.Kinds[i]
		o.Dropped, o.Added, o.Changed = o.Dropped+k.Dropped, o.Added+k.Added, o.Changed+k.Changed
	}
}
