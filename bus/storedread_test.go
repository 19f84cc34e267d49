package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func openShared(t testing.TB, dir string) *Stored {
	t.Helper()
	s, err := OpenShared(testContext(t), dir)
	must.OK(t, err)
	return s
}

// readShared returns the numbers and the bytes of the records from..to.
func readShared(t testing.TB, s *Stored, from, to uint64) (seqs []uint64, data [][]byte) {
	t.Helper()
	must.OK(t, s.Read(testContext(t), from, to, func(seq uint64, b []byte) error {
		seqs, data = append(seqs, seq), append(data, bytes.Clone(b))
		return nil
	}))
	return seqs, data
}

// journalBytes returns the records as the running agent reads them.
func journalBytes(t testing.TB, b *Bus) (data [][]byte) {
	t.Helper()
	must.OK(t, b.Journal().readBytes(testContext(t), 0, 0, "", func(b []byte) (uint64, error) {
		rec, err := messages.Decode(b)
		data = append(data, bytes.Clone(b))
		return rec.GetSeq(), err
	}))
	return data
}

// What is read from the files equals what the running agent reads, to the byte, while it runs and after.
func TestSharedJournalHoldsWhatAgentStored(t *testing.T) {
	for name, fillIn := range map[string]func(t *testing.T, b *Bus){
		"empty":  func(*testing.T, *Bus) {},
		"a few":  func(t *testing.T, b *Bus) { appendFacts(t, b, 20) },
		"blocks": func(t *testing.T, b *Bus) { appendWide(t, b, 40); appendFacts(t, b, 3) },
		"cut in a block": func(t *testing.T, b *Bus) {
			appendAged(t, b, 90, 80, 70, 10, 9, 8)
			retain(t, b, Retention{Age: 2 * day}, 6)
			appendFacts(t, b, 3)
		},
		"cut far": func(t *testing.T, b *Bus) {
			appendWide(t, b, 40)
			retain(t, b, Retention{Bytes: 6 << 20}, 40)
			appendFacts(t, b, 5000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir)
			fillIn(t, b)
			want := journalBytes(t, b)
			check := func() {
				s := openShared(t, dir)
				if first, last := s.Bounds(); first != b.Journal().First() || last != b.Journal().Last() ||
					s.Node() != messages.Token(testNode) {
					t.Fatalf("bounds %d to %d, node %s", first, last, s.Node())
				}
				seqs, got := readShared(t, s, 0, 0)
				wantSeqs(t, seqs, b.Journal().First(), b.Journal().Last())
				if !reflect.DeepEqual(got, want) {
					t.Fatal("other bytes")
				}
				for i, seq := range seqs {
					if i%7 > 0 && i < len(seqs)-1 {
						continue
					}
					rec, err := s.Get(testContext(t), seq)
					if err != nil || rec.GetSeq() != seq {
						t.Fatal(rec, err)
					}
				}
			}
			check()
			closeBus(t, b)
			before := fingerprint(t, dir)
			check()
			if after := fingerprint(t, dir); !reflect.DeepEqual(before, after) {
				t.Fatal("reading changed the files")
			}
		})
	}
}

func TestSharedJournalEndsWhereItEndedWhenItWasOpened(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendWide(t, b, 20)
	s := openShared(t, dir)
	appendWide(t, b, 20)
	seqs, _ := readShared(t, s, 5, 0)
	wantSeqs(t, seqs, 5, 20)
	seqs, _ = readShared(t, s, 5, 18)
	wantSeqs(t, seqs, 5, 18)
	if _, err := s.Get(testContext(t), 21); !errors.Is(err, ErrNoRecord) {
		t.Fatal(err)
	}
	if _, err := s.Get(testContext(t), 0); !errors.Is(err, ErrNoRecord) {
		t.Fatal(err)
	}
}

