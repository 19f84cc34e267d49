package agent

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/test/must"
)

// podRunning returns a manifest of a pod with one container that runs a command.
func podRunning(name, policy, command string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  restartPolicy: %s\n  containers:\n"+
		"  - {name: main, image: busybox, command: [sh, -c, %q]}\n", name, policy, command)
}

func TestRunOnceEndsWithItsPods(t *testing.T) {
	for name, c := range map[string]struct {
		files   map[string]string
		timeout time.Duration
		want    string // empty: success
	}{
		"no manifest": {},
		"job and service": {files: map[string]string{
			"job": podRunning("job", "Never", "exit 0"), "service": podRunning("service", "Always", "sleep 1000"),
			"again": podRunning("again", "OnFailure", "exit 0")}},
		"failed job": {files: map[string]string{
			"job": podRunning("job", "Never", "exit 3"), "good": podRunning("good", "Never", "exit 0")},
			want: "1 failed:\n  default/job-node-1: Failed"},
		"refused manifest": {files: map[string]string{
			"bad": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "good": podRunning("good", "Never", "exit 0")},
			want: "bad:1: spec"},
		"rejected by the node": {files: map[string]string{
			"huge": strings.Replace(podRunning("huge", "Always", "sleep 1000"), "image: busybox",
				"image: busybox, resources: {requests: {cpu: 9999}}", 1)},
			want: "OutOfcpu"},
		"two pods of one name": {files: map[string]string{
			"a": podRunning("same", "Never", "exit 0"), "b": podRunning("same", "Never", "exit 0")},
			want: "same-node-1"},
		"out of time": {files: map[string]string{"job": podRunning("job", "Never", "sleep 1000")},
			timeout: time.Second, want: "default/job-node-1: is not done within --once-timeout: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for limit := c.timeout; ; limit *= 2 { // a slow machine may not have read its manifests at the first
				cfg := simulatedConfig(t)
				cfg.Once, cfg.OnceTimeout = true, limit
				for file, text := range c.files {
					must.OK(t, os.WriteFile(filepath.Join(cfg.StaticPodPath, file), []byte(text), 0o600))
				}
				err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler))
				if c.want == "" && err == nil || c.want != "" && err != nil && strings.Contains(err.Error(), c.want) {
					return
				}
				if limit == 0 || limit > time.Minute {
					t.Fatalf("got %v, want %q", err, c.want)
				}
			}
		})
	}
}

// A pod that has ended is not run again: the next run reports the same.
func TestRunOnceAgainReportsTheSame(t *testing.T) {
	cfg := simulatedConfig(t)
	cfg.Once = true
	must.OK(t, os.WriteFile(filepath.Join(cfg.StaticPodPath, "job"), []byte(podRunning("job", "Never", "exit 3")), 0o600))
	for range 2 {
		if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), "job-node-1: Failed") {
			t.Error(err)
		}
	}
}

// A file that is new or gone since the last run counts before that run ends.
func TestRunOnceReadsItsSourcesFirst(t *testing.T) {
	cfg := simulatedConfig(t)
	cfg.Once = true
	file := filepath.Join(cfg.StaticPodPath, "new")
	must.OK(t, Run(t.Context(), cfg, slog.New(slog.DiscardHandler)))
	must.OK(t, os.WriteFile(file, []byte(podRunning("new", "Never", "exit 3")), 0o600))
	if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a new pod that fails is passed over")
	}
	must.OK(t, os.Remove(file))
	must.OK(t, Run(t.Context(), cfg, slog.New(slog.DiscardHandler)))
	s, err := bus.OpenShared(t.Context(), filepath.Join(cfg.RootDir, "bus"))
	must.OK(t, err)
	forgotten := false
	for seq, last := s.Bounds(); seq <= last; seq++ {
		rec, err := s.Get(t.Context(), seq)
		must.OK(t, err)
		for _, e := range rec.GetStep().GetDecisions() {
			forgotten = forgotten || e.GetPodForgotten() != nil
		}
	}
	if !forgotten {
		t.Error("the run ended before the removed pod was gone")
	}
}

// The containers of the simulated runtime end with each run: a pod that was ready is not done before it is so again.
func TestRunOnceDoesNotTrustAnEarlierRun(t *testing.T) {
	cfg := simulatedConfig(t)
	cfg.Once = true
	must.OK(t, os.WriteFile(filepath.Join(cfg.StaticPodPath, "service"),
		[]byte(podRunning("service", "Always", "sleep 1000")), 0o600))
	for run := 1; run <= 2; run++ {
		must.OK(t, Run(t.Context(), cfg, slog.New(slog.DiscardHandler)))
		s, err := bus.OpenShared(t.Context(), filepath.Join(cfg.RootDir, "bus"))
		must.OK(t, err)
		starts := 0
		for seq, last := s.Bounds(); seq <= last; seq++ {
			rec, err := s.Get(t.Context(), seq)
			must.OK(t, err)
			if rec.GetFact().GetCallFinished().GetContainerId() != "" {
				starts++
			}
		}
		if starts != run {
			t.Errorf("%d starts after %d runs", starts, run)
		}
	}
}
