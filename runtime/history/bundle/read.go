package bundle

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// decoded is a frame in memory; it is never changed.
type decoded struct {
	frame int
	items [][]byte
	seqs  []uint64 // of records: their numbers
}

// recentFrames is how many frames are kept for Get and Manifest: a cause is mostly near its effect.
const recentFrames = 16

// decoded returns a frame of records or manifests.
func (r *Reader) decoded(i int) (*decoded, error) {
	r.mu.Lock()
	at := slices.IndexFunc(r.recent, func(d *decoded) bool { return d.frame == i })
	if at >= 0 {
		d := r.recent[at]
		r.recent = slices.Insert(slices.Delete(r.recent, at, at+1), 0, d)
		r.mu.Unlock()
		return d, nil
	}
	r.mu.Unlock()
	b, err := r.frame(i, nil)
	if err != nil {
		return nil, err
	}
	f := r.index.GetFrames()[i]
	d := &decoded{frame: i, items: make([][]byte, 0, f.GetItems())}
	if f.GetContent() == journaletv1.BundleContent_BUNDLE_CONTENT_RECORDS {
		d.seqs = make([]uint64, 0, f.GetItems())
		err = eachRecord(i, f, b, func(seq uint64, item []byte) error {
			d.items, d.seqs = append(d.items, item), append(d.seqs, seq)
			return nil
		})
	} else {
		err = items(i, f, b, func(item []byte) error {
			d.items = append(d.items, item)
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.recent = slices.Insert(r.recent, 0, d)
	r.recent = r.recent[:min(len(r.recent), recentFrames)]
	r.mu.Unlock()
	return d, nil
}

// eachRecord passes the records of a frame with their numbers, and checks that they ascend within the frame's bounds.
func eachRecord(i int, f *journaletv1.BundleFrame, b []byte, do func(seq uint64, item []byte) error) error {
	next, last := f.GetFirst(), uint64(0)
	err := items(i, f, b, func(item []byte) error {
		seq := seqOf(item)
		if seq < next || seq > f.GetLast() || last == 0 && seq != f.GetFirst() {
			return problemf("byte %d: %s holds record %d where %d or a later one is expected", f.GetOffset(), place(i, f), seq,
				next)
		}
		next, last = seq+1, seq
		return do(seq, item)
	})
	if err == nil && last != f.GetLast() {
		err = problemf("byte %d: %s ends with record %d", f.GetOffset(), place(i, f), last)
	}
	return err
}

// Read passes records in order. Frames are decompressed ahead on other cores.
func (r *Reader) Read(ctx context.Context, from, to uint64, f func(history.Entry) error) error {
	return r.read(ctx, from, to, nil, f)
}

// ReadOf is Read without the frames that hold no record which an actor took, which is about it, or which it receives.
// Records that do not concern the actor may be passed, too.
func (r *Reader) ReadOf(ctx context.Context, ref messages.Ref, from, to uint64, f func(history.Entry) error) error {
	n, known := r.actors[ref.String()]
	return r.read(ctx, from, to, func(f *journaletv1.BundleFrame) bool {
		if f.GetEveryone() || !known {
			return f.GetEveryone()
		}
		at := uint32(0)
		for _, d := range f.GetActors() {
			if at += d; at >= n {
				return at == n
			}
		}
		return false
	}, f)
}

func (r *Reader) read(ctx context.Context, from, to uint64, want func(*journaletv1.BundleFrame) bool,
	f func(history.Entry) error) error {
	first, last := r.Bounds()
	if from > 0 && from < first {
		return r.gone(from)
	}
	if to == 0 {
		to = last
	}
	var frames []int
	for _, i := range r.records[r.at(from):] {
		if r.index.GetFrames()[i].GetFirst() > to {
			break
		}
		if want == nil || want(r.index.GetFrames()[i]) {
			frames = append(frames, i)
		}
	}
	return r.ahead(ctx, frames, func(i int, b []byte) error {
		return eachRecord(i, r.index.GetFrames()[i], b, func(seq uint64, item []byte) error {
			if seq < from || seq > to {
				return nil
			}
			return f(history.Entry{Seq: seq, Bytes: item})
		})
	})
}

// maxAhead bounds how many frames are decompressed ahead, each of at most MaxFrameBytes, mostly of frameBytes.
const maxAhead = 8

// ahead decompresses frames on several goroutines and passes them in order. Errors of do are returned as they are.
func (r *Reader) ahead(ctx context.Context, frames []int, do func(i int, b []byte) error) error {
	if len(frames) == 1 {
		b, err := r.frame(frames[0], nil)
		if err != nil {
			return r.named(err)
		}
		return r.passed(do(frames[0], b))
	}
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		frame int
		b     []byte
		err   error
	}
	queue := make(chan chan result, min(runtime.GOMAXPROCS(0), maxAhead))
	free := make(chan []byte, cap(queue)+2)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		defer close(queue)
		for _, i := range frames {
			one := make(chan result, 1)
			select {
			case queue <- one:
			case <-ctx.Done():
				return
			}
			running.Go(func() {
				var dst []byte
				select {
				case dst = <-free:
				default:
				}
				b, err := r.frame(i, dst)
				one <- result{i, b, err}
			})
		}
	})
	for one := range queue {
		got := <-one
		if err := ctx.Err(); err != nil {
			return err
		}
		if got.err != nil {
			return r.named(got.err)
		}
		if err := r.passed(do(got.frame, got.b)); err != nil {
			return err
		}
		select {
		case free <- got.b:
		default:
		}
	}
	return ctx.Err()
}

