package bus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func TestFreshJournalBeginsWithEpochOne(t *testing.T) {
	b := openBus(t, busDir(t))
	o := b.Opening()
	if !o.FreshJournal || o.Epoch != 1 || o.Last != 0 || o.Damage != nil {
		t.Fatalf("%+v", o)
	}
	if h, err := readHead(b.opts.Dir); err != nil || h.GetEpoch() != 1 || h.GetClean() {
		t.Fatalf("head: %v, %v", h, err)
	}
}

func TestOpenContinuesAfterLastRun(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 5)
	closeBus(t, b)
	b = openBus(t, dir)
	if o := b.Opening(); o.FreshJournal || o.Epoch != 2 || o.Last != 5 || o.Damage != nil || !o.Clean {
		t.Fatalf("after a clean end: %+v", o)
	}
	appendFacts(t, b, 5)
	crash(b)
	b = openBus(t, dir)
	if o := b.Opening(); o.Epoch != 3 || o.Last != 10 || o.Damage != nil || o.Clean {
		t.Fatalf("after a crash: %+v", o)
	}
	appendFacts(t, b, 1)
	if r, err := b.Journal().Verify(testContext(t), nil); err != nil || !r.OK() || r.Epochs != 3 || r.Records != 11 {
		t.Fatalf("verify: %+v, %v", r, err)
	}
}

func TestOpenChecksChainAboveHead(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 5)
	old := readFile(t, filepath.Join(dir, headFile))
	appendFacts(t, b, 5)
	crash(b)
	writeFile(t, filepath.Join(dir, headFile), old)
	b = openBus(t, dir)
	if o := b.Opening(); o.Damage != nil || o.Last != 10 || o.Epoch != 2 {
		t.Fatalf("%+v", o)
	}
}

func TestOpenReportsMissingRecordsAndContinues(t *testing.T) {
	const n = 40
	cases := []struct {
		name string
		harm func(t *testing.T, dir string)
		want string
	}{
		{"cut tail", func(t *testing.T, dir string) {
			blk := filepath.Join(dir, "jetstream", agentAccount, "streams", journalStream, blocksDir, "1.blk")
			b := readFile(t, blk)
			writeFile(t, blk, b[:len(b)-300])
			removeIndex(t, dir)
		}, "cut"},
		{"flipped byte", func(t *testing.T, dir string) {
			blk := filepath.Join(dir, "jetstream", agentAccount, "streams", journalStream, blocksDir, "1.blk")
			b := readFile(t, blk)
			b[len(b)/2] ^= 0x40
			writeFile(t, blk, b)
			removeIndex(t, dir)
		}, ""},
		{"flipped byte in the last record, index left", func(t *testing.T, dir string) {
			blk := filepath.Join(dir, "jetstream", agentAccount, "streams", journalStream, blocksDir, "1.blk")
			b := readFile(t, blk)
			b[len(b)-20] ^= 0x40
			writeFile(t, blk, b)
		}, ""},
		{"cut tail, index left", func(t *testing.T, dir string) {
			blk := filepath.Join(dir, "jetstream", agentAccount, "streams", journalStream, blocksDir, "1.blk")
			b := readFile(t, blk)
			writeFile(t, blk, b[:len(b)-300])
		}, "cut"},
		{"block gone, index left", func(t *testing.T, dir string) {
			if err := os.Remove(
				filepath.Join(dir, "jetstream", agentAccount, "streams", journalStream, blocksDir, "1.blk")); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"no head", func(t *testing.T, dir string) {
			must.OK(t, os.Remove(filepath.Join(dir, headFile)))
		}, "head is missing"},
		{"torn head", func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, headFile), bytes.Repeat([]byte{7}, 2*headSlot))
		}, "cannot be read"},
		{"other record", func(t *testing.T, dir string) {
			h, err := readHead(dir)
			must.OK(t, err)
			h.Hash = messages.Hash([]byte("other"))
			slot, err := encodeHead(h)
			must.OK(t, err)
			writeFile(t, filepath.Join(dir, headFile), slot)
		}, "not the one that was stored"},
		{"empty directory", func(t *testing.T, dir string) {
			removeAll(t, streamDir(dir, journalStream), true)
		}, "is gone"},
		{"truncated block, index left", func(t *testing.T, dir string) {
			path := filepath.Join(streamDir(dir, journalStream), "1.blk")
			writeFile(t, path, readFile(t, path)[:1000])
		}, "cut"},
		{"truncated block", func(t *testing.T, dir string) {
			path := filepath.Join(streamDir(dir, journalStream), "1.blk")
			writeFile(t, path, readFile(t, path)[:1000])
			removeIndex(t, dir)
		}, "cut"},
		{"another journal's streams", func(t *testing.T, dir string) {
			other := busDir(t)
			b := openBus(t, other)
			for range 3 {
				must.OK(t, b.Journal().Append(fact(messages.Pod("other"), 5)))
			}
			appendFacts(t, b, n-3)
			closeBus(t, b)
			removeAll(t, filepath.Join(dir, "jetstream"), false)
			must.OK(t, os.Rename(filepath.Join(other, "jetstream"), filepath.Join(dir, "jetstream")))
		}, "not the one that was stored"},
		{"no streams", func(t *testing.T, dir string) {
			must.OK(t, os.RemoveAll(filepath.Join(dir, "jetstream")))
		}, "is gone"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir)
			appendFacts(t, b, n)
			closeBus(t, b)
			c.harm(t, dir)
			b = openBus(t, dir)
			o := b.Opening()
			if o.Damage == nil || !strings.Contains(o.Damage.GetMessage(), c.want) || o.Clean || o.FreshJournal || o.Epoch != 2 {
				t.Fatalf("%+v", o)
			}
			t.Log(o.Damage)
			var h received
			b.Journal().OnStored(h.add)
			appendFacts(t, b, 3)
			wantSeqs(t, h.seqs(), o.Last+1, o.Last+3)
			r, err := b.Journal().Verify(testContext(t), nil)
			must.OK(t, err)
			t.Log(r.Problems)
			closeBus(t, b)
			b = openBus(t, dir) // damage is reported once
			if again := b.Opening(); again.Last != o.Last+3 || again.Epoch != 3 || again.Damage != nil || !again.Clean {
				t.Fatalf("the next start: %+v", again)
			}
		})
	}
}

