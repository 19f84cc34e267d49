package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
)

// fingerprint returns mode, time of change and hash of every file below dir.
func fingerprint(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum := [32]byte{}
		if info.Mode().IsRegular() {
			sum = sha256.Sum256(readFile(t, path))
		}
		out[path] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime().UnixNano(), sum)
		return nil
	})
	must.OK(t, err)
	return out
}

// verifyAndMeasure verifies and measures a journal that no agent has open, and fails if that changes a file.
func verifyAndMeasure(t *testing.T, dir string) (VerifyReport, SizeReport) {
	t.Helper()
	// The server hides the directory of a stream that it deletes, and removes it in the background.
	waitUntil(t, "the server has removed deleted streams", func() bool {
		hidden, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", ".*"))
		return err == nil && len(hidden) == 0
	})
	before := fingerprint(t, dir)
	s, err := OpenStored(dir)
	must.OK(t, err)
	v, err := s.Verify(testContext(t), nil)
	must.OK(t, err)
	z, err := s.Size(testContext(t), nil)
	must.OK(t, err)
	if after := fingerprint(t, dir); !reflect.DeepEqual(before, after) {
		t.Fatalf("reading it changed\n%v\nto\n%v", before, after)
	}
	return v, z
}

// appendWide appends n records of half a MiB, so that there are several blocks.
func appendWide(t *testing.T, b *Bus, n int) {
	t.Helper()
	for range n {
		rec := fact(messages.Pod("p"), 0)
		widen(rec, 512<<10)
		must.OK(t, b.Journal().Append(rec))
	}
	must.OK(t, b.Journal().Flush(testContext(t)))
}

// The reports from the files equal the reports of the running agent, to the byte.
func TestStoredJournalReportsWhatRunningAgentReports(t *testing.T) {
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
			retain(t, b, Retention{Bytes: 2 << 20}, 4000)
		},
		"manifests and snapshots": func(t *testing.T, b *Bus) {
			appendFacts(t, b, 3)
			must.OK(t, b.Journal().Append(step(messages.Source("file"), 1, 0)))
			appendFacts(t, b, 3)
			var digests []string
			for i := range 20 {
				data := bytes.Repeat([]byte{byte(i)}, 10_000)
				digests = append(digests, digestOf(data))
				must.OK(t, b.Manifests().Put(testContext(t), digestOf(data), data))
			}
			if n, err := b.Manifests().Collect(testContext(t), digests[3:9], 0); err != nil || n != 6 {
				t.Fatal(n, err)
			}
			for at := range uint64(4) {
				must.OK(t, b.Snapshots().Save(testContext(t), at+1, snapshotsOf(30, at)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			closeBus(t, openBus(t, dir)) // two epochs
			b := openBus(t, dir)
			fillIn(t, b)
			var progress []uint64
			wantV, err := b.Journal().Verify(testContext(t), func(done, _ uint64) { progress = append(progress, done) })
			if err != nil || !wantV.OK() {
				t.Fatal(wantV, err)
			}
			wantZ, err := b.Journal().Size(testContext(t))
			must.OK(t, err)
			closeBus(t, b)
			gotV, gotZ := verifyAndMeasure(t, dir)
			if !reflect.DeepEqual(gotV, wantV) || !reflect.DeepEqual(gotZ, wantZ) {
				t.Fatalf("stored: %+v\n%+v\nrunning: %+v\n%+v", gotV, gotZ, wantV, wantZ)
			}
			s, err := OpenStored(dir)
			if err != nil || s.Node() != messages.Token(testNode) {
				t.Fatalf("%+v, %v", s, err)
			}
			var done []uint64
			if _, err := s.Verify(testContext(t), func(n, _ uint64) { done = append(done, n) }); err != nil ||
				!reflect.DeepEqual(done, progress) {
				t.Fatalf("progress %v, want %v, %v", done, progress, err)
			}
		})
	}
}

func TestStoredJournalAfterCrashIsWhole(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 50)
	crash(b)
	if v, _ := verifyAndMeasure(t, dir); !v.OK() || v.Records != 50 {
		t.Fatalf("%+v", v)
	}
}

// harm damages a journal of damagedLast records in three blocks: records 1 to 15, 16 to 31, 32 to 34.
type harm struct {
	do   func(t *testing.T, dir string)
	says []string // each problem that Verify reports, in order
}

const damagedLast = 34

