package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/test/must"
)

func TestAgentSetsItsOwnScore(t *testing.T) {
	a := &agent{cfg: config.Defaults(), log: slog.New(slog.DiscardHandler)}
	file := filepath.Join(t.TempDir(), "oom_score_adj")
	must.OK(t, os.WriteFile(file, []byte("0\n"), 0o600))
	a.setOOMScore(file)
	if got, err := os.ReadFile(file); err != nil || string(got) != "-999" {
		t.Errorf("the score is %q (%v), want -999", got, err)
	}
	a.setOOMScore(filepath.Join(t.TempDir(), "none", "oom_score_adj")) // refused: it starts all the same
}
