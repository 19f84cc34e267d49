package agent

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/timer"
	"github.com/journalet/journalet/test/must"
)

// pings counts what systemd's watchdog receives, until the test ends.
func pings(t *testing.T, limit string) <-chan string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must.OK(t, err)
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", limit)
	t.Setenv("WATCHDOG_PID", "")
	out := make(chan string, 1000)
	go func() {
		defer close(out)
		b := make([]byte, 4096)
		for n, err := c.Read(b); err == nil; n, err = c.Read(b) {
			select {
			case out <- string(b[:n]):
			default:
			}
		}
	}()
	return out
}

// A directory that nobody can read, not even root.
func TestWatchdogIsPingedWhileTheManifestDirectoryIsUnreadable(t *testing.T) {
	cfg := simulatedConfig(t)
	cfg.StaticPodPath = filepath.Join(t.TempDir(), "loop")
	must.OK(t, os.Symlink(cfg.StaticPodPath, cfg.StaticPodPath))
	states := pings(t, "60000")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	log := func(r slog.Record) {
		if strings.Contains(r.Message, "systemd") {
			t.Errorf("logged %q", r.Message)
		}
	}
	go func() { ended <- Run(ctx, cfg, slog.New(onRecord{slog.DiscardHandler, log})) }()
	const enough = 10
	deadline := time.After(time.Minute)
	for n := 0; n < enough; {
		select {
		case state := <-states:
			if state == "WATCHDOG=1" {
				n++
			}
		case <-deadline:
			t.Fatalf("%d pings, want %d: systemd kills the agent for a directory", n, enough)
		}
	}
	stop()
	must.OK(t, <-ended)
}

// onRecord is a log handler that calls do on each record.
type onRecord struct {
	slog.Handler
	do func(slog.Record)
}

func (w onRecord) Enabled(context.Context, slog.Level) bool      { return true }
func (w onRecord) WithAttrs([]slog.Attr) slog.Handler            { return w }
func (w onRecord) Handle(_ context.Context, r slog.Record) error { w.do(r); return nil }

func TestPodsOwnActorDoesNotStopThePings(t *testing.T) {
	all := map[messages.Ref]time.Time{
		messages.Pod("a"): {}, messages.Node: {}, messages.Runtime: {}, messages.Image: {}, messages.Source("file"): {},
	}
	rest := slices.Collect(maps.Keys(shared(all)))
	if hanging(shared(map[messages.Ref]time.Time{messages.Node: {}})) == nil {
		t.Error("an endless decision of node/0 does not count")
	}
	if len(rest) != 4 || slices.Contains(rest, messages.Pod("a")) {
		t.Errorf("%v", rest)
	}
}

func TestHungDeliveryStopsThePings(t *testing.T) {
	a := withHost(t)
	a.timers = timer.New(clock.Real{}, a.host.Outcome)
	a.calls = calls.New(calls.Options{})
	a.loops = a.newLoops()
	must.OK(t, a.alive())
	now := time.Now()
	a.dispatching.Now = func() time.Time { return now }
	a.dispatching.Begin()
	must.OK(t, a.alive())
	now = now.Add(2 * maxDecisionTime)
	if err := a.alive(); err == nil || !strings.Contains(err.Error(), "dispatch: has been delivering") {
		t.Errorf("%v", err)
	}
	defer a.dispatching.Wait()()
	must.OK(t, a.alive())
}
