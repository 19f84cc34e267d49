package bundle

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/recording"
)

const histories = "../../../test/simulation/testdata/histories"

// recorded returns a journal that the simulation has recorded.
func recorded(t testing.TB, name string) *history.Memory {
	t.Helper()
	path := filepath.Join(histories, name+".records")
	return &history.Memory{
		Name: "node-1", Records: recording.Records(t, path), Manifests: recording.Manifests(t, path),
	}
}

// write writes all of a journal as it is.
func write(t testing.TB, m *history.Memory) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, &journaletv1.BundleHeader{Node: m.Name, Version: "v0"})
	must.OK(t, err)
	for _, rec := range m.Records {
		b, err := messages.Encode(rec)
		must.OK(t, err)
		must.OK(t, w.Record(b, rec))
	}
	for digest, manifest := range m.Manifests {
		must.OK(t, w.Manifest(digest, manifest))
	}
	_, err = w.Close(nil, "")
	must.OK(t, err)
	return out.Bytes()
}

func open(t testing.TB, b []byte) *Reader {
	t.Helper()
	r, err := New(bytes.NewReader(b), int64(len(b)), "test")
	must.OK(t, err)
	return r
}

func TestABundleReturnsEveryRecordAndManifestAsStored(t *testing.T) {
	m := recorded(t, "seed-112")
	b := write(t, m)
	r := open(t, b)
	must.OK(t, r.Check(t.Context(), nil))
	first, last := r.Bounds()
	if first != 1 || last != uint64(len(m.Records)) || r.Node() != "node-1" || r.Index().GetAgentVersion() == "" {
		t.Errorf("records %d to %d of node %q by %q", first, last, r.Node(), r.Index().GetAgentVersion())
	}
	var hash []byte
	n := 0
	must.OK(t, r.Read(t.Context(), 0, 0, func(e history.Entry) error {
		rec, err := e.Record()
		if err != nil || rec.GetSeq() != e.Seq || !proto.Equal(rec, m.Records[n]) ||
			!bytes.Equal(rec.GetPreviousHash(), hash) {
			t.Fatalf("record %d, entry %d: %v", e.Seq, n, err)
		}
		hash = messages.Hash(e.Bytes)
		n++
		return nil
	}))
	if n != len(m.Records) {
		t.Errorf("%d records, want %d", n, len(m.Records))
	}
	for digest, want := range m.Manifests {
		if got, err := r.Manifest(t.Context(), digest); err != nil || !bytes.Equal(got, want) {
			t.Errorf("manifest %s: %v", digest, err)
		}
	}
	t.Logf("%d records in %d bytes", n, len(b))
}

func TestARecordIsFoundByItsNumberAndItsActor(t *testing.T) {
	m := recorded(t, "seed-112")
	r := open(t, write(t, m))
	for _, seq := range []uint64{1, 2, 777, uint64(len(m.Records))} {
		if rec, err := r.Get(t.Context(), seq); err != nil || !proto.Equal(rec, m.Records[seq-1]) {
			t.Errorf("record %d: %v", seq, err)
		}
	}
	for _, seq := range []uint64{0, uint64(len(m.Records)) + 1} {
		if _, err := r.Get(t.Context(), seq); !errors.Is(err, history.ErrNoRecord) {
			t.Errorf("record %d: %v", seq, err)
		}
	}
	for _, name := range r.Index().GetActors() {
		ref, err := messages.ParseRef(name)
		must.OK(t, err)
		var want, got []uint64
		for _, rec := range m.Records {
			if concerns(ref, rec) {
				want = append(want, rec.GetSeq())
			}
		}
		must.OK(t, r.ReadOf(t.Context(), ref, 0, 0, func(e history.Entry) error {
			rec, err := e.Record()
			must.OK(t, err)
			if concerns(ref, rec) {
				got = append(got, e.Seq)
			}
			return nil
		}))
		if !slices.Equal(got, want) {
			t.Errorf("%s: records %v, want %v", name, got, want)
		}
	}
}

func concerns(ref messages.Ref, rec *journaletv1.Record) bool {
	author := messages.RefOf(rec.GetActor())
	return slices.ContainsFunc(messages.Events(rec), func(e *journaletv1.Event) bool {
		return history.Concerns(ref, author, e)
	})
}

func TestReadEndsWithItsContextOrTheFirstErrorOfItsFunction(t *testing.T) {
	m := recorded(t, "seed-112")
	m.Records = append(m.Records, &journaletv1.Record{Seq: uint64(len(m.Records)) + 1})
	r := open(t, write(t, m))
	stop := errors.New("stop")
	n := 0
	if err := r.Read(t.Context(), 5, 0, func(history.Entry) error {
		n++
		return stop
	}); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%v after %d records", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.Read(ctx, 0, 0, func(history.Entry) error {
		cancel()
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled read: %v", err)
	}
}

