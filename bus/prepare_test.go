package bus

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// contents returns all files below dir with their contents.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for path := range fingerprint(t, dir) {
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			out[path] = ""
			continue
		}
		out[path] = string(readFile(t, path))
	}
	return out
}

func wantSame(t *testing.T, want, got map[string]string) {
	t.Helper()
	for path := range want {
		if now, ok := got[path]; !ok || now != want[path] {
			t.Errorf("%s was changed or is gone", path)
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%s is new", path)
		}
	}
}

// openFilled creates a journal with manifests and snapshots.
func openFilled(t *testing.T, dir string) *Bus {
	t.Helper()
	b := openBus(t, dir)
	appendFacts(t, b, 20)
	data := []byte("a manifest")
	must.OK(t, b.Manifests().Put(testContext(t), digestOf(data), data))
	must.OK(t, b.Snapshots().Save(testContext(t), 10, snapshotsOf(3, 1)))
	return b
}

func TestPrepareWithoutBeginChangesNoFile(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Bus){
		"after a clean end": func(t *testing.T, b *Bus) { closeBus(t, b) },
		"after a crash":     func(_ *testing.T, b *Bus) { crash(b) },
		"killed":            func(t *testing.T, b *Bus) { crash(b); removeIndex(t, b.opts.Dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			end(t, openFilled(t, dir))
			writeFile(t, filepath.Join(dir, lockFile), []byte("1234567\n")) // PID of the run before
			before := contents(t, dir)
			b, err := Prepare(testContext(t), Options{Dir: dir, Node: testNode, Log: quiet})
			must.OK(t, err)
			first := b.Opening()
			if _, snaps, err := b.Snapshots().Load(testContext(t)); err != nil || len(snaps) != 3 || first.Last != 20 ||
				first.Epoch != 2 {
				t.Fatalf("%d snapshots, %v; %+v", len(snaps), err, first)
			}
			closeBus(t, b)
			// The store creates its index again from the blocks; after a kill it is old or missing.
			index := filepath.Join(streamDir(dir, journalStream), indexFile)
			after := contents(t, dir)
			if name == "killed" {
				delete(after, index)
			}
			wantSame(t, before, after)
			b = openBus(t, dir)
			if again := b.Opening(); again != first {
				t.Fatalf("the next start finds %+v, and this one found %+v", again, first)
			}
			appendFacts(t, b, 1)
			if r, err := b.Journal().Verify(testContext(t), nil); err != nil || !r.OK() || r.Epochs != 2 {
				t.Fatalf("%+v, %v", r, err)
			}
		})
	}
}

func TestDamageFoundWithoutBeginIsReportedByNextStart(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, dir string){
		"a lost block":   func(t *testing.T, dir string) { remove(t, (&blocks{dir: streamDir(dir, journalStream)}).path(2)) },
		"a lost journal": func(t *testing.T, dir string) { removeAll(t, streamDir(dir, journalStream), true) },
		"a torn tail": func(t *testing.T, dir string) {
			path := (&blocks{dir: streamDir(dir, journalStream)}).path(3)
			b := readFile(t, path)
			writeFile(t, path, b[:len(b)-50])
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir, rareSync)
			appendWide(t, b, 34)
			closeBus(t, b)
			harm(t, dir)
			head := readFile(t, filepath.Join(dir, headFile))
			for range 2 {
				b, err := Prepare(testContext(t), Options{Dir: dir, Node: testNode, Log: quiet})
				must.OK(t, err)
				if b.Opening().Damage == nil {
					t.Fatal("the damage is not found")
				}
				closeBus(t, b)
			}
			if string(head) != string(readFile(t, filepath.Join(dir, headFile))) {
				t.Error("the head was changed")
			}
			b = openBus(t, dir)
			if o := b.Opening(); o.Damage == nil || o.Epoch != 2 {
				t.Fatalf("%+v", o)
			}
		})
	}
}

func TestRefusedJournalOfAnotherNodeIsUnchanged(t *testing.T) {
	dir := busDir(t)
	crash(openFilled(t, dir))
	writeFile(t, filepath.Join(dir, lockFile), []byte("1234567\n")) // PID of the run before
	before := fingerprint(t, dir)
	_, err := Open(testContext(t), Options{Dir: dir, Node: "other", Log: quiet})
	if err == nil || !strings.Contains(err.Error(), "another node's") {
		t.Fatalf("opened: %v", err)
	}
	wantSame(t, before, fingerprint(t, dir))
}

// This version cannot read another format, higher or lower. If the head is lost, the description of the journal's
// stream has the format.
func TestRefusedJournalOfAnotherFormatIsUnchanged(t *testing.T) {
	for name, mark := range map[string]func(t *testing.T, b *Bus, format int){
		"by its head": func(t *testing.T, b *Bus, format int) {
			closeBus(t, b)
			slot, err := encodeHead(&journaletv1.Head{Seq: 20, Format: uint32(format), Epoch: 9})
			must.OK(t, err)
			writeFile(t, filepath.Join(b.opts.Dir, headFile), slot)
		},
		"by its stream": func(t *testing.T, b *Bus, format int) {
			c := journalConfig(testNode, 0)
			c.Metadata[formatKey] = strconv.Itoa(format)
			if _, err := b.journal.reader.js.UpdateStream(testContext(t), c); err != nil {
				t.Fatal(err)
			}
			closeBus(t, b)
			must.OK(t, os.Remove(filepath.Join(b.opts.Dir, headFile)))
		},
	} {
		for _, format := range []int{messages.JournalFormat - 1, messages.JournalFormat + 1} {
			t.Run(fmt.Sprintf("%s, %d", name, format), func(t *testing.T) {
				dir := busDir(t)
				mark(t, openFilled(t, dir), format)
				before := fingerprint(t, dir)
				_, opened := Open(testContext(t), Options{Dir: dir, Node: testNode, Log: quiet})
				_, read := OpenStored(dir)
				for _, err := range []error{opened, read} {
					for _, words := range []string{
						fmt.Sprintf("has format %d,", format), fmt.Sprintf("reads format %d only", messages.JournalFormat),
						"Nothing was changed", fmt.Sprintf("a version that reads format %d", format), "move " + dir + " aside",
					} {
						if err == nil || !strings.Contains(err.Error(), words) {
							t.Errorf("%q is missing in: %v", words, err)
						}
					}
				}
				wantSame(t, before, fingerprint(t, dir))
			})
		}
	}
}

func TestCopiesOfRefusedStartAreNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "1.blk")
	for _, text := range []string{"as it was found", "as the store left it"} {
		writeFile(t, from, []byte(text))
		a := &damagedFiles{}
		must.OK(t, a.copy(dir, from, 2, "block-1.blk"))
		if len(a.paths) != 1 || string(readFile(t, a.paths[0])) != text {
			t.Fatalf("%v", a.paths)
		}
	}
	if first := readFile(t,
		filepath.Join(dir, damagedDir, copyPrefix+"00000000000000000002-block-1.blk")); string(first) != "as it was found" {
		t.Fatalf("%q", first)
	}
}
