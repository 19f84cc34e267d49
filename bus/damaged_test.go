package bus

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/test/must"
)

// blocksOf returns the journal's blocks as they are on disk.
func blocksOf(t *testing.T, dir string) map[uint64][]byte {
	t.Helper()
	bl := blocks{dir: streamDir(dir, journalStream)}
	out := map[uint64][]byte{}
	numbers, err := bl.numbers()
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, n := range numbers {
		out[n] = readFile(t, bl.path(n))
	}
	return out
}

// rareSync avoids fsyncs for a large journal.
func rareSync(o *Options) { o.Sync = SyncPolicy{Interval: maxSyncInterval} }

// Whatever JetStream cuts, rewrites or removes when it opens a damaged journal is in the copies.
func TestStartCopiesDamagedBlocksBeforeRecovery(t *testing.T) {
	path := func(dir string, n uint64) string { return (&blocks{dir: streamDir(dir, journalStream)}).path(n) }
	cut := func(n uint64, by int) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			b := readFile(t, path(dir, n))
			writeFile(t, path(dir, n), b[:len(b)-by])
		}
	}
	harms := map[string]func(t *testing.T, dir string){
		"torn tail":                  cut(3, 50),
		"flipped in the last block":  flip(3, 100),
		"flipped in the middle":      flip(2, 1<<20),
		"truncated in the middle":    cut(2, 1<<20),
		"flipped in the first block": flip(1, 100),
		"flipped description": func(t *testing.T, dir string) {
			path := filepath.Join(filepath.Dir(streamDir(dir, journalStream)), "meta.inf")
			b := readFile(t, path)
			b[len(b)/2] ^= 1
			writeFile(t, path, b)
		},
		"no description": func(t *testing.T, dir string) {
			remove(t, filepath.Join(filepath.Dir(streamDir(dir, journalStream)), "meta.inf"))
		},
		"every block damaged at its start": func(t *testing.T, dir string) {
			for n := range uint64(3) {
				flip(n+1, 30)(t, dir)
			}
		},
		"a block of garbage": func(t *testing.T, dir string) { writeFile(t, path(dir, 3), bytes.Repeat([]byte{0xa5}, 5000)) },
		"damaged index": func(t *testing.T, dir string) {
			p := filepath.Join(streamDir(dir, journalStream), "index.db")
			b := readFile(t, p)
			b[len(b)/2] ^= 1
			writeFile(t, p, b)
		},
	}
	for name, harm := range harms {
		for _, how := range []string{"clean", "clean, index gone", "crashed", "crashed, index gone"} {
			t.Run(name+", "+how, func(t *testing.T) {
				dir := busDir(t)
				b := openBus(t, dir, rareSync)
				appendWide(t, b, 34)
				if how[:5] == "clean" {
					closeBus(t, b)
				} else {
					crash(b)
				}
				harm(t, dir)
				if bytes.HasSuffix([]byte(how), []byte("gone")) && name != "damaged index" {
					removeIndex(t, dir)
				}
				before := blocksOf(t, dir)
				b = openBus(t, dir, rareSync)
				o := b.Opening()
				after := blocksOf(t, dir)
				t.Log(o.Last, o.Damage.GetMessage())
				var copies []byte
				err := filepath.WalkDir(filepath.Join(dir, damagedDir), func(p string, d fs.DirEntry, err error) error {
					if err == nil && d.Type().IsRegular() {
						copies = append(copies, readFile(t, p)...)
					}
					return nil
				})
				must.OK(t, err)
				for n, was := range before {
					if !bytes.HasPrefix(after[n], was) && !bytes.Contains(copies, was) {
						t.Errorf("block %d had %d bytes, has %d, and was not copied; damage: %v", n, len(was), len(after[n]), o.Damage)
					}
				}
				if reported := o.Damage != nil; reported != (name != "damaged index") {
					t.Errorf("damage: %v", o.Damage)
				}
				appendFacts(t, b, 1)
				closeBus(t, b)
				if again := openBus(t, dir).Opening(); again.Damage != nil || !again.Clean || again.Last != o.Last+1 {
					t.Errorf("the next start: %+v", again)
				}
			})
		}
	}
}

