package bus

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// noon is the time at which retention runs.
var noon = at(0).AsTime().Add(1000 * time.Hour)

// appendAged appends records that are hours old at noon.
func appendAged(t *testing.T, b *Bus, hours ...int) {
	t.Helper()
	for _, h := range hours {
		rec := fact(messages.Pod("p"), 0)
		rec.Time.Seconds = noon.Add(-time.Duration(h) * time.Hour).Unix()
		must.OK(t, b.Journal().Append(rec))
	}
	must.OK(t, b.Journal().Flush(testContext(t)))
}

// setsUpTo returns a set of snapshots at each record up to barrier, so that a cut may end anywhere.
func setsUpTo(barrier uint64) []SnapshotSet {
	out := make([]SnapshotSet, barrier)
	for i := range out {
		out[i] = SnapshotSet{Barrier: uint64(i) + 1, NeededAfter: uint64(i) + 1}
	}
	return out
}

// retain cuts without MinKept, with snapshots at each record up to barrier.
func retain(t *testing.T, b *Bus, r Retention, barrier uint64) uint64 {
	t.Helper()
	b.journal.least = 0
	n, err := b.Journal().Retain(testContext(t), r, setsUpTo(barrier), noon)
	must.OK(t, err)
	return n
}

func wantWhole(t *testing.T, b *Bus, first, last uint64, isCut bool) {
	t.Helper()
	r, err := b.Journal().Verify(testContext(t), nil)
	if err != nil || !r.OK() || r.First != first || r.Last != last || r.Cut != isCut || r.Records != last+1-first {
		t.Fatalf("%+v, %v; want %d to %d", r, err, first, last)
	}
}

const day = 24 * time.Hour

func TestRetentionCutsOldRecordsUpToBarrier(t *testing.T) {
	cases := map[string]struct {
		hours   []int
		age     time.Duration
		barrier uint64
		first   uint64
	}{
		"old records are cut":         {[]int{90, 80, 70, 10, 9, 8}, 2 * day, 6, 4},
		"none above the barrier":      {[]int{90, 80, 70, 10, 9, 8}, 2 * day, 2, 3},
		"nothing without snapshots":   {[]int{90, 80, 70, 10}, 2 * day, 0, 1},
		"the last one stays":          {[]int{90, 80, 70}, 2 * day, 3, 3},
		"no bound":                    {[]int{90, 80, 70}, 0, 3, 1},
		"clock was set back a day":    {[]int{90, 80, 26, 50, 49, 20, 10}, 2 * day, 7, 3},
		"clock was ahead for a while": {[]int{90, -4000, 80, 70, 10}, 2 * day, 5, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir)
			appendAged(t, b, c.hours...)
			last := uint64(len(c.hours))
			if n := retain(t, b, Retention{Age: c.age}, c.barrier); n != c.first-1 || b.Journal().First() != c.first {
				t.Fatalf("%d records were cut, the first is %d, want %d", n, b.Journal().First(), c.first)
			}
			wantWhole(t, b, c.first, last, c.first > 1)
			appendFacts(t, b, 3)
			closeBus(t, b)
			b = openBus(t, dir)
			if o := b.Opening(); o.Damage != nil || !o.Clean || o.Last != last+3 || b.Journal().First() != c.first {
				t.Fatalf("%+v", o)
			}
			wantWhole(t, b, c.first, last+3, c.first > 1)
			if _, err := b.Journal().Get(testContext(t), c.first-1); err == nil {
				t.Fatal("a record that was cut is still there")
			}
		})
	}
}

func TestRetentionKeepsNewestBytes(t *testing.T) {
	b := openBus(t, busDir(t))
	appendAged(t, b, 90, 80, 70)
	if n, err := b.Journal().Retain(testContext(t), Retention{Age: time.Hour, Bytes: 1}, setsUpTo(3),
		noon); err != nil || n != 0 {
		t.Fatalf("%d of less than MinKept bytes were cut, %v", n, err)
	}
}

