package plugins

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/journalet/journalet/test/must"
)

// limit bounds the wait for what a test expects.
const limit = time.Minute

// fake is a plugin that describes itself.
type fake struct {
	registration.UnimplementedRegistrationServer
	info     *registration.PluginInfo
	hang     bool
	notified chan *registration.RegistrationStatus
}

func (f *fake) GetInfo(ctx context.Context, _ *registration.InfoRequest) (*registration.PluginInfo, error) {
	if f.hang {
		<-ctx.Done()
	}
	return f.info, ctx.Err()
}

func (f *fake) NotifyRegistrationStatus(
	_ context.Context, s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	f.notified <- s
	return &registration.RegistrationStatusResponse{}, nil
}

// serve serves a plugin at a socket. stop ends it and removes the socket.
func serve(t *testing.T, path, kind, name string, change ...func(*fake)) (f *fake, stop func()) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o750))
	l, err := Listen(path, 8)
	must.OK(t, err)
	f = &fake{
		info:     &registration.PluginInfo{Type: kind, Name: name, SupportedVersions: []string{"v1"}},
		notified: make(chan *registration.RegistrationStatus, 8),
	}
	for _, c := range change {
		c(f)
	}
	s := grpc.NewServer()
	registration.RegisterRegistrationServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return f, s.GracefulStop // what is under way is answered
}

func (f *fake) status(t *testing.T) *registration.RegistrationStatus {
	t.Helper()
	select {
	case s := <-f.notified:
		return s
	case <-time.After(limit):
		t.Fatal("the plugin was not notified")
		return nil
	}
}

// handler records what it is called with.
type handler struct {
	calls chan string
	mu    sync.Mutex
	fail  int // calls of Register that fail
}

func (h *handler) Validate(Plugin) error { return nil }

func (h *handler) Register(_ context.Context, p Plugin) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail > 0 {
		h.fail--
		return errors.New("not now")
	}
	h.calls <- "register " + p.Name + " " + filepath.Base(p.Endpoint) + " " + strings.Join(p.Versions, ",")
	return nil
}

func (h *handler) Deregister(p Plugin) { h.calls <- "deregister " + p.Name }

func (h *handler) want(t *testing.T, call string) {
	t.Helper()
	select {
	case got := <-h.calls:
		if got != call {
			t.Fatalf("handled %q, want %q", got, call)
		}
	case <-time.After(limit):
		t.Fatalf("%q is not handled", call)
	}
}

// start runs a watcher in a new directory. A value in retries ends the pause after a failure.
func start(t *testing.T) (dir string, h *handler, retries chan time.Time) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), strings.Repeat("long/", 30), RegistryDir)
	must.OK(t, os.MkdirAll(dir, 0o750))
	h, retries = &handler{calls: make(chan string, 8)}, make(chan time.Time, 8)
	w := New(Options{
		Dir: dir, After: func(time.Duration) <-chan time.Time { return retries },
		Handlers: map[string]Handler{"Kind": h, "Other": Refuse("not supported by this version")},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return dir, h, retries
}

func TestPluginsAreFoundAndLost(t *testing.T) {
	dir, h, _ := start(t)
	f, stop := serve(t, filepath.Join(dir, "sub", "a.sock"), "Kind", "a")
	h.want(t, "register a a.sock v1")
	if s := f.status(t); !s.GetPluginRegistered() {
		t.Errorf("the plugin was notified of %v", s)
	}
	stop()
	h.want(t, "deregister a")
	serve(t, filepath.Join(dir, "sub", "a.sock"), "Kind", "a")
	h.want(t, "register a a.sock v1")
}

// TestAPluginIsRegisteredOnce notifies the watcher of a socket that a scan has found before, and then of another one
// that has taken its place.
func TestAPluginIsRegisteredOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	_, stop := serve(t, path, "Kind", "a")
	h := &handler{calls: make(chan string, 8)}
	w := New(Options{Dir: filepath.Dir(path), Handlers: map[string]Handler{"Kind": h}})
	ctx, cancel := context.WithCancel(t.Context())
	defer w.running.Wait()
	defer cancel()
	created := fsnotify.Event{Name: path, Op: fsnotify.Create}
	w.scan(ctx, filepath.Dir(path))
	h.want(t, "register a a.sock v1")
	w.notified(ctx, created)
	if len(h.calls) != 0 {
		t.Fatalf("the same socket again: %s", <-h.calls)
	}
	stop()
	serve(t, path, "Kind", "b")
	w.notified(ctx, created)
	h.want(t, "deregister a")
	h.want(t, "register b a.sock v1")
}

