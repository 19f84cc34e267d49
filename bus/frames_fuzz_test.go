package bus

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
)

// frameOf returns a record as the store frames it in block 1.
func frameOf(seq uint64, subject string, data []byte) []byte {
	size := frameHead + len(subject) + len(data) + frameSum
	b := make([]byte, frameHead, size)
	binary.LittleEndian.PutUint32(b, uint32(size))
	binary.LittleEndian.PutUint64(b[4:], seq)
	binary.LittleEndian.PutUint16(b[20:], uint16(len(subject)))
	b = append(append(b, subject...), data...)
	sum := blockSum(journalStream, 1).over(b[4:20], b[frameHead:])
	return binary.LittleEndian.AppendUint64(b, sum)
}

// FuzzBlock scans a block of any bytes: the places cover it in order, whole records have their checksum, and a journal
// with such a block is read, verified and checked for a repair without an end that is not an error.
func FuzzBlock(f *testing.F) {
	rec := fact(messages.Pod("p"), 1)
	rec.Seq, rec.Epoch = 1, 1
	data, err := messages.Encode(rec)
	must.OK(f, err)
	whole := frameOf(1, "node.n.pod.p.pod_observed", data)
	f.Add(whole)
	f.Add(append(append([]byte{}, whole...), whole[:len(whole)-3]...))
	f.Add(append(append([]byte("rubbish node."), whole...), frameOf(2|tombstone, "node.n.x", nil)...))
	f.Add(frameOf(1<<60, strings.Repeat("node.", 1000), []byte{0xff}))
	f.Add(binary.LittleEndian.AppendUint32(nil, withHeader|30))
	f.Fuzz(func(t *testing.T, b []byte) {
		at := 0
		for _, p := range scan(b, blockSum(journalStream, 1), journalSubjects, nil) {
			if p.at < at || p.bad == nil && p.size <= 0 {
				t.Fatalf("a place at %d of size %d after %d", p.at, p.size, at)
			}
			at = p.at + p.size
		}
		if at > len(b) {
			t.Fatalf("the places end at %d of %d", at, len(b))
		}
		dir := t.TempDir()
		bl := &blocks{dir: streamDir(dir, journalStream)}
		must.OK(t, os.MkdirAll(bl.dir, 0o700))
		must.OK(t, os.WriteFile(bl.path(1), b, 0o600))
		must.OK(t, os.WriteFile(filepath.Join(dir, headFile), nil, 0o600))
		if s, err := OpenShared(t.Context(), dir); err == nil {
			_ = s.Read(t.Context(), 0, 0, func(uint64, []byte) error { return nil })
		}
		s, err := OpenStored(dir)
		must.OK(t, err)
		if _, err := s.Verify(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := CheckForRepair(t.Context(), dir, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// If a record seems to begin at every place of a block, each record up to the block's end, the scan gives up after some
// checksums.
func TestHostileBlockIsScannedByABoundedNumberOfChecksums(t *testing.T) {
	b := make([]byte, 8<<20)
	for at := 0; at+40 < len(b); at += 40 {
		binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at))
		binary.LittleEndian.PutUint16(b[at+20:], 5)
		copy(b[at+frameHead:], journalSubjects)
	}
	sum := blockSum(journalStream, 1)
	places := scan(b, sum, journalSubjects, nil)
	if len(places) != 1 || places[0].bad == nil || sum.total > maxResumed+2*len(b) {
		t.Fatalf("%d places, checksums of %d MiB", len(places), sum.total>>20)
	}
}