func TestFullSignalsJournalAboveItsBound(t *testing.T) {
	b := openBus(t, busDir(t))
	j := b.Journal()
	const bound = 200_000
	retain(t, b, Retention{Bytes: bound}, 0)
	for range 5 { // grows to its bound, is cut, and grows again
		from := j.Last()
		for len(j.Full()) == 0 {
			appendFacts(t, b, 100)
		}
		<-j.Full()
		size, err := j.Size(context.Background())
		if err != nil || size.JournalDisk > bound+20_000 || j.Last() < from+100 {
			t.Fatalf("%d bytes at record %d, %v", size.JournalDisk, j.Last(), err)
		}
		if n := retain(t, b, Retention{Bytes: bound}, j.Last()); n == 0 && size.JournalDisk > bound {
			t.Fatalf("nothing was cut at %d bytes", size.JournalDisk)
		}
		if size, err = j.Size(context.Background()); err != nil || size.JournalDisk > bound || size.JournalDisk < bound/2 {
			t.Fatalf("%d bytes are left, %v", size.JournalDisk, err)
		}
	}
	wantWhole(t, b, j.First(), j.Last(), true)
}

func TestOldestRecordsMissingWithoutCutAreDamage(t *testing.T) {
	purge := func(t *testing.T, b *Bus, before uint64) {
		s, err := b.journal.reader.js.Stream(testContext(t), journalStream)
		if err == nil {
			err = s.Purge(testContext(t), jetstream.WithPurgeSequence(before))
		}
		must.OK(t, err)
	}
	cases := map[string]struct {
		harm func(t *testing.T, b *Bus)
		want string
		once bool
	}{
		"purged": {func(t *testing.T, b *Bus) { purge(t, b, 4) }, "records, 1 to 3, are gone", true},
		"purged beyond the cut": {func(t *testing.T, b *Bus) { retain(t, b, Retention{Age: 2 * day}, 3); purge(t, b, 5) },
			"records, 4 to 4, are gone", true},
		"CUT is missing": {func(t *testing.T, b *Bus) { retain(t, b, Retention{Age: 2 * day}, 3); removeCut(t, b) },
			"records, 1 to 3, are gone", true},
		"CUT of another record": {func(t *testing.T, b *Bus) { retain(t, b, Retention{Age: 2 * day}, 3); otherCut(t, b) },
			"does not chain to the last one that retention cut", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir)
			appendAged(t, b, 90, 80, 70, 10, 9, 8)
			c.harm(t, b)
			closeBus(t, b)
			b = openBus(t, dir)
			o := b.Opening()
			if o.Damage == nil || !strings.Contains(o.Damage.GetMessage(), c.want) || o.Clean || o.Last != 6 {
				t.Fatalf("%+v", o)
			}
			if r, err := b.Journal().Verify(testContext(t), nil); err != nil || r.OK() {
				t.Fatalf("verify: %+v, %v", r, err)
			}
			closeBus(t, b)
			if again := openBus(t, dir).Opening(); c.once != (again.Damage == nil) {
				t.Fatalf("the next start: %+v", again)
			}
		})
	}
}

func removeCut(t *testing.T, b *Bus) {
	must.OK(t, os.Remove(filepath.Join(b.opts.Dir, cutFile)))
}

func otherCut(t *testing.T, b *Bus) {
	c := &cut{First: 4, PreviousHash: hex.EncodeToString(messages.Hash([]byte("other")))}
	must.OK(t, c.write(b.opts.Dir))
}

func TestOpenFinishesInterruptedCut(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendAged(t, b, 90, 80, 70, 10, 9, 8)
	rec, err := b.Journal().Get(testContext(t), 4)
	must.OK(t, err)
	c := &cut{First: 4, PreviousHash: hex.EncodeToString(rec.GetPreviousHash())}
	must.OK(t, c.write(dir))
	crash(b)
	b = openBus(t, dir)
	if o := b.Opening(); o.Damage != nil || o.Last != 6 || b.Journal().First() != 4 {
		t.Fatalf("%+v", o)
	}
	wantWhole(t, b, 4, 6, true)
	if state, err := b.journal.reader.state(testContext(t), journalStream); err != nil || state.FirstSeq != 4 {
		t.Fatalf("%+v, %v", state, err)
	}
}