func TestPluginsOfOtherTypesAreRefused(t *testing.T) {
	dir, _, _ := start(t)
	for kind, why := range map[string]string{
		"Other": "not supported by this version", "Unknown": "no handler registered",
	} {
		f, _ := serve(t, filepath.Join(dir, kind+".sock"), kind, "a")
		if s := f.status(t); s.GetPluginRegistered() || !strings.Contains(s.GetError(), why) {
			t.Errorf("a plugin of type %s was notified of %v, want %q", kind, s, why)
		}
	}
}

func TestAFailedRegistrationIsRepeated(t *testing.T) {
	dir, h, retries := start(t)
	h.mu.Lock()
	h.fail = 2
	h.mu.Unlock()
	f, _ := serve(t, filepath.Join(dir, "a.sock"), "Kind", "a")
	for range 2 {
		if s := f.status(t); s.GetPluginRegistered() || s.GetError() != "not now" {
			t.Fatalf("the plugin was notified of %v, want the failure", s)
		}
		retries <- time.Now()
	}
	h.want(t, "register a a.sock v1")
}

// TestAPluginThatHangsHoldsUpNoOther has a plugin that never answers what it is.
func TestAPluginThatHangsHoldsUpNoOther(t *testing.T) {
	dir, h, _ := start(t)
	serve(t, filepath.Join(dir, "hung.sock"), "Kind", "hung", func(f *fake) { f.hang = true })
	serve(t, filepath.Join(dir, "b.sock"), "Kind", "b")
	h.want(t, "register b b.sock v1")
}

func TestFilesThatAreNoSocketsAreIgnored(t *testing.T) {
	dir, h, _ := start(t)
	outside := filepath.Join(t.TempDir(), "real.sock")
	serve(t, outside, "Kind", "link")
	must.OK(t, os.Symlink(outside, filepath.Join(dir, "link.sock")))
	must.OK(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	serve(t, filepath.Join(dir, ".hidden.sock"), "Kind", "hidden")
	serve(t, filepath.Join(dir, "b.sock"), "Kind", "b")
	h.want(t, "register b b.sock v1") // and nothing before it
	if _, err := Dial(t.Context(), filepath.Join(dir, "link.sock")); err == nil {
		t.Error("a link is followed")
	}
}

func TestHostileDescriptionsAreRefused(t *testing.T) {
	dir, h, _ := start(t)
	long, _ := serve(t, filepath.Join(dir, "long.sock"), "Kind", strings.Repeat("x", maxNameBytes+1))
	serve(t, filepath.Join(dir, "relative.sock"), "Kind", "relative", func(f *fake) { f.info.Endpoint = "../b.sock" })
	garbage, err := Listen(filepath.Join(dir, "garbage.sock"), 8)
	must.OK(t, err)
	t.Cleanup(func() { garbage.Close() })
	go func() {
		for {
			c, err := garbage.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(strings.Repeat("garbage\n", 1<<10)))
			c.Close()
		}
	}()
	serve(t, filepath.Join(dir, "b.sock"), "Kind", "b")
	h.want(t, "register b b.sock v1")
	select {
	case s := <-long.notified:
		t.Errorf("a plugin with a long name was notified of %v", s)
	default:
	}
}
