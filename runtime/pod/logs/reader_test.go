package logs_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/pod/logs"
	"github.com/journalet/journalet/test/must"
)

func TestLogIsReadAsPodLogOptionsSay(t *testing.T) {
	w := newWorld(t)
	w.write("0.log", w.lines("one", "two")+w.record("F", "err", "three")+w.record("P", "out", "fo")+
		w.record("P", "out", "u")+w.record("F", "out", "r"))
	text := "one\ntwo\nthree\nfour\n"
	w.wants(all, text)
	w.wants(logs.Query{Stdout: true}, "one\ntwo\nfour\n")
	w.wants(logs.Query{Stderr: true}, "three\n")
	for n, want := range []string{"", "four\n", "three\nfour\n", "two\nthree\nfour\n", text, text} {
		q := all
		q.Tail = number(int64(n))
		w.wants(q, want)
	}
	q := all
	q.Limit = number(int64(6))
	w.wants(q, "one\ntw")
	q.Limit = number(int64(len(text)))
	w.wants(q, text)
	q = all
	q.Timestamps = true
	q.Limit = number(int64(40))
	w.wants(q, "2026-11-21T10:00:01.000000000Z one\n2026-")
	q = all
	q.Since, q.Timestamps = w.at.Add(-4*time.Second), true
	w.wants(q, "2026-11-21T10:00:02.000000000Z two\n2026-11-21T10:00:03.000000000Z three\n"+
		"2026-11-21T10:00:04.000000000Z four\n")
	q.Tail = number(int64(1))
	w.wants(q, "2026-11-21T10:00:04.000000000Z four\n")
}

func TestTimesOfAnyZoneAndPrecision(t *testing.T) {
	w := newWorld(t)
	w.write("0.log", "2026-11-21T12:00:00.5+02:00 stdout F a\n2026-11-21T10:00:00.123456789Z stdout F b\n"+
		"2026-11-21T10:00:01Z stdout F c\n")
	q := all
	q.Timestamps = true
	w.wants(q, "2026-11-21T12:00:00.500000000+02:00 a\n2026-11-21T10:00:00.123456789Z b\n"+
		"2026-11-21T10:00:01.000000000Z c\n")
	q = all
	q.Since = time.Date(2026, 11, 21, 10, 0, 0, 123456790, time.UTC)
	w.wants(q, "a\nc\n")
	q.Since = q.Since.Add(-1)
	w.wants(q, "a\nb\nc\n")
}

func TestRotatedFilesAreReadOldestFirst(t *testing.T) {
	w := newWorld(t)
	w.write("0.log.20261121-100000.gz", w.lines("1", "2")+w.record("P", "out", "ab"))
	w.write("0.log.20261121-100500", w.record("F", "out", "c")+w.lines("4"))
	w.write("0.log.20261121-100500.gz", w.lines("a compressed file that is not removed yet"))
	w.write("0.log.20261121-100500.tmp", w.lines("left by a crash"))
	w.write("0.log.note", w.lines("not rotated"))
	w.write("1.log", w.lines("another instance"))
	w.write("0.log", w.lines("5", "6"))
	for n, want := range []string{"", "6\n", "5\n6\n", "4\n5\n6\n", "abc\n4\n5\n6\n", "2\nabc\n4\n5\n6\n"} {
		q := all
		q.Tail = number(int64(n))
		w.wants(q, want)
	}
	w.wants(all, "1\n2\nabc\n4\n5\n6\n")
	must.OK(t, os.Remove(w.path("0.log"))) // between a rename and its reopening
	w.wants(all, "1\n2\nabc\n4\n")
}

func TestNoFileIsAnError(t *testing.T) {
	w := newWorld(t)
	if _, _, err := w.read(all); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no log: %v", err)
	}
	r := logs.New(logs.Options{Dir: w.top})
	for _, path := range []string{"/etc/passwd", w.top, w.top + "/../x.log", w.path("../../../0.log"), "0.log"} {
		if _, err := r.Read(t.Context(), logs.Log{Path: path}, all, newScreen()); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}

