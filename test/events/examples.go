package events

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// maxExample bounds an example, in lines.
const maxExample = 40

// readRecords returns the records of a recorded history.
func readRecords(path string) (recs []*journaletv1.Record, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		rec := &journaletv1.Record{}
		if err := protodelim.UnmarshalFrom(r, rec); errors.Is(err, io.EOF) {
			return recs, nil
		} else if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
}

// readExamples returns an event of each name from the recorded histories: the first of those with the most fields that
// the page has room for. authors are the kinds of actors that each is of.
func readExamples(dir, node string) (examples map[string]messages.Flat, authors map[string]map[string]bool, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.records"))
	if err != nil {
		return nil, nil, err
	}
	examples, authors = map[string]messages.Flat{}, map[string]map[string]bool{}
	fields := map[string]int{}
	for _, file := range files {
		recs, err := readRecords(file)
		if err != nil {
			return nil, nil, err
		}
		for _, rec := range recs {
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
	return examples, authors, nil
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
