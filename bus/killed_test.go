package bus

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func pidText() string { return strconv.Itoa(os.Getpid()) }

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must.OK(t, err)
	return b
}

func writeFile(t *testing.T, path string, b []byte) {
	t.Helper()
	must.OK(t, os.WriteFile(path, b, 0o600))
}

// appendUntilKilled is the process to be killed: it says on its output what was stored.
func appendUntilKilled(t *testing.T, dir string) {
	b := openBus(t, dir)
	b.Journal().OnStored(func(recs []*journaletv1.Record) {
		fmt.Println(recs[len(recs)-1].GetSeq())
	})
	for i := int64(0); ; i++ {
		must.OK(t, b.Journal().AppendFact(testContext(t), fact(messages.Pod("p"), i)))
	}
}

// readNumbers gives the last number on r, once one is at or above enough.
func readNumbers(t *testing.T, r io.Reader, enough uint64) uint64 {
	t.Helper()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		n, err := strconv.ParseUint(lines.Text(), 10, 64)
		if err != nil {
			continue // output of the test framework
		}
		if n >= enough {
			return n
		}
	}
	t.Fatal("the process ended by itself")
	return 0
}

func rawURL(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// A store that cannot write looks like a full disk. A limit on the size of files has that effect here, in a process of
// its own. When it is lifted, the journal must continue without help, with nothing lost.
func TestJournalContinuesAfterFullDisk(t *testing.T) {
	if dir := os.Getenv("JOURNALET_TEST_FULL"); dir != "" {
		fillAndContinue(t, dir)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestJournalContinuesAfterFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), "JOURNALET_TEST_FULL="+busDir(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func fillAndContinue(t *testing.T, dir string) {
	signal.Ignore(unix.SIGXFSZ) // so that the write fails, and not the process
	b := openBus(t, dir)
	var h received
	j := b.Journal()
	j.OnStored(h.add)
	appendFacts(t, b, 10)
	var limit unix.Rlimit
	must.OK(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	limitFiles(t, 64<<10, limit.Max)
	const n = 2000
	for i := range int64(n) {
		must.OK(t, j.Append(fact(messages.Pod("p"), i)))
	}
	waitUntil(t, "the stall is reported", func() bool {
		_, err := j.Stalled()
		return err != nil && strings.Contains(err.Error(), "file too large")
	})
	limitFiles(t, limit.Cur, limit.Max)
	must.OK(t, j.Flush(testContext(t)))
	if _, err := j.Stalled(); err != nil {
		t.Fatal(err)
	}
	wantSeqs(t, h.seqs(), 1, n+10)
	if r, err := j.Verify(testContext(t), nil); err != nil || !r.OK() || r.Records != n+10 {
		t.Fatalf("verify: %+v, %v", r, err)
	}
	data := []byte("kind: Pod")
	must.OK(t, b.Manifests().Put(testContext(t), digestOf(data), data))
	closeBus(t, b)
	if o := openBus(t, dir).Opening(); !o.Clean || o.Damage != nil || o.Last != n+10 {
		t.Fatalf("%+v", o)
	}
}

func limitFiles(t *testing.T, bytes, most uint64) {
	t.Helper()
	must.OK(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: most}))
}