func harms() map[string]harm {
	blk := func(dir string, n uint64) string { return (&blocks{dir: streamDir(dir, journalStream)}).path(n) }
	return map[string]harm{
		"torn tail": {func(t *testing.T, dir string) {
			b := readFile(t, blk(dir, 3))
			writeFile(t, blk(dir, 3), b[:len(b)-20])
		}, []string{"after record 33 the journal's end is torn: block 3", "names record 34, and the last one is 33"}},
		"torn tail of what was never acknowledged": {func(t *testing.T, dir string) {
			b := readFile(t, blk(dir, 3))
			writeFile(t, blk(dir, 3), append(b, b[:30]...))
		}, []string{"after record 34 the journal's end is torn"}},
		"cut tail": {func(t *testing.T, dir string) {
			b := readFile(t, blk(dir, 3))
			first, err := parseFrame(b, blockSum(journalStream, 3))
			must.OK(t, err)
			writeFile(t, blk(dir, 3), b[:first.size])
		}, []string{"names record 34, and the last one is 32"}},
		"flipped byte": {flip(2, 1<<20), []string{"cannot be read: block 2 is damaged at byte"}},
		"flipped length": {func(t *testing.T, dir string) {
			b := readFile(t, blk(dir, 2))
			b[1] ^= 0x40
			writeFile(t, blk(dir, 2), b)
		}, []string{"records 16 to 16 cannot be read: block 2 is damaged at byte 0"}},
		"flipped in the last record": {flip(3, 1200<<10),
			[]string{"after record 33 the journal's end is torn: block 3", "names record 34"}},
		"missing block": {func(t *testing.T, dir string) { remove(t, blk(dir, 2)) },
			[]string{"records 16 to 31 are missing"}},
		"missing first": {func(t *testing.T, dir string) { remove(t, blk(dir, 1)) },
			[]string{"records 1 to 15 are missing, and retention did not cut them"}},
		"truncated block": {func(t *testing.T, dir string) {
			b := readFile(t, blk(dir, 2))
			writeFile(t, blk(dir, 2), b[:len(b)/2])
		}, []string{"to 31 cannot be read: block 2 is damaged at byte"}},
		"empty block": {func(t *testing.T, dir string) { writeFile(t, blk(dir, 2), nil) },
			[]string{"records 16 to 31 are missing"}},
		"empty directory": {func(t *testing.T, dir string) { removeAll(t, streamDir(dir, journalStream), true) },
			[]string{"names record 34, and the last one is 0"}},
		"no directory": {func(t *testing.T, dir string) { removeAll(t, filepath.Join(dir, "jetstream"), false) },
			[]string{"the description of the journal's stream cannot be used", "names record 34, and the last one is 0"}},
		"no description": {func(t *testing.T, dir string) {
			remove(t, filepath.Join(filepath.Dir(streamDir(dir, journalStream)), "meta.inf"))
		}, []string{"the description of the journal's stream cannot be used"}},
		"damaged description": {func(t *testing.T, dir string) {
			path := filepath.Join(filepath.Dir(streamDir(dir, journalStream)), "meta.inf")
			b := readFile(t, path)
			b[len(b)/2] ^= 1
			writeFile(t, path, b)
		}, []string{"the description of the journal's stream cannot be used"}},
		"no head": {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, headFile)) },
			[]string{"journal's head is missing"}},
		"torn head": {func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, headFile), []byte("garbage")) },
			[]string{"journal's head is missing or cannot be read"}},
		"another journal's streams": {func(t *testing.T, dir string) {
			swapStreams(t, dir, testNode)
		}, []string{"record 34 is not the one that was stored"}},
		"another node's streams": {func(t *testing.T, dir string) {
			swapStreams(t, dir, "other")
		}, []string{"record 34 is not the one that was stored"}},
		"another node's block": {func(t *testing.T, dir string) {
			other := busDir(t)
			b := openBus(t, other, func(o *Options) { o.Node = "other" })
			appendWide(t, b, damagedLast)
			closeBus(t, b)
			writeFile(t, blk(dir, 2), readFile(t, blk(other, 2)))
		}, []string{`record 16 has the subject "node.other.pod.p.pod_observed"`}},
	}
}