func TestSetsOfSnapshotsAreKept(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, &journaletv1.BundleHeader{Node: "n"})
	must.OK(t, err)
	large := &journaletv1.Snapshot{Actor: messages.Node.Proto(), Handled: 7, State: bytes.Repeat([]byte{7}, 3<<20)}
	small := &journaletv1.Snapshot{Actor: messages.Pod("u").Proto(), Handled: 9, State: []byte("state")}
	must.OK(t, w.Snapshots(9, []*journaletv1.Snapshot{large, small}))
	must.OK(t, w.Snapshots(20, []*journaletv1.Snapshot{small}))
	if w.Snapshots(20, nil) == nil {
		t.Error("a set was written twice")
	}
	_, err = w.Close(nil, "v7")
	must.OK(t, err)
	r := open(t, out.Bytes())
	must.OK(t, r.Check(t.Context(), nil))
	if barriers, err := r.Snapshots(t.Context()); err != nil || !slices.Equal(barriers, []uint64{9, 20}) {
		t.Errorf("%v, %v", barriers, err)
	}
	set, err := r.Snapshot(t.Context(), 9)
	if err != nil || len(set) != 2 || !proto.Equal(set[0], large) || !proto.Equal(set[1], small) {
		t.Errorf("%d snapshots, %v", len(set), err)
	}
	if _, err := r.Snapshot(t.Context(), 10); err == nil {
		t.Error("a set that is not there was returned")
	}
	if first, last := r.Bounds(); first != 1 || last != 0 || r.Index().GetAgentVersion() != "v7" {
		t.Errorf("a bundle without records has %d to %d", first, last)
	}
}

