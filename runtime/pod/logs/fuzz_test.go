package logs

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

// FuzzLog prints any file in pieces of any size: the output is the same as of the whole, and the last lines are the
// end of all lines.
func FuzzLog(f *testing.F) {
	f.Add([]byte("2026-11-21T10:00:00.5Z stdout F a\n2026-11-21T10:00:01+01:00 stderr P b\nbroken\n"), 7, int64(1))
	f.Add([]byte("2026-11-21T10:00:00Z stdout F:x \n2026-11-21T10:00:00Z stdout F\n\n\x00"), 1, int64(3))
	f.Fuzz(func(t *testing.T, file []byte, piece int, tail int64) {
		piece, tail = 1+abs(piece)%(1<<12), int64(abs(int(tail))%100)
		whole, wholeBroken := printed(t, file, len(file))
		pieces, broken := printed(t, file, piece)
		if !bytes.Equal(whole, pieces) || broken != wholeBroken {
			t.Errorf("in pieces of %d bytes: %q, %d broken, want %q, %d", piece, pieces, broken, whole, wholeBroken)
		}
		dir := t.TempDir()
		must.OK(t, os.MkdirAll(filepath.Join(dir, "pod", "app"), 0o700))
		path := filepath.Join(dir, "pod", "app", "0.log")
		must.OK(t, os.WriteFile(path, file, 0o600))
		var out bytes.Buffer
		q := Query{Stdout: true, Stderr: true, Tail: &tail, Timestamps: true}
		_, err := New(Options{Dir: dir}).Read(t.Context(), Log{Path: path}, q, &out)
		must.OK(t, err)
		if !bytes.HasSuffix(whole, out.Bytes()) {
			t.Errorf("the last %d lines are %q, of %q", tail, out.Bytes(), whole)
		}
	})
}

func abs(n int) int { return max(n, -(n + 1)) }

// printed prints a file in pieces, as a copier does.
func printed(t *testing.T, file []byte, piece int) (out []byte, broken int64) {
	t.Helper()
	var to bytes.Buffer
	p := &printer{to: &to, stdout: true, stderr: true, timestamps: true, left: math.MaxInt64}
	var kept []byte
	for len(file) > 0 {
		n := min(piece, len(file))
		have := append(kept, file[:n]...)
		used, err := p.take(have)
		must.OK(t, err)
		if kept = have[used:]; len(kept) >= maxHeadBytes {
			t.Fatalf("%d bytes are kept", len(kept))
		}
		file = file[n:]
	}
	p.endFile(len(kept))
	must.OK(t, p.flush())
	return to.Bytes(), p.broken
}

// FuzzTime compares times with what the standard library reads and prints.
func FuzzTime(f *testing.F) {
	f.Add("2026-11-21T10:00:00.123456789Z")
	f.Add("1970-01-01T00:00:00+14:00")
	f.Add("2024-02-29T23:59:59Z")
	f.Fuzz(func(t *testing.T, text string) {
		want, err := time.Parse(time.RFC3339Nano, text)
		if err != nil || want.Year() < 1679 || want.Year() > 2260 {
			if isTime([]byte(text)) {
				appendTime(nil, []byte(text))
				nanoseconds([]byte(text))
			}
			return
		}
		if got, ok := nanoseconds([]byte(text)); isTime([]byte(text)) && (!ok || got != want.UnixNano()) {
			t.Errorf("%q: %d, %v, want %d", text, got, ok, want.UnixNano())
		}
	})
}

func TestTimesAreReadAsByTheStandardLibrary(t *testing.T) {
	for at := time.Date(1699, 12, 27, 23, 59, 59, 1, time.UTC); at.Year() < 2200; at = at.Add(25*time.Hour + 1) {
		text := []byte(at.Format(time.RFC3339Nano))
		if got, ok := nanoseconds(text); !ok || got != at.UnixNano() {
			t.Fatalf("%s: %d, %v, want %d", text, got, ok, at.UnixNano())
		}
		const fixed = "2006-01-02T15:04:05.000000000Z07:00"
		if got := string(appendTime(nil, text)); got != at.Format(fixed) {
			t.Fatalf("%s is printed as %s", text, got)
		}
	}
}
