package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// snapshotEvery is how many records are read back at most before a snapshot makes that unnecessary.
const snapshotEvery = 20_000

// foldJournal folds the newest snapshots and all that the journal holds after them.
func (h *Host) foldJournal(f *fold) error {
	h.folding.RLock()
	defer h.folding.RUnlock()
	barrier, snaps, err := h.opts.Snapshots.Load(h.ctx)
	if err != nil {
		return fmt.Errorf("load snapshots: %w", err)
	}
	barrier = max(barrier, h.floor)
	for _, s := range snaps {
		if err := f.restore(s); err != nil {
			return err
		}
	}
	for _, ref := range singletons {
		if f.cells[ref] == nil && (f.only == nil || *f.only == ref) {
			f.bear(ref)
		}
	}
	last := h.opts.Journal.Last()
	if last <= barrier {
		return nil
	}
	return h.opts.Journal.Read(h.ctx, barrier+1, last, "", func(rec *journaletv1.Record, _ int) error {
		if err := known(rec); err != nil {
			return err
		}
		f.record(rec)
		return nil
	})
}

// Recovered is what a host knows before it starts.
type Recovered struct {
	fold *fold
}

// Each gives every actor's decider, by kind and id, to be read only.
func (r *Recovered) Each(do func(messages.Ref, actors.Decider)) {
	refs := slices.Collect(maps.Keys(r.fold.cells))
	slices.SortFunc(refs, func(a, b messages.Ref) int { return strings.Compare(a.String(), b.String()) })
	for _, ref := range refs {
		do(ref, r.fold.cells[ref].decider)
	}
}

// Open gives the records that an actor has heard and not handled yet, in order. They are not in its
// state, and it handles them as soon as it runs.
func (r *Recovered) Open(ref messages.Ref, do func(*journaletv1.Record)) {
	for _, d := range r.fold.open[ref] {
		do(d.rec)
	}
}

// Recover folds the journal. Nothing runs yet and nothing is recorded.
func (h *Host) Recover() (*Recovered, error) {
	if err := h.gap(); err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	f := newFold(h.opts.Deciders, h.manifest)
	if err := h.foldJournal(f); err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	return &Recovered{f}, nil
}

// Start runs the recovered actors. The start of the run is the first thing that it records; what an
// actor may have left undecided is decided next.
func (h *Host) Start(r *Recovered, started *journaletv1.AgentStarted) {
	h.raise()
	h.routed = h.opts.Journal.Last()
	h.started = r.fold.started
	order := slices.Collect(maps.Keys(r.fold.cells))
	// Supervisors first.
	slices.SortFunc(order, func(a, b messages.Ref) int {
		return supervisorsFirst(a) - supervisorsFirst(b)
	})
	// Nothing is routed before every actor is there to hear it.
	h.routing.Lock()
	defer h.routing.Unlock()
	h.Outcome(messages.Agent, &journaletv1.Event{Kind: &journaletv1.Event_AgentStarted{AgentStarted: started}})
	var held []messages.Ref
	for _, ref := range order {
		c := r.fold.cells[ref]
		if c.quarantined != nil {
			held = append(held, ref)
		}
		source := messages.FileSource
		if p, ok := c.decider.(*pod.Actor); ok && p.Pod().GetSource() != "" {
			source = p.Pod().GetSource()
		}
		m := h.spawn(c, source)
		for _, d := range r.fold.open[ref] {
			r.fold.resolve(d)
			m.box.refillAll(d)
		}
	}
	// A new run gives every quarantined actor another chance: it may be another version.
	for _, ref := range held {
		h.repairs.Go(func() {
			if err := h.Release(ref); err != nil {
				h.opts.Log.Warn("an actor stays quarantined", "actor", ref.String(), "err", firstLine(err.Error()))
			}
		})
	}
}

func supervisorsFirst(r messages.Ref) int {
	if r.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
		return 1
	}
	return 0
}

// Stop takes a last set of snapshots and ends the actors.
func (h *Host) Stop(ctx context.Context) error {
	err := h.Snapshot(ctx)
	h.stop()
	h.repairs.Wait()
	if h.system != nil {
		if stopped := h.system.Root.StopFuture(h.root); stopped != nil {
			_ = stopped.Wait()
		}
		h.system.Shutdown()
	}
	return err
}

// marker stands between two records in every mailbox; an actor that comes to it gives its state.
type marker struct {
	barrier uint64
	out     chan<- *journaletv1.Snapshot
	fail    chan<- error
}

func (m *marker) seq() uint64 { return m.barrier }

func (m *marker) pass(c *cell) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c.decider.State())
	if err != nil {
		m.fail <- fmt.Errorf("snapshot of %s: %w", c.ref, err)
		return
	}
	m.out <- &journaletv1.Snapshot{Actor: c.ref.Proto(), Handled: c.handled, State: b}
}

// Snapshot stores the state of every actor as of one point in the journal, so that a start has only
// what follows to read. It is skipped while an actor lags or is quarantined: such an actor's records
// must stay to be read.
func (h *Host) Snapshot(ctx context.Context) error {
	h.saving.Lock()
	defer h.saving.Unlock()
	out := make(chan *journaletv1.Snapshot, 64)
	fail := make(chan error, 1)
	barrier, snaps, n, err := h.mark(out, fail)
	if err != nil {
		return err
	}
	for range n {
		select {
		case s := <-out:
			snaps = append(snaps, s)
		case err := <-fail:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// The states hold decisions; they may be stored only after those are.
	if err := h.opts.Journal.Flush(ctx); err != nil {
		return err
	}
	return h.opts.Snapshots.Save(ctx, barrier, snaps)
}

func (h *Host) mark(out chan<- *journaletv1.Snapshot, fail chan<- error) (barrier uint64, first []*journaletv1.Snapshot, n int, err error) {
	h.routing.Lock()
	defer h.routing.Unlock()
	if h.started == nil {
		return 0, nil, 0, fmt.Errorf("no run has started")
	}
	if q, l := len(h.Quarantines()), h.Lagging(); q > 0 || l > 0 {
		return 0, nil, 0, fmt.Errorf("%d actors are quarantined and %d lag: their records are still needed", q, l)
	}
	run, err := messages.Encode(h.started)
	if err != nil {
		return 0, nil, 0, err
	}
	first = []*journaletv1.Snapshot{{Actor: messages.Agent.Proto(), State: run}}
	mk := &marker{barrier: h.routed, out: out, fail: fail}
	for _, ref := range h.everybody() {
		if m := h.member(ref); m != nil {
			m.box.refillAll(mk)
			n++
		}
	}
	return h.routed, first, n, nil
}
