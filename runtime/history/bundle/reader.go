package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/history"
)

// Reader is a bundle as a journal that is only read. Opening it checks its beginning, its index and its header; the
// content of a frame is checked whenever it is read. Its methods may be called from several goroutines.
type Reader struct {
	name   string
	file   io.Closer // nil: the caller's
	dec    *decoder
	size   int64
	header *journaletv1.BundleHeader
	index  *journaletv1.BundleIndex
	// records are the indices of the frames of records.
	records []int
	actors  map[string]uint32

	mu        sync.Mutex
	recent    []*decoded            // the newest use first
	manifests map[string]manifestAt // nil: not read yet
}

var _ history.Reader = (*Reader)(nil)

// Open opens the bundle in a file. Close it, unless the process reads it to its end.
func Open(path string) (*Reader, error) {
	f, err := bounded.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	var r *Reader
	if err == nil {
		r, err = New(f, info.Size(), filepath.Base(path))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	r.file = f
	// A history.Reader has no Close: the file is closed when nothing refers to the reader any more.
	runtime.AddCleanup(r, func(f *os.File) { _ = f.Close() }, f)
	return r, nil
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// New returns the bundle in src, which has size bytes. Errors name it.
func New(src io.ReaderAt, size int64, name string) (*Reader, error) {
	r := &Reader{name: name, size: size}
	if err := r.open(src); err != nil {
		return nil, r.named(err)
	}
	return r, nil
}

func (r *Reader) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bundle %s: %w", r.name, err)
}

func (r *Reader) open(src io.ReaderAt) (err error) {
	begin := make([]byte, min(r.size, int64(openingBytes)))
	if n, err := src.ReadAt(begin, 0); n < len(begin) {
		return fmt.Errorf("read: %w", err)
	}
	if err := checkOpening(begin, r.size); err != nil {
		return err
	}
	end := make([]byte, endingBytes)
	if n, err := src.ReadAt(end, r.size-int64(endingBytes)); n < len(end) {
		return fmt.Errorf("read: %w", err)
	}
	t, err := parseTail(end, r.size)
	if err != nil {
		return err
	}
	if r.dec, err = newDecoder(src); err != nil {
		return err
	}
	b, err := r.dec.read("the index", t.offset, t.stored, t.bytes, t.sum[:], nil)
	if err != nil {
		return err
	}
	r.index = &journaletv1.BundleIndex{}
	bound := boundIndex(t.offset / minStored)
	if err := decodeOne(b, journaletv1.BundleContent_BUNDLE_CONTENT_INDEX, r.index, bound); err != nil {
		return err
	}
	if err := checkIndex(r.index, t.offset); err != nil {
		return err
	}
	return r.readHeader()
}

func (r *Reader) readHeader() error {
	b, err := r.frame(0, nil)
	if err != nil {
		return err
	}
	r.header = &journaletv1.BundleHeader{}
	if err := decodeOne(b, journaletv1.BundleContent_BUNDLE_CONTENT_HEADER, r.header, nil); err != nil {
		return err
	}
	if err := checkJournalFormat(r.header.GetJournalFormat(), r.header.GetVersion()); err != nil {
		return err
	}
	for i, f := range r.index.GetFrames() {
		if f.GetContent() == journaletv1.BundleContent_BUNDLE_CONTENT_RECORDS {
			r.records = append(r.records, i)
		}
	}
	r.actors = make(map[string]uint32, len(r.index.GetActors()))
	for i, name := range r.index.GetActors() {
		r.actors[name] = uint32(i)
	}
	return nil
}

// frame returns the content of a frame, in the memory of dst if that is large enough.
func (r *Reader) frame(i int, dst []byte) ([]byte, error) {
	f := r.index.GetFrames()[i]
	return r.dec.read(place(i, f), f.GetOffset(), f.GetStoredBytes(), f.GetBytes(), f.GetSha256(), dst)
}

// Header returns what the bundle was written from; it is only read.
func (r *Reader) Header() *journaletv1.BundleHeader { return r.header }

// Index returns where everything is and how much there is; it is only read.
func (r *Reader) Index() *journaletv1.BundleIndex { return r.index }

// Size returns the size of the file.
func (r *Reader) Size() int64 { return r.size }

// Node returns the node's name as a token of subjects.
func (r *Reader) Node() string { return r.header.GetNode() }

// Bounds returns the first and the last record that the bundle answers for: one of some pods may hold neither.
func (r *Reader) Bounds() (first, last uint64) { return r.index.GetFirst(), r.index.GetLast() }

// Complete reports whether the bundle holds all records of an actor between its bounds, so that the actor folds. A
// bundle of some pods does so for these pods only, a redacted one for none.
func (r *Reader) Complete(ref messages.Ref) bool {
	if r.Redacted() || slices.Contains(r.index.GetIncomplete(), ref.String()) {
		return false
	}
	return len(r.header.GetPods()) == 0 || ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD &&
		slices.ContainsFunc(r.header.GetPods(), func(p *journaletv1.BundlePod) bool { return p.GetUid() == ref.ID })
}

// Redacted reports whether names, texts and manifests were left out.
func (r *Reader) Redacted() bool { return r.header.GetRedacted() }

// at returns the place in r.records of the frame with the record seq, or of the next one.
func (r *Reader) at(seq uint64) int {
	return sort.Search(len(r.records), func(i int) bool { return r.index.GetFrames()[r.records[i]].GetLast() >= seq })
}

func (r *Reader) gone(seq uint64) error {
	first, last := r.Bounds()
	return r.named(fmt.Errorf("record %d: %w: the bundle holds records %d to %d", seq, history.ErrGone, first, last))
}

// Get returns one record.
func (r *Reader) Get(_ context.Context, seq uint64) (*journaletv1.Record, error) {
	first, last := r.Bounds()
	switch {
	case seq > 0 && seq < first:
		return nil, r.gone(seq)
	case seq > 0 && seq <= last:
		rec, err := r.find(seq)
		if rec != nil || err != nil {
			return rec, r.named(err)
		}
		if len(r.header.GetPods()) > 0 {
			return nil, r.named(fmt.Errorf("record %d: %w: the bundle was written without it, for some pods only", seq,
				history.ErrGone))
		}
	}
	return nil, r.named(fmt.Errorf("record %d: %w: the bundle holds records %d to %d", seq, history.ErrNoRecord, first,
		last))
}

// find returns a record, nil if it is not there.
func (r *Reader) find(seq uint64) (*journaletv1.Record, error) {
	at := r.at(seq)
	if at == len(r.records) {
		return nil, nil
	}
	d, err := r.decoded(r.records[at])
	if err != nil {
		return nil, err
	}
	i, ok := slices.BinarySearch(d.seqs, seq)
	if !ok {
		return nil, nil
	}
	rec, err := messages.Decode(d.items[i])
	if err != nil {
		return nil, problemf("record %d: %v", seq, err)
	}
	return rec, nil
}

// Snapshots returns the barriers of the sets.
func (r *Reader) Snapshots(context.Context) ([]uint64, error) {
	var out []uint64
	for _, s := range r.index.GetSets() {
		out = append(out, s.GetBarrier())
	}
	return out, nil
}

// Snapshot returns the set with a barrier.
func (r *Reader) Snapshot(ctx context.Context, barrier uint64) ([]*journaletv1.Snapshot, error) {
	i := slices.IndexFunc(r.index.GetSets(), func(s *journaletv1.BundleSet) bool { return s.GetBarrier() == barrier })
	if i < 0 {
		return nil, r.named(fmt.Errorf("there is no set of snapshots at %d", barrier))
	}
	var out []*journaletv1.Snapshot
	for i, f := range r.index.GetFrames() {
		if f.GetContent() != journaletv1.BundleContent_BUNDLE_CONTENT_SNAPSHOTS || f.GetFirst() != barrier {
			continue
		}
		err := r.eachItem(ctx, i, func(item []byte) error {
			s := &journaletv1.BundleSnapshot{}
			if err := proto.Unmarshal(item, s); err != nil || s.GetBarrier() != barrier || s.GetSnapshot() == nil {
				return problemf("a snapshot cannot be decoded (%v)", err)
			}
			out = append(out, s.GetSnapshot())
			return nil
		})
		if err != nil {
			return nil, r.named(err)
		}
	}
	return out, nil
}

// eachItem passes the items of a frame to f, and checks their number.
func (r *Reader) eachItem(ctx context.Context, i int, f func(item []byte) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := r.frame(i, nil)
	if err != nil {
		return err
	}
	return items(i, r.index.GetFrames()[i], b, f)
}

func items(i int, f *journaletv1.BundleFrame, b []byte, do func(item []byte) error) error {
	n := uint32(0)
	for len(b) > 0 {
		item, rest := nextItem(b, f.GetContent())
		if item == nil || n == f.GetItems() {
			return problemf("byte %d: %s holds something else than %d items", f.GetOffset(), place(i, f), f.GetItems())
		}
		n++
		if err := do(item); err != nil {
			return err
		}
		b = rest
	}
	if n != f.GetItems() {
		return problemf("byte %d: %s holds %d items, and the index counts %d", f.GetOffset(), place(i, f), n, f.GetItems())
	}
	return nil
}

// manifestAt is where a manifest is: frame and item.
type manifestAt struct{ frame, item int }

// Manifest returns the manifest with a digest, checked against it.
func (r *Reader) Manifest(ctx context.Context, digest string) ([]byte, error) {
	at, ok, err := r.findManifest(ctx, digest)
	switch {
	case err != nil:
		return nil, err
	case !ok && r.Redacted():
		return nil, r.named(fmt.Errorf("manifest %s: %w: the bundle is redacted", digest, history.ErrNoManifest))
	case !ok:
		return nil, r.named(fmt.Errorf("manifest %s: %w", digest, history.ErrNoManifest))
	}
	d, err := r.decoded(at.frame)
	if err != nil {
		return nil, r.named(err)
	}
	m := &journaletv1.BundleManifest{}
	if err := proto.Unmarshal(d.items[at.item], m); err != nil {
		return nil, r.named(problemf("manifest %s: %v", digest, err))
	}
	sum := sha256.Sum256(m.GetManifest())
	if "sha256:"+hex.EncodeToString(sum[:]) != digest {
		return nil, r.named(problemf("the manifest with digest %s has another one: the bundle is damaged", digest))
	}
	return m.GetManifest(), nil
}

// Manifests passes all manifests to f, unchecked.
func (r *Reader) Manifests(ctx context.Context, f func(digest string, manifest []byte) error) error {
	return r.eachManifest(ctx, func(_ manifestAt, m *journaletv1.BundleManifest) error {
		return f(m.GetDigest(), m.GetManifest())
	})
}

func (r *Reader) eachManifest(ctx context.Context, f func(manifestAt, *journaletv1.BundleManifest) error) error {
	for i, frame := range r.index.GetFrames() {
		if frame.GetContent() != journaletv1.BundleContent_BUNDLE_CONTENT_MANIFESTS {
			continue
		}
		n := 0
		err := r.eachItem(ctx, i, func(item []byte) error {
			m := &journaletv1.BundleManifest{}
			if err := proto.Unmarshal(item, m); err != nil {
				return problemf("byte %d: a manifest cannot be decoded: %v", frame.GetOffset(), err)
			}
			n++
			return f(manifestAt{i, n - 1}, m)
		})
		if err != nil {
			return r.passed(err)
		}
	}
	return nil
}

// findManifest returns where a manifest is.
func (r *Reader) findManifest(ctx context.Context, digest string) (manifestAt, bool, error) {
	r.mu.Lock()
	found := r.manifests
	r.mu.Unlock()
	if found == nil {
		found = map[string]manifestAt{}
		err := r.eachManifest(ctx, func(at manifestAt, m *journaletv1.BundleManifest) error {
			found[m.GetDigest()] = at
			return nil
		})
		if err != nil {
			return manifestAt{}, false, err
		}
		r.mu.Lock()
		r.manifests = found
		r.mu.Unlock()
	}
	at, ok := found[digest]
	return at, ok, nil
}
