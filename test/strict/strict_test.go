package strict_test

import (
	"flag"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

// failures counts the errors of a test that is not run by itself.
type failures struct {
	testing.TB
	errors int
}

func (*failures) Helper()                 {}
func (*failures) Logf(string, ...any)     {}
func (f *failures) Errorf(string, ...any) { f.errors++ }

func TestTimesAreHeldOnlyWithTheFlag(t *testing.T) {
	for given, want := range map[string]int{"false": 0, "true": 1} {
		must.OK(t, flag.Set("strict.time", given))
		tb := &failures{TB: t}
		strict.Within(tb, "a long wait", 2*time.Second, time.Second)
		strict.Within(tb, "a short wait", time.Millisecond, time.Second)
		if tb.errors != want {
			t.Errorf("-strict.time=%s: %d errors, want %d", given, tb.errors, want)
		}
	}
	must.OK(t, flag.Set("strict.time", "false"))
}