// deletions counts the streams that are deleted.
type deletions struct {
	jetstream.JetStream
	n int
}

func (d *deletions) DeleteStream(ctx context.Context, name string) error {
	d.n++
	return d.JetStream.DeleteStream(ctx, name)
}

// The server removes the directories of a deleted stream in the background: a stream that is created then may fail.
func TestJournalOfWhichNothingIsLeftIsCreatedOnce(t *testing.T) {
	ctx, dir := testContext(t), busDir(t)
	b := openBus(t, dir)
	js, err := jetstream.New(b.conns[1])
	must.OK(t, err)
	must.OK(t, js.DeleteStream(ctx, journalStream))
	blocks := streamDir(dir, journalStream)
	waitUntil(t, "the server has removed the journal", func() bool { return !anyFile(filepath.Dir(blocks)) })
	deleted := &deletions{JetStream: js}
	s, err := openJournalStream(ctx, &reader{js: deleted, blocksDir: blocks}, testNode, &journaletv1.Head{Seq: 7})
	must.OK(t, err)
	if s.FirstSeq != 8 || deleted.n > 0 {
		t.Errorf("the journal begins at %d, want 8, after %d deletions", s.FirstSeq, deleted.n)
	}
}

func TestReadSkipsDamagedRecordAndVerifyReportsIt(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 40)
	closeBus(t, b)
	blk := filepath.Join(streamDir(dir, journalStream), "1.blk")
	data := readFile(t, blk)
	data[len(data)/2] ^= 0x40
	writeFile(t, blk, data)
	var logs bytes.Buffer
	b = openBus(t, dir, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&logs, nil)) })
	n := 0
	if err := b.Journal().
		Read(testContext(t), 0, 0, "", func(*journaletv1.Record, int) error { n++; return nil }); err != nil || n != 39 {
		t.Fatalf("%d were read, %v", n, err)
	}
	if !strings.Contains(logs.String(), "skipped") {
		t.Fatalf("nothing is logged: %q", logs.String())
	}
	r, err := b.Journal().Verify(testContext(t), nil)
	if err != nil || r.Found != 1 || !strings.Contains(r.Problems[0].Message, "missing") {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestStartCopiesTornEnd(t *testing.T) {
	dir := busDir(t)
	for range maxCopiedStarts + 2 {
		b := openBus(t, dir)
		appendFacts(t, b, 20)
		crash(b)
		last := blocks{dir: streamDir(dir, journalStream)}
		numbers, err := last.numbers()
		must.OK(t, err)
		blk := last.path(slices.Max(numbers))
		before := readFile(t, blk)
		before = before[:len(before)-50]
		writeFile(t, blk, before)
		b = openBus(t, dir)
		_, path, ok := strings.Cut(b.Opening().Damage.GetMessage(), "a copy is in ")
		if !ok || !bytes.Equal(readFile(t, path), before) {
			t.Fatalf("%v", b.Opening().Damage)
		}
		closeBus(t, b)
	}
	if files, err := os.ReadDir(filepath.Join(dir, damagedDir)); err != nil || len(files) != maxCopiedStarts {
		t.Fatalf("%d copies, %v", len(files), err)
	}
}

func removeIndex(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(
		filepath.Join(dir, "jetstream", agentAccount, "streams", journalStream, blocksDir, "index.db")); err != nil {
		t.Fatal(err)
	}
}

func TestTornHeadWriteLeavesPreviousHead(t *testing.T) {
	dir := t.TempDir()
	h, err := newHead(dir, &journaletv1.Head{Epoch: 4, Format: messages.JournalFormat})
	must.OK(t, err)
	for seq := range uint64(7) {
		must.OK(t, h.advance(seq, []byte("hash")))
		if got, err := readHead(dir); err != nil || got.GetSeq() != seq {
			t.Fatalf("after %d: %v, %v", seq, got, err)
		}
	}
	h.f.Close()
	path := filepath.Join(dir, headFile)
	b := readFile(t, path)
	b[h.nextSlot*headSlot^headSlot+headFrame]++ // the slot written last
	writeFile(t, path, b)
	if got, err := readHead(dir); err != nil || got.GetSeq() != 5 {
		t.Fatalf("after a torn write: %v, %v", got, err)
	}
	b[h.nextSlot*headSlot+headFrame]++
	writeFile(t, path, b)
	if _, err := readHead(dir); !errors.Is(err, errHeadDamaged) {
		t.Fatalf("with both slots torn: %v", err)
	}
}

func TestSecondAgentInDirectoryIsRefused(t *testing.T) {
	dir := busDir(t)
	openBus(t, dir)
	_, err := Open(testContext(t), Options{Dir: dir, Node: testNode, Log: quiet})
	if err == nil || !strings.Contains(err.Error(), "pid "+pidText()) {
		t.Fatalf("opened twice: %v", err)
	}
}

func TestJournalOfAnotherNodeIsRefused(t *testing.T) {
	dir := busDir(t)
	closeBus(t, openBus(t, dir))
	_, err := Open(testContext(t), Options{Dir: dir, Node: "other", Log: quiet})
	if err == nil || !strings.Contains(err.Error(), "another node's") {
		t.Fatalf("opened: %v", err)
	}
	closeBus(t, openBus(t, dir)) // nothing was changed
}

func TestFilesAreReadableByOwnerOnly(t *testing.T) {
	b := openBus(t, busDir(t))
	for name, want := range map[string]os.FileMode{".": 0o700, headFile: 0o600, lockFile: 0o600, socketFile: 0o600,
		credentialsDir: 0o700, credentialsDir + "/" + ObserverKeyFile: 0o600, credentialsDir + "/" + QueryKeyFile: 0o600} {
		info, err := os.Stat(filepath.Join(b.opts.Dir, name))
		must.OK(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), want)
		}
	}
}

// TestKillLosesNoStoredRecord kills a process that appends, and finds every record that it reported as stored.
func TestKillLosesNoStoredRecord(t *testing.T) {
	if dir := os.Getenv("JOURNALET_TEST_APPEND"); dir != "" {
		appendUntilKilled(t, dir)
		return
	}
	dir := busDir(t)
	for round := range uint64(2) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKillLosesNoStoredRecord$")
		cmd.Env = append(os.Environ(), "JOURNALET_TEST_APPEND="+dir)
		out, err := cmd.StdoutPipe()
		must.OK(t, err)
		must.OK(t, cmd.Start())
		reported := readNumbers(t, out, (round+1)*3000)
		must.OK(t, cmd.Process.Kill())
		_ = cmd.Wait()
		b := openBus(t, dir)
		o := b.Opening()
		if o.Last < reported || o.Damage != nil || o.Clean {
			t.Fatalf("%d were reported as stored, and: %+v", reported, o)
		}
		if r, err := b.Journal().Verify(testContext(t), nil); err != nil || !r.OK() {
			t.Fatalf("verify: %+v, %v", r, err)
		}
		closeBus(t, b)
	}
}
