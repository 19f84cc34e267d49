package bundle

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// Writer writes a bundle: header, then items in any order of contents, then the index (Close). It never goes back, so
// it writes to a pipe, too. After an error the bundle is not complete.
type Writer struct {
	w      io.Writer
	enc    *zstd.Encoder
	at     uint64
	index  *journaletv1.BundleIndex
	frame  *journaletv1.BundleFrame
	raw    []byte
	actors map[messages.Ref]int
	in     []uint32 // by actor: the last frame of records with the actor, from 1
	here   []int    // the actors in the frame
	names  []messages.Ref
	last   uint64
	bounds [2]uint64
}

// NewWriter writes the beginning of a bundle. It sets the header's journal format.
func NewWriter(w io.Writer, h *journaletv1.BundleHeader) (*Writer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
		zstd.WithSingleSegment(true), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	b := &Writer{w: w, enc: enc, index: &journaletv1.BundleIndex{First: 1}, actors: map[messages.Ref]int{}}
	h = proto.CloneOf(h)
	h.JournalFormat = messages.JournalFormat
	item, err := proto.MarshalOptions{Deterministic: true}.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(item) > maxHeaderBytes-16 {
		return nil, fmt.Errorf("the header has %d bytes, the limit is %d: export fewer pods at once", len(item),
			maxHeaderBytes)
	}
	if err := b.write(openingFrame()); err != nil {
		return nil, err
	}
	if err := b.add(journaletv1.BundleContent_BUNDLE_CONTENT_HEADER, item); err != nil {
		return nil, err
	}
	return b, b.flush()
}

func (b *Writer) write(p []byte) error {
	n, err := b.w.Write(p)
	b.at += uint64(n)
	return err
}

// add appends an item to the frame under way; a full one, or one of other content, is written first.
func (b *Writer) add(content journaletv1.BundleContent, item []byte) error {
	if len(item) > MaxFrameBytes-16 {
		return fmt.Errorf("%d bytes: %w", len(item), errTooLarge)
	}
	if b.frame != nil && (b.frame.Content != content || len(b.raw)+len(item) > frameBytes) {
		if err := b.flush(); err != nil {
			return err
		}
	}
	if b.frame == nil {
		b.frame = &journaletv1.BundleFrame{Content: content}
	}
	b.raw = appendItem(b.raw, content, item)
	b.frame.Items++
	return nil
}

// flush compresses and writes the frame under way.
func (b *Writer) flush() error {
	f := b.frame
	if f == nil {
		return nil
	}
	stored := compress(b.enc, b.raw)
	sum := sha256.Sum256(stored)
	f.Offset, f.StoredBytes, f.Bytes, f.Sha256 = b.at, uint32(len(stored)), uint32(len(b.raw)), sum[:]
	slices.Sort(b.here)
	for _, i := range b.here {
		f.Actors = append(f.Actors, uint32(i)) // of names; Close replaces it by the number in the index
	}
	b.index.Frames = append(b.index.Frames, f)
	b.frame, b.raw, b.here = nil, b.raw[:0], b.here[:0]
	return b.write(stored)
}

// Snapshots adds a complete set with a barrier. Sets come in ascending order.
func (b *Writer) Snapshots(barrier uint64, set []*journaletv1.Snapshot) error {
	if n := len(b.index.Sets); barrier == 0 || n > 0 && b.index.Sets[n-1].GetBarrier() >= barrier {
		return fmt.Errorf("a set of snapshots at %d after one at %d", barrier, b.index.Sets[n-1].GetBarrier())
	}
	if err := b.flush(); err != nil {
		return err
	}
	for _, s := range set {
		item, err := proto.MarshalOptions{Deterministic: true}.Marshal(
			&journaletv1.BundleSnapshot{Barrier: barrier, Snapshot: s})
		if err != nil {
			return err
		}
		if err := b.add(journaletv1.BundleContent_BUNDLE_CONTENT_SNAPSHOTS, item); err != nil {
			return fmt.Errorf("the state of %s at %d: %w", messages.RefOf(s.GetActor()), barrier, err)
		}
		b.frame.First, b.frame.Last = barrier, barrier
	}
	b.index.Sets = append(b.index.Sets, &journaletv1.BundleSet{Barrier: barrier, Actors: uint32(len(set))})
	return b.flush() // a set begins a frame of its own
}

