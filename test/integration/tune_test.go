//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/preflight"
	"github.com/journalet/journalet/runtime/tune"
	"github.com/journalet/journalet/test/must"
)

// The lab's containerd judges the drop-in on a copy of its configuration, and is not restarted.
func TestContainerdFindsThatTheDropInChangesNothingElse(t *testing.T) {
	cfg := config.Defaults()
	cfg.ContainerRuntimeEndpoint = os.Getenv(endpointVariable)
	c, err := preflight.Containerd(cfg, "")
	must.OK(t, err)
	data, err := os.ReadFile(c.Config)
	must.OK(t, err)
	text := "imports = [\"conf.d/*.toml\"]\n"
	for line := range strings.Lines(string(data)) {
		if !strings.Contains(line, "stats_collect_period") {
			text += line
		}
	}
	c.Config = filepath.Join(t.TempDir(), "config.toml")
	must.OK(t, os.WriteFile(c.Config, []byte(text), 0o600))
	period := func() tune.Settings {
		t.Helper()
		s, err := c.Settings(t.Context())
		must.OK(t, err)
		return s
	}
	if s := period(); !s.Sampling() {
		t.Fatalf("before: %+v", s)
	}
	fix, err := c.Fix(t.Context())
	must.OK(t, err)
	must.OK(t, fix.Apply(t.Context()))
	if s := period(); s.Sampling() || !s.Samples {
		t.Errorf("with the drop-in: %+v", s)
	}
	undo, err := c.Undo()
	must.OK(t, err)
	must.OK(t, undo.Apply(t.Context()))
	if s := period(); !s.Sampling() {
		t.Errorf("without it again: %+v", s)
	}
}
