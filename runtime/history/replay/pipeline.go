package replay

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/history"
)

const (
	// batchSize is the number of records that go to a worker at once, batches how many batches may wait for it.
	batchSize = 256
	batches   = 8
	// progressEvery is the number of records between two reports of progress.
	progressEvery = 10_000
	// maxPending bounds the records that wait for the next step of one actor. A live actor takes one long before.
	maxPending = 200_000
)

// pipeline folds a journal on several goroutines: one reads, decodes and passes each record to the workers that fold
// the actors it concerns. Actors do not depend on each other, so each worker has a fold of its own with some of them.
type pipeline struct {
	o       Options
	workers []*worker
	// records and events were read; absent counts the records that are missing between them.
	records, events uint64
	absent          atomic.Uint64
	// lost counts the actors without whose manifests the fold begins.
	lost int
	// stored, if set, is called with each entry. joined, if set, is called with each record, the parts of a step joined,
	// and the number of entries that it is.
	stored func(history.Entry) error
	joined func(rec *journaletv1.Record, n int)
	// change, if set, returns the record to be folded in place of one.
	change func(*journaletv1.Record) *journaletv1.Record
	// failed is set once a worker has failed.
	failed atomic.Pointer[error]
}

// worker folds some of the actors.
type worker struct {
	fold *fold.Fold
	base base
	in   chan []*journaletv1.Record
	next []*journaletv1.Record
	// after, if set, is called with each folded record.
	after func(rec *journaletv1.Record)
}

// newPipeline returns a pipeline whose folds setUp has completed. run must be called once.
func newPipeline(o Options, manifest fold.Manifests, setUp func(*fold.Fold)) *pipeline {
	if o.Workers == 0 {
		o.Workers = max(2, runtime.GOMAXPROCS(0))
	}
	p := &pipeline{o: o}
	for i := range o.Workers {
		w := &worker{fold: fold.New(fold.AllDeciders, manifest), in: make(chan []*journaletv1.Record, batches)}
		w.fold.Mine = func(ref messages.Ref) bool { return p.shard(ref) == i }
		setUp(w.fold)
		p.workers = append(p.workers, w)
	}
	return p
}

// shard returns the index of the worker that folds an actor.
func (p *pipeline) shard(ref messages.Ref) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(ref.ID)) // never fails
	return int((h.Sum32() + uint32(ref.Kind)) % uint32(len(p.workers)))
}

// run reads a journal from its base up to a record, 0 for its end, and folds it.
func (p *pipeline) run(ctx context.Context, src history.Reader, b base, to uint64) error {
	var wg sync.WaitGroup
	for _, w := range p.workers {
		w.base = b
		err := guarded(0, func() error {
			lost, err := b.begin(w.fold)
			p.lost += len(lost)
			return err
		})
		if err != nil {
			return err
		}
		wg.Go(func() {
			if err := w.run(); err != nil {
				p.failed.CompareAndSwap(nil, &err)
			}
		})
	}
	err := p.read(ctx, src, b, to)
	for _, w := range p.workers {
		w.in <- w.next
		close(w.in)
	}
	wg.Wait()
	if failed := p.failed.Load(); failed != nil {
		return *failed
	}
	return err
}

var errStopped = errors.New("stopped")

// read passes the records to the workers.
func (p *pipeline) read(ctx context.Context, src history.Reader, b base, end uint64) error {
	var parts fold.Parts
	_, last := src.Bounds()
	if end > 0 {
		last = min(last, end)
	}
	if b.from > last {
		return nil
	}
	to := make([]bool, len(p.workers))
	n := 0 // entries since the last joined record
	next := b.from
	return src.Read(ctx, b.from, last, func(e history.Entry) error {
		if p.records%progressEvery == 0 {
			if p.failed.Load() != nil {
				return errStopped
			}
			if p.o.Progress != nil {
				p.o.Progress(p.records, last+1-b.from)
			}
		}
		rec, err := decode(e)
		if err != nil {
			return err
		}
		if p.stored != nil {
			if err := p.stored(e); err != nil {
				return err
			}
		}
		if e.Seq > next {
			p.absent.Add(e.Seq - next)
		}
		next = e.Seq + 1
		p.records++
		p.events += uint64(len(messages.Events(rec)))
		n++
		if rec = parts.Join(rec); rec == nil {
			return nil
		}
		if p.joined != nil {
			p.joined(rec, n)
		}
		n = 0
		if p.change != nil {
			rec = p.change(rec)
		}
		p.route(rec, to)
		return nil
	})
}

// decode decodes a record, and rejects a record that this version cannot fold.
func decode(e history.Entry) (*journaletv1.Record, error) {
	rec, err := e.Record()
	if err != nil {
		return nil, fmt.Errorf("record %d: %w: %w", e.Seq, history.ErrDamaged, err)
	}
	if rec.GetSeq() != e.Seq {
		return nil, fmt.Errorf("record %d: %w: it has the number %d", e.Seq, history.ErrDamaged, rec.GetSeq())
	}
	return rec, fold.CheckRecord(rec)
}

// route queues a record for the workers that it concerns. to is reused.
func (p *pipeline) route(rec *journaletv1.Record, to []bool) {
	clear(to)
	author := messages.RefOf(rec.GetActor())
	to[p.shard(author)] = true
	for _, e := range messages.Events(rec) {
		p.audience(author, e, to)
	}
	for i, w := range p.workers {
		if !to[i] {
			continue
		}
		if w.next = append(w.next, rec); len(w.next) == batchSize {
			w.in <- w.next
			w.next = make([]*journaletv1.Record, 0, batchSize)
		}
	}
}

// audience adds the workers that fold the actors which an event concerns.
func (p *pipeline) audience(author messages.Ref, e *journaletv1.Event, to []bool) {
	audience, everyone := messages.Audience(author, e)
	for _, ref := range audience {
		to[p.shard(ref)] = true
	}
	// The facts of the host and the end of a pod, which no actor receives.
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PodForgotten:
		to[p.shard(messages.Pod(k.PodForgotten.GetUid()))] = true
	case *journaletv1.Event_Quarantined, *journaletv1.Event_QuarantineLifted:
		everyone = true
	}
	for i := range to {
		to[i] = to[i] || everyone
	}
}

// run folds what the reader passes on. After a failure it drops the rest.
func (w *worker) run() error {
	var failed error
	for recs := range w.in {
		if failed == nil {
			failed = w.foldAll(recs)
		}
	}
	return failed
}

func (w *worker) foldAll(recs []*journaletv1.Record) error {
	for _, rec := range recs {
		err := guarded(rec.GetSeq(), func() error {
			w.base.fold(w.fold, rec)
			if w.after != nil {
				w.after(rec)
			}
			return nil
		})
		if err != nil {
			return err
		}
		author := messages.RefOf(rec.GetActor())
		if n := len(w.fold.Pending[author]); n > maxPending {
			return fmt.Errorf("record %d: %w: %d records wait for a step of %s", rec.GetSeq(), history.ErrDamaged, n, author)
		}
	}
	return nil
}

// guarded calls do. A panic is an error that names the record: what a hostile journal holds must not end the process.
func guarded(seq uint64, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("record %d: %w: it cannot be folded: panic: %v", seq, history.ErrDamaged, p)
		}
	}()
	return do()
}
