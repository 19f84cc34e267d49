package rotate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/pod/logs"
	"github.com/journalet/journalet/test/must"
)

const below = "default_web_1/app"

// world is a node with one container, and its runtime.
type world struct {
	*testing.T
	d   *Driver
	top string

	mu       sync.Mutex
	now      time.Time
	log      *os.File // as the runtime has it open
	calls    map[string]int
	refuse   error // of ReopenContainerLog
	late     bool  // the runtime reopens the log before it refuses
	exited   bool
	reported []*journaletv1.LogRotated
	lines    int
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, top: t.TempDir(), now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), calls: map[string]int{}}
	must.OK(t, os.MkdirAll(filepath.Join(w.top, below), 0o755))
	w.reopen()
	w.start()
	return w
}

// start starts the agent.
func (w *world) start() {
	w.d = New(Options{
		Dir: w.top, Conn: w, Policy: Policy{MaxBytes: 1000, MaxFiles: 4}, Interval: time.Hour, Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
		Sink: func(_ context.Context, r *journaletv1.LogRotated) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reported = append(w.reported, r)
			return nil
		},
	})
	w.observe(journaletv1.ContainerState_CONTAINER_STATE_RUNNING)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	d := w.d
	go func() { defer close(done); _ = d.Run(ctx) }()
	w.Cleanup(func() { stop(); <-done })
}

func (w *world) observe(state journaletv1.ContainerState) {
	w.d.Seed(&journaletv1.PodObserved{Uid: "1", Containers: []*journaletv1.ContainerObservation{
		{Id: "c", Name: "app", State: state},
	}})
}

func (w *world) path(name string) string { return filepath.Join(w.top, below, name) }

func (w *world) reopen() {
	if w.log != nil {
		_ = w.log.Close()
	}
	var err error
	w.log, err = os.OpenFile(w.path("0.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	must.OK(w, err)
}

// say writes n lines as the container.
func (w *world) say(n int) {
	w.Helper()
	for range n {
		w.lines++
		_, err := fmt.Fprintf(w.log, "2026-11-21T10:00:00Z stdout F line %d\n", w.lines)
		must.OK(w, err)
	}
}

// Invoke answers for the runtime.
func (w *world) Invoke(_ context.Context, _ string, req, reply any, _ ...grpc.CallOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[fmt.Sprintf("%T", req)]++
	switch reply := reply.(type) {
	case *cri.ContainerStatusResponse:
		reply.Status = &cri.ContainerStatus{LogPath: w.path("0.log"), State: cri.ContainerState_CONTAINER_RUNNING}
		if w.exited {
			reply.Status.State = cri.ContainerState_CONTAINER_EXITED
		}
	case *cri.ReopenContainerLogResponse:
		if w.refuse == nil || w.late {
			w.reopen()
		}
		return w.refuse
	}
	return nil
}

func (w *world) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams here")
}

// inspect inspects a minute later, until nothing is left to compress.
func (w *world) inspect() {
	w.Helper()
	w.mu.Lock()
	w.now = w.now.Add(time.Minute)
	w.mu.Unlock()
	for range 2 {
		w.d.Inspect(w.Context())
		for _, c := range w.d.running() {
			for busy := true; busy; runtime.Gosched() {
				c.mu.Lock()
				busy = c.packing
				c.mu.Unlock()
			}
		}
	}
}

// files lists the directory.
func (w *world) files() string {
	w.Helper()
	entries, err := os.ReadDir(filepath.Join(w.top, below))
	must.OK(w, err)
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimPrefix(e.Name(), "0.log."))
	}
	return strings.Join(names, " ")
}

func (w *world) wantFiles(want string) {
	w.Helper()
	if got := w.files(); got != want {
		w.Errorf("files: %s, want %s", got, want)
	}
}

