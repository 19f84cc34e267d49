package strict

import (
	"flag"
	"testing"
	"time"
)

var times = flag.Bool("strict.time", false, "hold what the tests measure to its time too: on a quiet machine only")

// Time reports whether -strict.time is given. A test asks it around an assertion that has no other form than a time.
func Time() bool { return *times }

// Within prints how long what took, and fails the test if that is longer than bound and -strict.time is given.
func Within(t testing.TB, what string, took, bound time.Duration) {
	t.Helper()
	if Time() && took > bound {
		t.Errorf("%s took %s, at most %s", what, took.Round(time.Millisecond), bound)
		return
	}
	t.Logf("%s took %s, strictly at most %s", what, took.Round(time.Millisecond), bound)
}
