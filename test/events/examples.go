package events

import (
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/recording"
)

// maxExample bounds an example, in lines.
const maxExample = 40

// readExamples returns an event of each name from the recorded histories: the first of those with the most fields that
// the page has room for. authors are the kinds of actors that each is of.
func readExamples(t testing.TB, dir, node string) (
	examples map[string]messages.Flat, authors map[string]map[string]bool,
) {
	files, err := filepath.Glob(filepath.Join(dir, "*.records"))
	must.OK(t, err)
	examples, authors = map[string]messages.Flat{}, map[string]map[string]bool{}
	fields := map[string]int{}
	for _, file := range files {
		for _, rec := range recording.Records(t, file) {
			for _, f := range messages.Flatten(node, rec) {
				if authors[f.Event] == nil {
					authors[f.Event] = map[string]bool{}
				}
				kind, _, _ := strings.Cut(f.Author, "/")
				authors[f.Event][kind] = true
				if n := proto.Size(f.Message()); n > fields[f.Event] && fits(f) {
					examples[f.Event], fields[f.Event] = f, n
				}
			}
		}
	}
	return examples, authors
}

// fits reports whether the page has room for an example.
func fits(f messages.Flat) bool {
	lines := strings.Split(indented(f), "\n")
	for _, line := range lines {
		if len(line) > width {
			return false
		}
	}
	return len(lines) <= maxExample
}