// wantLines reads the log and wants the lines from first on, each once.
func (w *world) wantLines(first int) {
	w.Helper()
	var out strings.Builder
	report, err := logs.New(logs.Options{Dir: w.top}).Read(w.Context(), logs.Log{Path: w.path("0.log")},
		logs.Query{Stdout: true}, &out)
	must.OK(w, errors.Join(err, report.Err()))
	var want strings.Builder
	for n := first; n <= w.lines; n++ {
		fmt.Fprintf(&want, "line %d\n", n)
	}
	if out.String() != want.String() {
		w.Errorf("lines %q, want %q", out.String(), want.String())
	}
}

func (w *world) wantReports(want ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []string
	for _, r := range w.reported {
		if r.GetUid() != "1" || r.GetContainer() != "app" || r.GetContainerId() != "c" {
			w.Errorf("reported %v", r)
		}
		text := r.GetMessage()
		if text == "" {
			text = fmt.Sprint(r.GetBytes())
		}
		got = append(got, text)
	}
	if !slices.EqualFunc(got, want, strings.Contains) {
		w.Errorf("reported %q, want %q", got, want)
	}
}

func TestLogBeyondItsBoundIsRotatedCompressedAndRemoved(t *testing.T) {
	w := newWorld(t)
	w.say(5)
	w.inspect()
	w.wantFiles("0.log")
	for range 2 {
		w.say(40)
		w.inspect()
	}
	w.wantFiles("0.log 20261121-100200.gz 20261121-100300")
	w.wantLines(1)
	info, err := os.Stat(w.path("0.log.20261121-100200.gz"))
	must.OK(t, err)
	if info.Mode().Perm() != 0o640 {
		t.Errorf("the archive has mode %s", info.Mode())
	}
	for range 3 {
		w.say(40)
		w.inspect()
	}
	w.wantFiles("0.log 20261121-100400.gz 20261121-100500.gz 20261121-100600")
	w.wantLines(86)
	w.wantReports("", "", "", "", "")
}

func TestRuntimeIsNotCalledWhileLogsDoNotGrow(t *testing.T) {
	w := newWorld(t)
	for range 10 {
		w.inspect()
	}
	if got := w.calls["*v1.ContainerStatusRequest"]; got != 1 || len(w.calls) != 1 {
		t.Errorf("calls of the runtime: %v, want one, for the path of the log", w.calls)
	}
}

func TestLogIsRenamedBackIfTheRuntimeDoesNotReopenIt(t *testing.T) {
	w := newWorld(t)
	w.refuse = status.Error(codes.Unknown, "no space left on device")
	w.say(50)
	for range 3 {
		w.inspect()
		w.wantFiles("0.log")
		w.say(1)
	}
	w.wantReports("no space left") // once
	w.refuse = nil
	w.inspect()
	w.wantFiles("0.log 20261121-100400")
	w.wantLines(1)
	w.refuse = status.Error(codes.Unknown, "no inodes")
	w.say(50)
	w.inspect()
	w.wantReports("no space left", "", "no inodes")
}

// The outcome of a call that was cut off is found out by the file.
func TestRotationStandsIfTheRuntimeHasReopenedTheLogAfterAll(t *testing.T) {
	w := newWorld(t)
	w.refuse, w.late = status.Error(codes.DeadlineExceeded, "late"), true
	w.say(50)
	w.inspect()
	w.say(1)
	w.wantFiles("0.log 20261121-100100")
	w.wantLines(1)
	w.wantReports("")
}

func TestCrashBetweenRenameAndReopenLosesNothing(t *testing.T) {
	w := newWorld(t)
	w.say(50)
	must.OK(t, os.Rename(w.path("0.log"), w.path("0.log.20261121-095900")))
	must.OK(t, os.WriteFile(w.path("0.log.20261121-095800.tmp"), []byte("half an archive"), 0o600))
	w.say(1) // the runtime still has it open
	w.start()
	w.inspect()
	w.say(1)
	w.wantFiles("0.log 20261121-095900")
	w.wantLines(1)
}

func TestEndedContainerIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.say(50)
	w.exited, w.refuse = true, status.Error(codes.Unknown, "container is not running")
	w.inspect() // its end is not observed yet
	w.wantFiles("0.log")
	w.observe(journaletv1.ContainerState_CONTAINER_STATE_EXITED)
	w.inspect()
	w.wantFiles("0.log")
	w.wantReports()
}

// What a container plants is neither followed nor removed by way of it.
func TestPlantedFilesHarmNothingOutside(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	must.OK(t, os.WriteFile(secret, []byte(strings.Repeat("secret\n", 1000)), 0o600))
	must.OK(t, os.Symlink(secret, w.path("0.log.20261121-080000")))
	must.OK(t, os.Symlink(secret, w.path("0.log.20261121-080001.tmp")))
	must.OK(t, os.Symlink(secret, w.path("0.log.20261121-100100.tmp")))
	must.OK(t, os.Symlink(outside, w.path("0.log.20261121-080002")))
	must.OK(t, unix.Mkfifo(w.path("0.log.20261121-080003"), 0o600))
	must.OK(t, os.Mkdir(w.path("0.log.20261121-080004"), 0o700))
	for range 4 {
		w.say(50)
		w.inspect()
	}
	unharmed := func() {
		t.Helper()
		data, err := os.ReadFile(secret)
		must.OK(t, err)
		if info, err := os.Stat(secret); err != nil || len(data) != 7000 || info.Mode().Perm() != 0o600 {
			t.Errorf("outside: %d bytes, %v, %v", len(data), info, err)
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
			t.Errorf("outside: %v, %v", entries, err)
		}
	}
	unharmed()
	w.mu.Lock()
	w.reported = nil
	w.mu.Unlock()
	// The live file is replaced by a link, and then the directory.
	must.OK(t, os.Remove(w.path("0.log")))
	must.OK(t, os.Symlink(secret, w.path("0.log")))
	w.inspect()
	w.inspect()
	unharmed()
	w.wantReports("not a regular file")
	must.OK(t, os.RemoveAll(filepath.Join(w.top, below)))
	must.OK(t, os.WriteFile(filepath.Join(outside, "0.log"), []byte(strings.Repeat("x", 5000)), 0o600))
	must.OK(t, os.Symlink(outside, filepath.Join(w.top, below)))
	w.inspect()
	must.OK(t, os.Remove(filepath.Join(outside, "0.log")))
	unharmed()
}

// A failed compression is reported once and tried again; the file stays.
func TestFileThatCannotBeCompressedStays(t *testing.T) {
	w := newWorld(t)
	blocker := w.path("0.log.20261121-100100.tmp")
	w.say(50)
	w.inspect()
	must.OK(t, os.Mkdir(blocker, 0o700))
	w.say(50)
	w.inspect()
	w.inspect()
	w.wantFiles("0.log 20261121-100100 20261121-100100.tmp 20261121-100200")
	w.wantReports("", "", "compress: ")
	w.wantLines(1)
	must.OK(t, os.Remove(blocker))
	w.inspect()
	w.wantFiles("0.log 20261121-100100.gz 20261121-100200")
	w.wantReports("", "", "compress: ")
	w.wantLines(1)
}

// BenchmarkInspectionOfLogsThatDoNotGrow is what a period costs a node of 110 containers.
func BenchmarkInspectionOfLogsThatDoNotGrow(b *testing.B) {
	w := &world{top: b.TempDir(), calls: map[string]int{}}
	must.OK(b, os.MkdirAll(filepath.Join(w.top, below), 0o755))
	must.OK(b, os.WriteFile(w.path("0.log"), nil, 0o600))
	d := New(Options{Dir: w.top, Conn: w, Policy: Policy{MaxBytes: 1000, MaxFiles: 4}})
	for pod := range 110 {
		d.Seed(&journaletv1.PodObserved{Uid: fmt.Sprint(pod), Containers: []*journaletv1.ContainerObservation{
			{Id: fmt.Sprint(pod), Name: "app", State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING},
		}})
	}
	d.Inspect(b.Context()) // which finds out where the logs are
	for b.Loop() {
		d.Inspect(b.Context())
	}
}
