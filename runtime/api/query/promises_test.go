package query

import (
	"testing"

	"github.com/journalet/journalet/test/promises"
)

// TestSubjectsAreKept lists the subjects of requests, which follow journalet.<node>.
func TestSubjectsAreKept(t *testing.T) {
	var lines []string
	for _, e := range new(server).endpoints() {
		lines = append(lines, "request "+e.subject)
	}
	promises.Keep(t, "subjects", lines)
}