func damagedAs(t *testing.T, b []byte, want string) {
	t.Helper()
	r, err := New(bytes.NewReader(b), int64(len(b)), "test")
	if err == nil {
		err = r.Check(t.Context(), nil)
	}
	if !errors.Is(err, history.ErrDamaged) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestEveryFlippedByteIsFound(t *testing.T) {
	b := write(t, recorded(t, "seed-217"))
	for at := range b {
		if at > 600 && at < len(b)-600 && at%7 != 0 {
			continue
		}
		c := slices.Clone(b)
		c[at] ^= 1 << (at % 8)
		r, err := New(bytes.NewReader(c), int64(len(c)), "test")
		if err == nil {
			err = r.Check(t.Context(), nil)
		}
		if !errors.Is(err, history.ErrDamaged) || !strings.Contains(err.Error(), "byte ") {
			t.Errorf("byte %d of %d flipped: %v", at, len(b), err)
		}
	}
}

func TestACutFileIsFoundWhereverItEnds(t *testing.T) {
	b := write(t, recorded(t, "seed-217"))
	for n := 0; n < len(b); n++ {
		if n > 200 && n < len(b)-200 && n%31 != 0 {
			continue
		}
		want := "byte"
		if n == 0 {
			want = "empty"
		}
		damagedAs(t, b[:n], want)
	}
	damagedAs(t, append(slices.Clone(b), 0), "something was added")
	damagedAs(t, append(slices.Clone(b), b...), "the index is said to be at byte")
}

func TestForeignFilesAndOtherVersionsAreNamed(t *testing.T) {
	b := write(t, recorded(t, "seed-217"))
	change := func(at int, to ...byte) []byte {
		c := slices.Clone(b)
		copy(c[at:], to)
		return c
	}
	damagedAs(t, []byte("PK\x03\x04 this is no bundle, however long it is"), "this is no bundle")
	damagedAs(t, bytes.Repeat([]byte{0}, 4096), "this is no bundle")
	damagedAs(t, change(8+len(opening), 2), "format 2, this version reads 1: use the version that wrote it")
	damagedAs(t, change(8+len(opening), 0), "first bytes are damaged")

	var out bytes.Buffer
	w, err := NewWriter(&out, &journaletv1.BundleHeader{Version: "v0.0.9"})
	must.OK(t, err)
	w.frame = nil
	_, err = w.Close(nil, "")
	must.OK(t, err)
	for _, format := range []uint32{messages.JournalFormat - 1, messages.JournalFormat + 1} {
		if err := checkJournalFormat(format, "v0.0.9"); !errors.Is(err, history.ErrDamaged) ||
			!strings.Contains(err.Error(), "the version that wrote it (v0.0.9)") {
			t.Errorf("journal format %d: %v", format, err)
		}
	}
}

// hostile returns a file with an index and one frame as given.
func hostile(t *testing.T, x *journaletv1.BundleIndex, frame []byte) []byte {
	t.Helper()
	b := append(openingFrame(), frame...)
	item, err := proto.Marshal(x)
	must.OK(t, err)
	return withIndex(b, appendItem(nil, journaletv1.BundleContent_BUNDLE_CONTENT_INDEX, item))
}

func withIndex(b, raw []byte) []byte {
	index := storedFrame(raw)
	tl := tail{offset: uint64(len(b)), stored: uint32(len(index)), bytes: uint32(len(raw)), sum: sumOf(index)}
	return append(append(b, index...), tl.frame()...)
}

func TestClaimsCostNoMemory(t *testing.T) {
	// A frame that claims 4 GiB, in its own header and in the index.
	frame := storedFrame([]byte("0123456789"))
	binary.LittleEndian.PutUint32(frame[5:], 1<<32-1)
	f := &journaletv1.BundleFrame{
		Content: journaletv1.BundleContent_BUNDLE_CONTENT_HEADER, Offset: uint64(openingBytes),
		StoredBytes: uint32(len(frame)), Bytes: 1<<32 - 1, Items: 1, Sha256: sumSlice(frame),
	}
	claims := hostile(t, &journaletv1.BundleIndex{First: 1, Frames: []*journaletv1.BundleFrame{f}}, frame)
	damagedAs(t, claims, "claims 4294967295 bytes, the limit is 1048576")
	f.Bytes = 10 // The index is honest, the frame is not.
	damagedAs(t, hostile(t, &journaletv1.BundleIndex{First: 1, Frames: []*journaletv1.BundleFrame{f}}, frame),
		"is no frame of 10 bytes")

	// 100 GiB in many frames of the largest size.
	x := &journaletv1.BundleIndex{First: 1}
	for i := range 9000 {
		x.Frames = append(x.Frames, &journaletv1.BundleFrame{
			Content: journaletv1.BundleContent(1 + min(i, 1)), Offset: uint64(openingBytes + 9*i), StoredBytes: 9,
			Bytes: MaxFrameBytes, Items: 1, Sha256: make([]byte, 32),
		})
	}
	damagedAs(t, hostile(t, x, nil), "the file has room for")
	damagedAs(t, hostile(t, x, make([]byte, 9*9000)), "the header claims 12582912 bytes")

	// An index of millions of empty messages.
	many := withIndex(openingFrame(), appendItem(nil, journaletv1.BundleContent_BUNDLE_CONTENT_INDEX,
		bytes.Repeat([]byte{0x0a, 0}, 8<<20)))
	damagedAs(t, many, "the index lists more than")

	// An index that is itself a bomb.
	c := slices.Clone(many)
	binary.LittleEndian.PutUint32(c[len(c)-endingBytes+20:], 1<<31)
	damagedAs(t, c, "the index claims 2147483648 bytes, the limit is 33554432")
}

func TestContentThatCompressesTooWellIsStored(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, &journaletv1.BundleHeader{})
	must.OK(t, err)
	manifest := bytes.Repeat([]byte("x"), 10<<20)
	digest := digestOf(manifest)
	must.OK(t, w.Manifest(digest, manifest))
	_, err = w.Close([]string{"sha256:b", "sha256:a"}, "")
	must.OK(t, err)
	r := open(t, out.Bytes())
	must.OK(t, r.Check(t.Context(), nil))
	if got, err := r.Manifest(t.Context(), digest); err != nil || !bytes.Equal(got, manifest) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := r.Manifest(t.Context(), "sha256:00"); !errors.Is(err, history.ErrNoManifest) {
		t.Errorf("%v", err)
	}
	if err := w.Manifest("sha256:00", make([]byte, MaxFrameBytes)); !errors.Is(err, errTooLarge) {
		t.Errorf("%v", err)
	}
}

// A bundle is a file of zstd with one message: others read it without our reader.
func TestABundleDecompressesToOneMessage(t *testing.T) {
	m := recorded(t, "seed-217")
	b := write(t, m)
	d, err := newDecoder(bytes.NewReader(b))
	must.OK(t, err)
	raw, err := d.zst.DecodeAll(b, make([]byte, 0, 4<<20))
	must.OK(t, err)
	all := &journaletv1.Bundle{}
	must.OK(t, proto.Unmarshal(raw, all))
	if len(all.GetRecords()) != len(m.Records) || len(all.GetManifests()) != len(m.Manifests) ||
		all.GetIndex().GetRecords() != uint64(len(m.Records)) || all.GetHeader().GetNode() != m.Name {
		t.Errorf("%d records, %d manifests", len(all.GetRecords()), len(all.GetManifests()))
	}
	for i, rec := range all.GetRecords() {
		if !proto.Equal(rec, m.Records[i]) {
			t.Fatalf("record %d differs", i+1)
		}
	}
}