func TestSharedJournalReportsWhatRetentionRemovesMeanwhile(t *testing.T) {
	for name, keep := range map[string]uint64{"blocks": 40 << 19, "in a block": 58 << 19} {
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir)
			appendWide(t, b, 60)
			s := openShared(t, dir)
			begin, one := 0, errors.New("enough")
			err := s.Read(testContext(t), 0, 0, func(uint64, []byte) error {
				if begin++; begin == 1 {
					retain(t, b, Retention{Bytes: keep}, 59)
				}
				return nil
			})
			first := b.Journal().First()
			if first < 2 || err != nil && !errors.Is(err, ErrGone) {
				t.Fatal(first, err)
			}
			err = s.Read(testContext(t), 1, 0, func(seq uint64, _ []byte) error { return one })
			if _, got := s.Get(testContext(t), 1); !errors.Is(err, ErrGone) && !errors.Is(got, ErrGone) && name == "blocks" {
				t.Fatal(err, got)
			}
			seqs, _ := readShared(t, s, first, 0)
			wantSeqs(t, seqs, first, 60)
			if err := openShared(t, dir).Read(testContext(t), 1, 0, nil); !errors.Is(err, ErrGone) {
				t.Fatal(err)
			}
		})
	}
}

// A record of a shared journal may be read while another one is.
func TestSharedJournalIsReadWithinARead(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendWide(t, b, 60)
	s := openShared(t, dir)
	err := s.Read(testContext(t), 1, 10, func(seq uint64, b []byte) error {
		for _, other := range []uint64{60, 30, 1, seq} {
			if rec, err := s.Get(testContext(t), other); err != nil || rec.GetSeq() != other {
				return fmt.Errorf("%d: %w", other, err)
			}
		}
		rec, err := messages.Decode(b)
		if rec.GetSeq() != seq {
			return errors.New("another record is in its place")
		}
		return err
	})
	must.OK(t, err)
}

func TestSharedJournalLeavesOutWhatCannotBeRead(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendWide(t, b, 34)
	closeBus(t, b)
	path := (&blocks{dir: streamDir(dir, journalStream)}).path
	data := readFile(t, path(2))
	data[1<<20] ^= 1 // record 17
	writeFile(t, path(2), data)
	tail := readFile(t, path(3))
	writeFile(t, path(3), append(tail, tail[:1000]...)) // a write that was not finished
	s := openShared(t, dir)
	seqs, _ := readShared(t, s, 0, 0)
	if len(seqs) != 33 || slices.Contains(seqs, 17) || seqs[32] != 34 {
		t.Fatal(seqs)
	}
	if _, err := s.Get(testContext(t), 17); !errors.Is(err, ErrNoRecord) {
		t.Fatal(err)
	}
}

func TestSharedJournalHasManifestsAndSnapshots(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 5)
	var digests []string
	for i := range 20 {
		data := bytes.Repeat([]byte{byte(i)}, 10_000)
		digests = append(digests, digestOf(data))
		must.OK(t, b.Manifests().Put(testContext(t), digestOf(data), data))
	}
	want := snapshotsOf(30, 3)
	must.OK(t, b.Snapshots().Save(testContext(t), 3, want))
	check := func(s *Stored) {
		t.Helper()
		for i, d := range digests {
			if data, err := s.Manifest(testContext(t), d); err != nil || len(data) != 10_000 || data[0] != byte(i) {
				t.Fatal(len(data), err)
			}
		}
		if _, err := s.Manifest(testContext(t), digestOf([]byte("other"))); !errors.Is(err, ErrNoManifest) {
			t.Fatal(err)
		}
		at, err := s.Snapshots(testContext(t))
		if err != nil || !slices.Equal(at, []uint64{3}) {
			t.Fatal(at, err)
		}
		set, err := s.Snapshot(testContext(t), 3)
		if err != nil || !slices.EqualFunc(set, sortedByName(want), func(a, b *journaletv1.Snapshot) bool {
			return proto.Equal(a, b)
		}) {
			t.Fatal(len(set), err)
		}
		if _, err := s.Snapshot(testContext(t), 2); !errors.Is(err, ErrGone) {
			t.Fatal(err)
		}
	}
	s := openShared(t, dir)
	check(s)
	if n, err := b.Manifests().Collect(testContext(t), digests[3:9], 0); err != nil || n != 6 {
		t.Fatal(n, err)
	}
	digests = slices.Delete(digests, 3, 9)
	closeBus(t, b)
	s = openShared(t, dir)
	if data, err := s.Manifest(testContext(t), digests[0]); err != nil || data[0] != 0 {
		t.Fatal(err)
	}
}

