package oom

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestScoreIsWrittenOnlyIfItDiffers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "oom_score_adj")
	must.OK(t, os.WriteFile(file, []byte("0\n"), 0o600))
	must.OK(t, SetScore(file, -999))
	if got, err := os.ReadFile(file); err != nil || string(got) != "-999" {
		t.Errorf("the score is %q (%v), want -999", got, err)
	}
	must.OK(t, os.WriteFile(file, []byte("-999\n"), 0o600))
	must.OK(t, SetScore(file, -999))
	if got, err := os.ReadFile(file); err != nil || string(got) != "-999\n" {
		t.Errorf("the same score was written again: %q (%v)", got, err)
	}
	if SetScore(filepath.Join(t.TempDir(), "none", "oom_score_adj"), -999) == nil {
		t.Error("a score that cannot be written is no error")
	}
}