// passed adds the bundle's name to an error of its own.
func (r *Reader) passed(err error) error {
	if p, ok := err.(*problem); ok { //nolint:errorlint // that of the caller's function may wrap one
		return r.named(p)
	}
	return err
}

// Check reads everything and returns the first damage: each frame's SHA-256 and items. progress may be nil.
func (r *Reader) Check(ctx context.Context, progress func(done, total uint64)) error {
	frames := make([]int, len(r.index.GetFrames()))
	for i := range frames {
		frames[i] = i
	}
	return r.ahead(ctx, frames, func(i int, b []byte) error {
		f := r.index.GetFrames()[i]
		if progress != nil {
			progress(f.GetOffset(), uint64(r.size))
		}
		if f.GetContent() == journaletv1.BundleContent_BUNDLE_CONTENT_RECORDS {
			return eachRecord(i, f, b, func(seq uint64, item []byte) error {
				if _, err := messages.Decode(item); err != nil {
					return problemf("byte %d: %s, record %d: %v", f.GetOffset(), place(i, f), seq, err)
				}
				return nil
			})
		}
		return items(i, f, b, func([]byte) error { return nil })
	})
}

// Chain checks the hash chain of the journal where records follow each other, and returns the records, at most limit,
// whose previous_hash is not the hash of the record before. progress may be nil.
func (r *Reader) Chain(ctx context.Context, limit int, progress func(done, total uint64)) (broken []uint64, err error) {
	var hash []byte
	before, done := uint64(0), uint64(0)
	err = r.Read(ctx, 0, 0, func(e history.Entry) error {
		if done++; progress != nil && done%4096 == 0 {
			progress(done, r.index.GetRecords())
		}
		rec, err := e.Record()
		if err != nil {
			return r.named(problemf("record %d: %v", e.Seq, err))
		}
		if before+1 == e.Seq && hash != nil && !bytes.Equal(rec.GetPreviousHash(), hash) && len(broken) < limit {
			broken = append(broken, e.Seq)
		}
		before, hash = e.Seq, messages.Hash(e.Bytes)
		return nil
	})
	return broken, err
}

// String returns what errors call the bundle.
func (r *Reader) String() string { return fmt.Sprintf("bundle %s", r.name) }
