package host

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// snapshotEvery is the number of records between two sets of snapshots.
const snapshotEvery = 20_000

// foldJournal folds the newest snapshots and all records after them.
func (h *Host) foldJournal(f *fold.Fold) error {
	h.folding.RLock()
	defer h.folding.RUnlock()
	barrier, snaps, err := h.opts.Snapshots.Load(h.ctx)
	if err != nil {
		return fmt.Errorf("load snapshots: %w", err)
	}
	f.Barrier = max(barrier, h.floor)
	for _, s := range snaps {
		if err := f.Restore(s); err != nil {
			return err
		}
	}
	f.CreateSingletons()
	f.Last = h.opts.Journal.Last()
	return h.readInto(f)
}

// readInto folds the records after the snapshots, and also earlier records for the actors that were quarantined then.
func (h *Host) readInto(f *fold.Fold) error {
	from := f.Barrier
	for _, c := range f.Cells {
		if c.Behind {
			from = min(from, c.Contained)
		}
	}
	if f.Last <= from {
		return nil
	}
	return h.opts.Journal.Read(h.ctx, from+1, f.Last, "", func(rec *journaletv1.Record, _ int) error {
		if err := fold.CheckRecord(rec); err != nil {
			return err
		}
		if rec.GetSeq() <= f.Barrier {
			f.Missed(rec)
		} else {
			f.Record(rec)
		}
		return nil
	})
}

// Recovered is the folded state of a host before it starts.
type Recovered struct {
	fold *fold.Fold
	refs []messages.Ref // sorted by kind and id
}

// Each calls do for every actor's decider, sorted by kind and id. do must only read.
func (r *Recovered) Each(do func(messages.Ref, actors.Decider)) {
	for _, ref := range r.refs {
		do(ref, r.fold.Cells[ref].Decider)
	}
}

// Pending calls do for the records that an actor has received but not handled yet, in order. They are not in its state,
// and it handles them as soon as it runs.
func (r *Recovered) Pending(ref messages.Ref, do func(*journaletv1.Record)) {
	for _, d := range r.fold.Pending[ref] {
		do(d.Rec)
	}
}

// Recover folds the journal. It starts and records nothing.
func (h *Host) Recover() (*Recovered, error) {
	if err := h.checkSnapshots(); err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	f := fold.New(h.opts.Deciders, h.manifest)
	if err := h.foldJournal(f); err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	return &Recovered{f, f.Refs()}, nil
}

// Start runs the recovered actors. It first records the start of the run; the actors first handle their pending
// records.
func (h *Host) Start(r *Recovered, started *journaletv1.AgentStarted) {
	// Route no record before all actors are spawned. What was appended since Recover, such as damage of the journal, may
	// be routed already.
	h.routing.Lock()
	defer h.routing.Unlock()
	h.startSystem()
	h.routed = max(h.routed, r.fold.Last)
	h.started = r.fold.Started
	order := slices.Collect(maps.Keys(r.fold.Cells))
	// Supervisors first.
	slices.SortFunc(order, func(a, b messages.Ref) int {
		return supervisorsFirst(a) - supervisorsFirst(b)
	})
	h.Outcome(messages.Agent, messages.NewEvent(started))
	var quarantined []messages.Ref
	for _, ref := range order {
		c := r.fold.Cells[ref]
		if c.Quarantined != nil {
			quarantined = append(quarantined, ref)
		}
		source := messages.FileSource
		if p, ok := c.Decider.(*pod.Actor); ok && p.Pod().GetSource() != "" {
			source = p.Pod().GetSource()
		}
		m := h.spawn(c, source)
		for _, d := range r.fold.Pending[ref] {
			r.fold.Resolve(d)
			m.box.refillAll(d)
		}
	}
	// A new run retries quarantined actors: it may be another version.
	for _, ref := range quarantined {
		h.retry(ref)
	}
}

func supervisorsFirst(r messages.Ref) int {
	if r.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
		return 1
	}
	return 0
}

// Stop takes a last set of snapshots and stops the actors.
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

// marker is a barrier between two records in every mailbox; an actor that reaches it sends its state.
type marker struct {
	barrier uint64
	out     chan<- *journaletv1.Snapshot
	fail    chan<- error
}

func (m *marker) Seq() uint64 { return m.barrier }

func (m *marker) pass(c *fold.Cell) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c.Decider.State())
	if err != nil {
		m.fail <- fmt.Errorf("snapshot of %s: %w", c.Ref, err)
		return
	}
	snap := &journaletv1.Snapshot{Actor: c.Ref.Proto(), Handled: c.Handled, State: b}
	if c.Diverged {
		m.fail <- fmt.Errorf("snapshot of %s: it is quarantined and could not be rebuilt", c.Ref)
		return
	}
	if c.Quarantined != nil {
		snap.Quarantined, snap.Contained = c.Quarantined, max(c.Contained, c.Handled)
	}
	m.out <- snap
}

// Snapshot stores the state of every actor at one position of the journal, so that a start reads only what follows, and
// for a quarantined actor what it has missed. It returns an error while an actor lags, whose records are still needed,
// or has no state that the journal folds to.
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
	// The states include decisions, which must be stored first.
	if err := h.opts.Journal.Flush(ctx); err != nil {
		return err
	}
	return h.opts.Snapshots.Save(ctx, barrier, snaps)
}

// mark puts a marker into every mailbox. It returns the barrier, the first snapshot and the number of markers.
func (h *Host) mark(out chan<- *journaletv1.Snapshot, fail chan<- error) (
	barrier uint64, first []*journaletv1.Snapshot, n int, err error) {
	h.routing.Lock()
	defer h.routing.Unlock()
	if h.started == nil {
		return 0, nil, 0, fmt.Errorf("no run has started")
	}
	if l := h.Lagging(); l > 0 {
		return 0, nil, 0, fmt.Errorf("%d actors lag: their records are still needed", l)
	}
	run, err := messages.Encode(h.started)
	if err != nil {
		return 0, nil, 0, err
	}
	first = []*journaletv1.Snapshot{{Actor: messages.Agent.Proto(), State: run}}
	mk := &marker{barrier: h.routed, out: out, fail: fail}
	for _, ref := range h.allRefs() {
		if m := h.member(ref); m != nil {
			m.box.refillAll(mk)
			n++
		}
	}
	return h.routed, first, n, nil
}
