package must

import (
	"testing"
	"time"
)

// Until waits until a condition holds that says nothing about itself. After the limit it ends the test.
func Until(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	Eventually(t, limit, what, func() (string, bool) { return "not within " + limit.String(), holds() })
}

// Eventually waits until a condition holds. After the limit it ends the test with what cond last said.
func Eventually(t testing.TB, limit time.Duration, what string, cond func() (saw string, holds bool)) {
	t.Helper()
	for end := time.Now().Add(limit); ; <-time.After(time.Millisecond) {
		saw, holds := cond()
		if holds {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %s", what, saw)
		}
	}
}