// What is no log is left out and reported. The rest is printed.
func TestHostileFilesAreLeftOutAndReported(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must.OK(t, os.WriteFile(secret, []byte("2026-11-21T10:00:00Z stdout F secret\n"), 0o600))
	for name, plant := range map[string]func(w *world, path string){
		"link":      func(w *world, path string) { must.OK(w, os.Symlink(secret, path)) },
		"fifo":      func(w *world, path string) { must.OK(w, unix.Mkfifo(path, 0o600)) },
		"directory": func(w *world, path string) { must.OK(w, os.Mkdir(path, 0o700)) },
		"no gzip":   func(w *world, path string) { must.OK(w, os.WriteFile(path+".gz", []byte("no gzip"), 0o600)) },
		"cut gzip": func(w *world, path string) {
			text := packed(w, strings.Repeat(w.lines("line"), 100))
			must.OK(w, os.WriteFile(path+".gz", []byte(text[:len(text)-20]), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			plant(w, w.path("0.log.20261121-100000"))
			w.write("0.log.20261121-110000", w.lines("rotated"))
			w.write("0.log", w.lines("live"))
			got, report, err := w.read(all)
			if err != nil || report.Err() == nil {
				t.Errorf("read: %v, left out: %v", err, report.Err())
			}
			if !strings.HasSuffix(got, "rotated\nlive\n") || strings.Contains(got, "secret") {
				t.Errorf("printed %q", got)
			}
			q := all
			q.Tail = number(int64(2))
			if got, _, err := w.read(q); err != nil || got != "rotated\nlive\n" {
				t.Errorf("the last two lines: %q, %v", got, err)
			}
		})
		t.Run("live "+name, func(t *testing.T) {
			if strings.Contains(name, "gzip") {
				return // the live file is not packed
			}
			w := newWorld(t)
			plant(w, w.path("0.log"))
			if got, _, err := w.read(all); err == nil || got != "" {
				t.Errorf("printed %q, %v", got, err)
			}
			w.write("0.log.20261121-110000", w.lines("rotated"))
			got, report, err := w.read(all)
			if err != nil || report.Err() == nil || got != "rotated\n" {
				t.Errorf("printed %q, %v, left out: %v", got, err, report.Err())
			}
		})
	}
}

// No directory on the way to a log may be a link, also not one to another pod's logs.
func TestPlantedDirectoriesAreNotFollowed(t *testing.T) {
	w := newWorld(t)
	other := filepath.Join(w.top, "default_other_9", "app")
	must.OK(t, os.MkdirAll(other, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(other, "0.log"), []byte(w.lines("of another pod")), 0o600))
	for _, planted := range []string{"default_web_1234/app", "default_web_1234"} {
		path := filepath.Join(w.top, planted)
		must.OK(t, os.RemoveAll(path))
		must.OK(t, os.Symlink(filepath.Join(w.top, strings.Replace(planted, "web_1234", "other_9", 1)), path))
		if got, _, err := w.read(all); err == nil || got != "" {
			t.Errorf("by way of the link %s: %q, %v", planted, got, err)
		}
		must.OK(t, os.Remove(path))
		must.OK(t, os.MkdirAll(filepath.Join(w.top, "default_web_1234"), 0o755))
	}
}

func TestBrokenRecordsAreLeftOutAndCounted(t *testing.T) {
	w := newWorld(t)
	broken := []string{
		"", "no head", "2026-11-21T10:00:00Z", "2026-11-21T10:00:00Z stdout", "2026-11-21T10:00:00Z stdin F text",
		"2026-11-21T10:00:00Z stdout X text", "2026-11-21T10:00:00Z stdout FF text", "yesterday stdout F text",
		strings.Repeat("x", 1<<20), strings.Repeat("\x00", 300), "2026-11-21T10:00:00Z stdout  text",
	}
	w.write("0.log", w.lines("before")+strings.Join(broken, "\n")+"\n"+w.lines("after")+
		"2026-11-21T10:00:00Z stdout F:x tagged\n2026-11-21T10:00:00Z stdout F \n2026-11-21T10:00:00Z stdout F\n"+
		"2026-11-21T10:00:00Z stdout F cut o")
	got, report, err := w.read(all)
	if want := "before\nafter\ntagged\n\n\ncut o"; err != nil || got != want {
		t.Errorf("printed %q, want %q; %v", got, want, err)
	}
	if report.Broken != int64(len(broken)) {
		t.Errorf("%d broken records, want %d", report.Broken, len(broken))
	}
}

// A line of any length takes constant memory, in one record or in many.
func TestHugeLineTakesConstantMemory(t *testing.T) {
	w := newWorld(t)
	one := strings.Repeat("x", 64<<20)
	w.write("0.log", w.lines(one)+w.lines("end"))
	q := all
	q.Tail = number(int64(2))
	var n int64
	count := writerFunc(func(b []byte) (int, error) { n += int64(len(b)); return len(b), nil })
	r := logs.New(logs.Options{Dir: w.top})
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			n = 0
			if _, err := r.Read(t.Context(), w.log(), q, count); err != nil {
				b.Fatal(err)
			}
		}
	})
	if n != int64(len(one)+len("\nend\n")) {
		t.Errorf("%d bytes were printed", n)
	}
	if got := allocated.AllocedBytesPerOp(); got > 2<<20 {
		t.Errorf("reading took %d bytes, want 2 MiB at most", got)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestWriterThatFailsEndsTheRead(t *testing.T) {
	w := newWorld(t)
	w.write("0.log", w.lines("text"))
	gone := errors.New("gone")
	fail := writerFunc(func([]byte) (int, error) { return 0, gone })
	if _, err := logs.New(logs.Options{Dir: w.top}).Read(t.Context(), w.log(), all, fail); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// Whatever the file, it is printed as by the simplest reader, and its tail is the end of the whole.
func TestReaderAgreesWithTheSimplestOne(t *testing.T) {
	for seed := range uint64(300) {
		w := newWorld(t)
		random := rand.New(rand.NewPCG(seed, 1))
		var want strings.Builder
		names := []string{"0.log.20261121-100000.gz", "0.log.20261121-100001", "0.log"}
		for _, name := range names {
			var file strings.Builder
			for range random.IntN(40) {
				text := strings.Repeat("y", random.IntN(3)*random.IntN(400))
				if random.IntN(50) == 0 {
					text = strings.Repeat("z", random.IntN(300<<10))
				}
				tag := "F"
				if random.IntN(4) == 0 {
					tag, text = "P", text+"p"
				}
				file.WriteString(w.record(tag, "out", text))
				want.WriteString(text)
				if tag == "F" {
					want.WriteByte('\n')
				}
			}
			w.write(name, file.String())
		}
		w.wants(all, want.String())
		lines := strings.SplitAfter(want.String(), "\n")
		if n := len(lines) - 1; lines[n] == "" {
			lines = lines[:n]
		}
		for n := range len(lines) + 2 {
			q := all
			q.Tail = number(int64(n))
			w.wants(q, strings.Join(lines[max(0, len(lines)-n):], ""))
			if t.Failed() || n > 5 {
				break
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
