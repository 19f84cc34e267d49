// Package must ends a test at an error that the test is not about, or at an event that does not come. What a test is
// about it compares by itself, with a message that says what was wanted. It is imported by tests alone, and imports
// nothing of the module.
package must

import "testing"

// OK ends the test with err, unless it is nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