func TestVerifyReportsDamageOfStoredJournal(t *testing.T) {
	for name, c := range harms() {
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir, rareSync)
			appendToDamage(t, b)
			closeBus(t, b)
			if v, _ := verifyAndMeasure(t, dir); !v.OK() || v.Last != damagedLast {
				t.Fatalf("before: %+v", v)
			}
			c.do(t, dir)
			v, _ := verifyAndMeasure(t, dir)
			t.Log(v.Problems)
			for i, want := range c.says {
				if i >= len(v.Problems) || !strings.Contains(v.Problems[i].Message, want) {
					t.Fatalf("problem %d of %+v is not %q", i, v.Problems, want)
				}
			}
			if !strings.Contains(name, "another") && v.Found != len(c.says) {
				t.Errorf("%d problems, want %d: %+v", v.Found, len(c.says), v.Problems)
			}
		})
	}
}

// appendToDamage appends damagedLast records that no other journal has.
func appendToDamage(t *testing.T, b *Bus) {
	t.Helper()
	appendWide(t, b, 17)
	must.OK(t, b.Journal().Append(fact(messages.Pod("p"), 7)))
	appendWide(t, b, damagedLast-18)
}

func flip(block uint64, at int) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		path := (&blocks{dir: streamDir(dir, journalStream)}).path(block)
		b := readFile(t, path)
		b[at] ^= 0x40
		writeFile(t, path, b)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	must.OK(t, os.Remove(path))
}

func removeAll(t *testing.T, dir string, recreate bool) {
	t.Helper()
	err := os.RemoveAll(dir)
	if recreate {
		err = errors.Join(err, os.Mkdir(dir, 0o700))
	}
	must.OK(t, err)
}

// swapStreams replaces dir's streams by the streams of another journal with as many records.
func swapStreams(t *testing.T, dir, node string) {
	t.Helper()
	other := busDir(t)
	b := openBus(t, other, func(o *Options) { o.Node = node })
	appendWide(t, b, 34)
	closeBus(t, b)
	removeAll(t, filepath.Join(dir, "jetstream"), false)
	must.OK(t, os.Rename(filepath.Join(other, "jetstream"), filepath.Join(dir, "jetstream")))
}

// Records were removed with NATS tools: JetStream no longer returns them, but their bytes are still there.
func TestVerifyReportsRecordsRemovedFromStoredJournal(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 10)
	if _, err := b.Journal().Get(testContext(t), 4); err != nil {
		t.Fatal(err)
	}
	must.OK(t, b.Journal().purge(testContext(t), 4))
	closeBus(t, b)
	if v, _ := verifyAndMeasure(t, dir); v.OK() {
		t.Fatalf("%+v", v)
	}
}

func TestOpenStoredRefusesServedOrMissingJournal(t *testing.T) {
	dir := busDir(t)
	if _, err := OpenStored(dir); !errors.Is(err, ErrNoJournal) {
		t.Fatalf("no directory: %v", err)
	}
	must.OK(t, os.MkdirAll(dir, 0o700))
	if _, err := OpenStored(dir); !errors.Is(err, ErrNoJournal) {
		t.Fatalf("an empty directory: %v", err)
	}
	b := openBus(t, dir)
	appendFacts(t, b, 3)
	if _, err := OpenStored(dir); !errors.Is(err, ErrServed) {
		t.Fatalf("open: %v", err)
	}
	closeBus(t, b)
	s, err := OpenStored(dir)
	must.OK(t, err)
	b = openBus(t, dir) // between OpenStored and Verify
	if _, err := s.Verify(testContext(t), nil); !errors.Is(err, errStarted) {
		t.Fatalf("an agent runs: %v", err)
	}
	closeBus(t, b)
	if _, err := s.Size(testContext(t), nil); !errors.Is(err, errStarted) {
		t.Fatalf("an agent ran: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err = OpenStored(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Verify(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
}

// An agent starts even if Served is called at that moment.
func TestServedDoesNotPreventStart(t *testing.T) {
	dir := busDir(t)
	closeBus(t, openBus(t, dir))
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				if _, err := Served(dir); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for range 10 {
		closeBus(t, openBus(t, dir))
	}
	close(done)
	<-stopped
}

// Reading needs no write access: a copy on a read-only disk can be verified.
func TestStoredJournalOnReadOnlyDiskIsRead(t *testing.T) {
	onOwnDisk(t, func(t *testing.T, dir string) {
		mountDisk(t, dir, 64<<20)
		bus := filepath.Join(dir, "bus")
		b := openBus(t, bus)
		appendFacts(t, b, 5)
		closeBus(t, b)
		remountReadOnly(t, dir)
		if v, _ := verifyAndMeasure(t, bus); !v.OK() || v.Records != 5 {
			t.Fatalf("%+v", v)
		}
	})
}