// A server that trusts its index counts records that a cut block no longer has, and finds that out some time later.
// Whenever it does, the loss is reported once.
func TestLossBehindATrustedIndexIsReportedOnce(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendWide(t, b, 34)
	closeBus(t, b)
	path := (&blocks{dir: streamDir(dir, journalStream)}).path(2)
	data := readFile(t, path)
	writeFile(t, path, data[:len(data)-1<<20])
	r := &reader{blocksDir: streamDir(dir, journalStream)}
	for counted, want := range map[uint64]uint64{34: 2, 33: 1, 32: 0, 31: 0} {
		n, err := unreadable(testContext(t), r, jetstream.StreamState{FirstSeq: 1, LastSeq: 34, Msgs: counted})
		must.OK(t, err)
		if n != want {
			t.Errorf("with %d records in the server's count, %d are in no block, want %d", counted, n, want)
		}
	}
	first := &finding{unreadable: 2}
	must.OK(t, first.keepHoles(dir))
	for _, missing := range []uint64{0, 1, 2, 2} {
		known := readHoles(dir)
		if missing > known.sum() {
			t.Errorf("%d missing records are reported again beside %+v", missing, known)
		}
		next := &finding{known: known, missing: missing, unreadable: known.left(missing)}
		must.OK(t, next.keepHoles(dir))
	}
	if got := readHoles(dir); got != (holes{missing: 2}) {
		t.Errorf("in the end %+v", got)
	}
}

func TestStartReadsOnlyBlocksInDoubt(t *testing.T) {
	dir := busDir(t)
	bl := blocks{dir: streamDir(dir, journalStream)}
	doubt := func() []uint64 {
		t.Helper()
		numbers, err := bl.numbers()
		must.OK(t, err)
		slices.Sort(numbers)
		return blocksInDoubt(&bl, dir, numbers)
	}
	b := openBus(t, dir)
	appendWide(t, b, 34)
	closeBus(t, b)
	if got := doubt(); len(got) != 0 {
		t.Errorf("after a clean stop: %v", got)
	}
	now := time.Now()
	must.OK(t, os.Chtimes(bl.path(2), now, now.Add(time.Hour)))
	if got := doubt(); !slices.Equal(got, []uint64{2}) {
		t.Errorf("after block 2 was touched: %v", got)
	}
	b = openBus(t, dir)
	appendFacts(t, b, 1)
	crash(b)
	removeIndex(t, dir)
	if got := doubt(); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("without an index: %v", got)
	}
	closeBus(t, openBus(t, dir))
	remove(t, filepath.Join(dir, seenFile))
	if got := doubt(); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("without SEEN: %v", got)
	}
}

func TestCopiesOfDamagedFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "1.blk")
	writeFile(t, from, []byte("x"))
	for epoch := range uint64(maxCopiedStarts + 3) {
		a := &damagedFiles{}
		for n := range maxCopiedFiles + 5 {
			must.OK(t, a.copy(dir, from, epoch, strconv.Itoa(n)))
		}
		if len(a.paths) != maxCopiedFiles || a.more != 5 || !strings.Contains(a.location(), "5 more were not copied") {
			t.Fatalf("%d, %q", len(a.paths), a.location())
		}
		must.OK(t, trimCopies(filepath.Join(dir, damagedDir)))
	}
	files, err := os.ReadDir(filepath.Join(dir, damagedDir))
	if err != nil || len(files) != maxCopiedStarts*maxCopiedFiles ||
		!strings.HasPrefix(files[0].Name(), copyPrefix+"00000000000000000003") {
		t.Fatalf("%d are kept, %v", len(files), err)
	}
}

func BenchmarkScanBlock(b *testing.B) {
	dir := busDir(b)
	s := openBus(b, dir)
	for s.journal.blocks.last < 2 {
		appendFacts(b, s, 5000)
	}
	info, err := os.Stat(s.journal.blocks.path(1))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	for b.Loop() {
		if at, _, err := damagedAt(s.journal.blocks, 1); err != nil || at >= 0 {
			b.Fatal(at, err)
		}
	}
}
