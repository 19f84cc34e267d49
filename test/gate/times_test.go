package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestTestsWithTimesAreFoundThroughTheirHelpers(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a_test.go": "package a\nfunc TestTimed(t *T) { strict.Within(t, \"\", 1, 2) }\nfunc TestOther(t *T) { other(t) }\n",
		"b_test.go": "package a\nfunc TestFar(t *T) { near(t) }\nfunc near(t *T) { end(t) }\n" +
			"func end(t *T) { if strict.Time() { t.Fail() } }\nfunc other(t *T) {}\n",
		"c.go": "package a\nfunc TestNone() { strict.Time() }\n",
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	got, err := testsWithTimes(dir)
	must.OK(t, err)
	if want := []string{"TestFar", "TestTimed"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