func TestUnreferencedManifestsAreFound(t *testing.T) {
	b := openBus(t, busDir(t))
	names := map[string]string{}
	for _, what := range []string{"in a record", "in a state", "in a record that is cut", "nowhere"} {
		data := []byte(what)
		names[what] = digestOf(data)
		must.OK(t, b.Manifests().Put(testContext(t), digestOf(data), data))
	}
	for _, what := range []string{"in a record that is cut", "in a record"} {
		must.OK(t, b.Journal().Append(&journaletv1.Record{Time: at(0), Actor: messages.Node.Proto(),
			Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(&journaletv1.AdmissionRequested{Digest: names[what]})}}))
	}
	appendFacts(t, b, 1)
	for at, text := range map[uint64]string{1: "x" + names["in a state"] + "sha256:short", 2: "of a newer set"} {
		must.OK(t, b.Snapshots().Save(testContext(t), at, []*journaletv1.Snapshot{{
			Actor: messages.Node.Proto(), State: []byte(text),
		}}))
	}
	got, err := b.UnreferencedManifests(testContext(t))
	if err != nil || len(got) != 1 || got[0] != names["nowhere"] {
		t.Fatalf("%v, %v", got, err)
	}
	b.journal.least = 0
	if n, err := b.Journal().Retain(testContext(t), Retention{Age: time.Hour}, setsUpTo(1), noon); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if got, err = b.UnreferencedManifests(testContext(t)); err != nil || len(got) != 2 {
		t.Fatalf("after the cut: %v, %v", got, err)
	}
}

func TestReadsContinueDuringCut(t *testing.T) {
	b := openBus(t, busDir(t))
	appendAged(t, b, make([]int, 3000)...)
	var got []uint64
	err := b.Journal().Read(testContext(t), 0, 0, "", func(rec *journaletv1.Record, _ int) error {
		if len(got) == 0 {
			b.journal.least = 0
			if _, err := b.Journal().Retain(testContext(t), Retention{Age: time.Hour}, setsUpTo(2000),
				noon.Add(day)); err != nil {
				t.Fatal(err)
			}
		}
		got = append(got, rec.GetSeq())
		return nil
	})
	if err != nil || got[len(got)-1] != 3000 || len(got) < 1000 {
		t.Fatalf("%d were read, %v", len(got), err)
	}
	tail, err := b.Journal().Tail(testContext(t), "", MaxTail)
	if err != nil || len(tail) != 1000 || tail[0].GetSeq() != 2001 {
		t.Fatalf("%d in the tail, %v", len(tail), err)
	}
}

// A tenant that patches its pods adds manifests, and few bytes of records.
func TestManifestsCountAgainstTheBytesThatAreKept(t *testing.T) {
	b := openBus(t, busDir(t))
	j, m := b.Journal(), b.Manifests()
	j.least = 0
	r := Retention{Bytes: 400_000}
	retain(t, b, r, 0)
	for i := range 40 {
		appendFacts(t, b, 5)
		data := bytes.Repeat(fmt.Appendf(nil, "pod %02d", i), 2000)
		must.OK(t, m.Put(testContext(t), digestOf(data), data))
		must.OK(t, j.Append(&journaletv1.Record{Time: at(0), Actor: messages.Node.Proto(), Body: &journaletv1.Record_Fact{
			Fact: messages.NewEvent(&journaletv1.AdmissionRequested{Digest: digestOf(data)})}}))
	}
	must.OK(t, j.Flush(testContext(t)))
	select {
	case <-j.Full():
	default:
		t.Error("manifests of 480 kB did not signal that the journal is full")
	}
	if exceed, err := b.ManifestsExceed(testContext(t), r); err != nil || !exceed {
		t.Fatalf("manifests exceed their share: %v, %v", exceed, err)
	}
	for range 20 {
		if n := retain(t, b, r, j.Last()); n == 0 {
			break
		}
		unreferenced, err := b.UnreferencedManifests(testContext(t))
		must.OK(t, err)
		_, err = m.Collect(testContext(t), unreferenced, 0)
		must.OK(t, err)
	}
	records, manifests, err := j.bytes(testContext(t))
	if err != nil || manifests > r.Bytes/2 || records+manifests > r.Bytes || manifests < r.Bytes/4 {
		t.Errorf("%d bytes of records and %d of manifests are kept, %v", records, manifests, err)
	}
	wantWhole(t, b, j.First(), j.Last(), true)
}