func sortedByName(set []*journaletv1.Snapshot) []*journaletv1.Snapshot {
	out := slices.Clone(set)
	name := func(s *journaletv1.Snapshot) string {
		r := messages.RefOf(s.GetActor())
		return r.KindName() + "." + r.ID
	}
	slices.SortFunc(out, func(a, b *journaletv1.Snapshot) int { return bytes.Compare([]byte(name(a)), []byte(name(b))) })
	return out
}

// Readers open and read a journal again and again while the agent appends, cuts and takes snapshots.
func TestSharedJournalIsReadWhileAgentWorks(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendWide(t, b, 40)
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() {
		done <- readAgainAndAgain(ctx, dir)
	}()
	for i := range 12 {
		appendWide(t, b, 8)
		last := b.Journal().Last()
		must.OK(t, b.Snapshots().Save(testContext(t), last, snapshotsOf(20, last)))
		retain(t, b, Retention{Bytes: 12 << 20}, last)
		_ = i
	}
	cancel()
	must.OK(t, <-done)
}

func readAgainAndAgain(ctx context.Context, dir string) error {
	for n := 0; ctx.Err() == nil || n == 0; n++ {
		s, err := OpenShared(context.Background(), dir)
		if err != nil {
			return err
		}
		first, last := s.Bounds()
		next := first
		err = s.Read(context.Background(), 0, 0, func(seq uint64, b []byte) error {
			if seq != next {
				return fmt.Errorf("record %d after %d of %d to %d", seq, next-1, first, last)
			}
			next++
			_, err := messages.Decode(b)
			return err
		})
		if err == nil && next != last+1 {
			err = fmt.Errorf("it ended before record %d of %d to %d", next, first, last)
		}
		if err != nil && !errors.Is(err, ErrGone) {
			return err
		}
		sets, err := s.Snapshots(context.Background())
		if err != nil {
			return err
		}
		for _, at := range sets {
			set, err := s.Snapshot(context.Background(), at)
			if errors.Is(err, ErrGone) {
				continue
			}
			if err != nil || len(set) != 20 {
				return fmt.Errorf("the set at %d has %d states: %w", at, len(set), err)
			}
		}
	}
	return nil
}

// BenchmarkReadStored reads a journal from its files.
func BenchmarkReadStored(b *testing.B) {
	dir := busDir(b)
	bus := openBus(b, dir, func(o *Options) { o.Sync = policies[1] })
	const n = 200_000
	for i := range n {
		must.OK(b, bus.Journal().Append(benchRecord(i)))
	}
	must.OK(b, bus.Journal().Flush(b.Context()))
	closeBus(b, bus)
	s := openShared(b, dir)
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		got := 0
		size = 0
		err := s.Read(b.Context(), 0, 0, func(_ uint64, b []byte) error { got++; size += len(b); return nil })
		if err != nil || got != n {
			b.Fatal(got, err)
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(size)/n, "B/record")
}

// BenchmarkVerify checks a journal in its files, and through the agent that has it open.
func BenchmarkVerify(b *testing.B) {
	dir := busDir(b)
	bus := openBus(b, dir, func(o *Options) { o.Sync = policies[1] })
	const n = 200_000
	for i := range n {
		must.OK(b, bus.Journal().Append(benchRecord(i)))
	}
	must.OK(b, bus.Journal().Flush(b.Context()))
	check := func(b *testing.B, verify func() (VerifyReport, error)) {
		b.ReportAllocs()
		var before, after unix.Rusage
		must.OK(b, unix.Getrusage(unix.RUSAGE_SELF, &before))
		for b.Loop() {
			if r, err := verify(); err != nil || !r.OK() || r.Records != n {
				b.Fatal(r, err)
			}
		}
		must.OK(b, unix.Getrusage(unix.RUSAGE_SELF, &after))
		cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
		b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "records/s")
		b.ReportMetric(float64(cpu)/float64(b.N)/n, "cpu-ns/record")
	}
	b.Run("open", func(b *testing.B) {
		check(b, func() (VerifyReport, error) { return bus.Journal().Verify(b.Context(), nil) })
	})
	closeBus(b, bus)
	b.Run("files", func(b *testing.B) {
		s, err := OpenStored(dir)
		must.OK(b, err)
		check(b, func() (VerifyReport, error) { return s.Verify(b.Context(), nil) })
	})
}
