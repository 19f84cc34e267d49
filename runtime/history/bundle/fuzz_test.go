package bundle

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
)

// What a bundle of a size may cost to read: some multiples of what its frames may decompress to, and a fixed part for
// the decompressors.
const (
	fixedBytes = 256 << 20
	perByte    = 16 * maxRatio
	maxReading = 20 * time.Second // on a busy machine
)

// readAll reads all of a bundle in every way.
func readAll(t *testing.T, b []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithTimeout(t.Context(), maxReading)
	defer cancel()
	r, err := New(bytes.NewReader(b), int64(len(b)), "fuzz")
	if err == nil {
		err = r.Check(ctx, nil)
		readEach(ctx, r)
	}
	if err != nil && !errors.Is(err, history.ErrDamaged) {
		t.Errorf("%v", err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > fixedBytes+perByte*uint64(len(b)) {
		t.Errorf("%d bytes took %d bytes of memory", len(b), got)
	}
}

func readEach(ctx context.Context, r *Reader) {
	first, last := r.Bounds()
	for _, seq := range []uint64{0, 1, first, first + 1, last, last + 1} {
		_, _ = r.Get(ctx, seq)
		_ = r.Read(ctx, seq, seq, func(history.Entry) error { return nil })
	}
	var digests []string
	_ = r.Read(ctx, 0, 0, func(e history.Entry) error {
		if rec, err := e.Record(); err == nil {
			_, _ = newRedactor().record(rec)
		}
		return nil
	})
	for _, name := range r.Index().GetActors() {
		if ref, err := messages.ParseRef(name); err == nil {
			_ = r.ReadOf(ctx, ref, 0, 0, func(history.Entry) error { return nil })
			_ = r.Complete(ref)
		}
	}
	_ = r.Manifests(ctx, func(digest string, _ []byte) error {
		digests = append(digests, digest)
		return nil
	})
	for _, d := range digests[:min(len(digests), 4)] {
		_, _ = r.Manifest(ctx, d)
	}
	barriers, _ := r.Snapshots(ctx)
	for _, b := range barriers {
		_, _ = r.Snapshot(ctx, b)
	}
	_, _, _ = history.Ends(ctx, r)
}

// small is a journal of few records, with a set of snapshots and a manifest.
func small(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, &journaletv1.BundleHeader{Node: "n", Version: "v1"})
	must.OK(t, err)
	must.OK(t, w.Snapshots(4, []*journaletv1.Snapshot{{Actor: messages.Node.Proto(), Handled: 4, State: []byte{8, 1}}}))
	for seq := uint64(5); seq < 8; seq++ {
		rec := &journaletv1.Record{Seq: seq, Epoch: 1, Actor: messages.Pod("u").Proto(),
			Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(&journaletv1.PodObserved{Uid: "u"})}}
		b, err := messages.Encode(rec)
		must.OK(t, err)
		must.OK(t, w.Record(b, rec))
	}
	must.OK(t, w.Manifest(digestOf([]byte("{}")), []byte("{}")))
	_, err = w.Close(nil, "")
	must.OK(t, err)
	return out.Bytes()
}

// FuzzBundle reads any bytes as a bundle.
func FuzzBundle(f *testing.F) {
	b := small(f)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add(openingFrame())
	f.Add([]byte("kind: Pod"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) { readAll(t, b) })
}

// FuzzBundleContent reads bundles whose sums are right and whose index and one frame are any bytes: it reaches code
// behind what FuzzBundle mostly reaches. With fitted, the index's places and sums match the file.
func FuzzBundleContent(f *testing.F) {
	b := small(f)
	r, err := New(bytes.NewReader(b), int64(len(b)), "seed")
	must.OK(f, err)
	index, err := proto.Marshal(r.Index())
	must.OK(f, err)
	for i := range r.Index().GetFrames() {
		content, err := r.frame(i, nil)
		must.OK(f, err)
		f.Add(index, content, uint8(r.Index().GetFrames()[i].GetContent()), true)
	}
	f.Add(index, []byte{}, uint8(3), false)
	f.Fuzz(func(t *testing.T, index, content []byte, kind uint8, fitted bool) {
		if len(content) == 0 {
			content = []byte{0}
		}
		readAll(t, assemble(t, index, content, journaletv1.BundleContent(kind), fitted))
	})
}

// assemble returns a bundle of a sound header, a frame with some content, and an index.
func assemble(t *testing.T, index, content []byte, kind journaletv1.BundleContent, fitted bool) []byte {
	t.Helper()
	head, err := proto.Marshal(&journaletv1.BundleHeader{JournalFormat: messages.JournalFormat})
	must.OK(t, err)
	header := appendItem(nil, journaletv1.BundleContent_BUNDLE_CONTENT_HEADER, head)
	b := openingFrame()
	x := &journaletv1.BundleIndex{}
	if fitted && proto.Unmarshal(index, x) == nil {
		frames := []*journaletv1.BundleFrame{{Content: journaletv1.BundleContent_BUNDLE_CONTENT_HEADER, Items: 1}, {}}
		for _, f := range x.GetFrames() {
			if f.GetContent() == kind && kind > 1 {
				frames[1] = f
			}
		}
		frames[1].Content = kind
		for i, raw := range [][]byte{header, content} {
			stored := storedFrame(raw)
			f := frames[i]
			f.Offset, f.StoredBytes, f.Bytes, f.Sha256 = uint64(len(b)), uint32(len(stored)), uint32(len(raw)), sumSlice(stored)
			b = append(b, stored...)
		}
		x.Frames = frames
		fit(x, frames[1])
		index, err = proto.Marshal(x)
		must.OK(t, err)
	} else {
		b = append(append(b, storedFrame(header)...), storedFrame(content)...)
	}
	return withIndex(b, appendItem(nil, journaletv1.BundleContent_BUNDLE_CONTENT_INDEX, index))
}

// fit sets the counts of an index to the counts of its second frame.
func fit(x *journaletv1.BundleIndex, f *journaletv1.BundleFrame) {
	x.Records, x.Manifests, x.First, x.Last, x.Sets = 0, 0, 1, 0, nil
	switch f.GetContent() {
	case journaletv1.BundleContent_BUNDLE_CONTENT_RECORDS:
		x.Records, x.First, x.Last = uint64(f.GetItems()), f.GetFirst(), f.GetLast()
	case journaletv1.BundleContent_BUNDLE_CONTENT_MANIFESTS:
		x.Manifests = uint64(f.GetItems())
	case journaletv1.BundleContent_BUNDLE_CONTENT_SNAPSHOTS:
		x.Sets = []*journaletv1.BundleSet{{Barrier: f.GetFirst(), Actors: f.GetItems()}}
	}
}
