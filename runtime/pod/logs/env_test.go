package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/journalet/journalet/runtime/pod/logs"
	"github.com/journalet/journalet/test/must"
)

// below is the directory of a container's logs.
const below = "default_web_1234/app"

// world is a directory of the pods' logs with one container.
type world struct {
	testing.TB
	top string
	at  time.Time
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t, top: t.TempDir(), at: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
	must.OK(t, os.MkdirAll(filepath.Join(w.top, below), 0o755))
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.top, below, name) }

// write writes a file; a name that ends in .gz is compressed.
func (w *world) write(name, text string) {
	w.Helper()
	if strings.HasSuffix(name, ".gz") {
		text = packed(w, text)
	}
	must.OK(w, os.WriteFile(w.path(name), []byte(text), 0o640))
}

func (w *world) append(name, text string) {
	w.Helper()
	f := w.open(name)
	w.say(f, text)
	must.OK(w, f.Close())
}

// open creates a file and leaves it open for writing, as the runtime has it.
func (w *world) open(name string) *os.File {
	w.Helper()
	f, err := os.OpenFile(w.path(name), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o640)
	must.OK(w, err)
	return f
}

func (w *world) say(f *os.File, text string) {
	w.Helper()
	_, err := f.WriteString(text)
	must.OK(w, err)
}

func packed(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	must.OK(t, err)
	must.OK(t, z.Close())
	return b.String()
}

// record returns a record a second later than the one before: "F out text".
func (w *world) record(tag, stream, text string) string {
	w.at = w.at.Add(time.Second)
	return fmt.Sprintf("%s std%s %s %s\n", w.at.Format(time.RFC3339Nano), stream, tag, text)
}

// lines returns a whole line of stdout for each text.
func (w *world) lines(texts ...string) string {
	var out strings.Builder
	for _, text := range texts {
		out.WriteString(w.record("F", "out", text))
	}
	return out.String()
}

var all = logs.Query{Stdout: true, Stderr: true}

// read returns what a query prints.
func (w *world) read(q logs.Query) (string, logs.Report, error) {
	var out bytes.Buffer
	report, err := logs.New(logs.Options{Dir: w.top}).Read(w.Context(), w.log(), q, &out)
	return out.String(), report, err
}

func (w *world) log() logs.Log {
	return logs.Log{Path: w.path("0.log"), Ended: func(context.Context) bool { return true }}
}

// wants reads and compares; nothing may have been left out.
func (w *world) wants(q logs.Query, want string) {
	w.Helper()
	got, report, err := w.read(q)
	if err != nil || report.Err() != nil {
		w.Errorf("%+v: %v, left out: %v", q, err, report.Err())
	}
	if got != want {
		w.Errorf("%+v: printed %.2000q, want %.2000q", q, got, want)
	}
}

func number[T any](n T) *T { return &n }

// screen collects what a follower prints.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
	grew chan struct{}
}

func newScreen() *screen { return &screen{grew: make(chan struct{}, 1)} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	select {
	case s.grew <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// until waits until the screen shows want at its end.
func (s *screen) until(t testing.TB, want string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !strings.HasSuffix(s.String(), want) {
		select {
		case <-s.grew:
		case <-deadline:
			t.Fatalf("printed %q, want %q at its end", s.String(), want)
		}
	}
}

// following is a follower under way.
type following struct {
	*screen
	end  func() // the container ends
	stop func() // the client is gone
	done chan struct{}

	report logs.Report
	err    error
}

func (w *world) follow(q logs.Query, o logs.Options) *following {
	q.Follow = true
	o.Dir = w.top
	f := &following{screen: newScreen(), done: make(chan struct{})}
	ended, end := context.WithCancel(context.Background())
	ctx, stop := context.WithCancel(w.Context())
	f.end, f.stop = end, stop
	log := logs.Log{Path: w.path("0.log"), Ended: func(context.Context) bool { return ended.Err() != nil }}
	go func() {
		defer close(f.done)
		f.report, f.err = logs.New(o).Read(ctx, log, q, f)
	}()
	w.Cleanup(func() { stop(); end(); <-f.done })
	return f
}