// Record adds a record: as stored, and decoded. Records come in ascending order.
func (b *Writer) Record(stored []byte, rec *journaletv1.Record) error {
	seq := rec.GetSeq()
	if seq <= b.last {
		return fmt.Errorf("record %d after record %d", seq, b.last)
	}
	if err := b.add(journaletv1.BundleContent_BUNDLE_CONTENT_RECORDS, stored); err != nil {
		return fmt.Errorf("record %d: %w", seq, err)
	}
	if b.frame.Items == 1 {
		b.frame.First = seq
	}
	if b.index.Records == 0 {
		b.index.First = seq
	}
	b.frame.Last, b.index.Last, b.last = seq, seq, seq
	b.index.Records++
	author := messages.RefOf(rec.GetActor())
	b.note(author)
	for _, e := range messages.Events(rec) {
		b.index.Events++
		audience, everyone := messages.Audience(author, e)
		for _, ref := range audience {
			b.note(ref)
		}
		for _, uid := range history.PodsOf(author, e) {
			b.note(messages.Pod(uid))
		}
		b.frame.Everyone = b.frame.Everyone || everyone
		if started := e.GetAgentStarted(); started != nil {
			b.index.AgentVersion = started.GetVersion()
		}
	}
	return nil
}

// note adds an actor to the frame of records under way. An actor that no index may name, as of a redacted or hostile
// record, is left out: its records are found by reading all.
func (b *Writer) note(ref messages.Ref) {
	i, ok := b.actors[ref]
	if !ok {
		if ref.KindName() == "unknown" || messages.CheckID(ref.ID) != nil || len(b.names) >= maxNames {
			b.frame.Everyone = true
			return
		}
		i = len(b.names)
		b.actors[ref] = i
		b.names, b.in = append(b.names, ref), append(b.in, 0)
	}
	if now := uint32(len(b.index.Frames)); b.in[i] != now {
		b.in[i] = now
		b.here = append(b.here, i)
	}
}

// Manifest adds a manifest.
func (b *Writer) Manifest(digest string, manifest []byte) error {
	item, err := proto.Marshal(&journaletv1.BundleManifest{Digest: digest, Manifest: manifest})
	if err != nil {
		return err
	}
	if err := b.add(journaletv1.BundleContent_BUNDLE_CONTENT_MANIFESTS, item); err != nil {
		return fmt.Errorf("manifest %s: %w", digest, err)
	}
	b.index.Manifests++
	return nil
}

// Bounds sets the numbers of the first and the last record that the bundle answers for. The default is the first and
// the last record in the bundle.
func (b *Writer) Bounds(first, last uint64) { b.bounds = [2]uint64{first, last} }

// Close writes the index and returns it. missing are the digests of manifests that records name and nobody has.
// agentVersion counts if no record has one. It closes nothing else.
func (b *Writer) Close(missing []string, agentVersion string) (*journaletv1.BundleIndex, error) {
	if err := b.flush(); err != nil {
		return nil, err
	}
	x := b.index
	if x.AgentVersion == "" {
		x.AgentVersion = agentVersion
	}
	if x.Records == 0 {
		x.First, x.Last = 1, 0
	} else if b.bounds[0] > 0 {
		x.First, x.Last = min(x.First, b.bounds[0]), max(x.Last, b.bounds[1])
	}
	x.MissingManifests = slices.Sorted(slices.Values(missing))
	if len(missing) > maxNames {
		return nil, fmt.Errorf("%d manifests are missing, the limit is %d: export a part", len(missing), maxNames)
	}
	b.nameActors()
	item, err := proto.MarshalOptions{Deterministic: true}.Marshal(x)
	if err != nil {
		return nil, err
	}
	raw := appendItem(nil, journaletv1.BundleContent_BUNDLE_CONTENT_INDEX, item)
	if len(raw) > maxIndexBytes {
		return nil, errors.New("the index is too large: export the records in several bundles, with --from and --to")
	}
	stored := compress(b.enc, raw)
	t := tail{offset: b.at, stored: uint32(len(stored)), bytes: uint32(len(raw)), sum: sha256.Sum256(stored)}
	if err := b.write(stored); err != nil {
		return nil, err
	}
	return x, b.write(t.frame())
}

// nameActors sorts the actors by name and replaces the numbers in the frames by indices of that list.
func (b *Writer) nameActors() {
	byName := map[string]int{}
	for i, ref := range b.names {
		byName[ref.String()] = i
	}
	at := make([]uint32, len(b.names))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		at[byName[name]] = uint32(len(b.index.Actors))
		b.index.Actors = append(b.index.Actors, name)
	}
	for _, f := range b.index.Frames {
		for i, n := range f.Actors {
			f.Actors[i] = at[n]
		}
		slices.Sort(f.Actors)
		for i := len(f.Actors) - 1; i > 0; i-- {
			f.Actors[i] -= f.Actors[i-1]
		}
	}
}

// Size returns how many bytes were written so far.
func (b *Writer) Size() uint64 { return b.at }
