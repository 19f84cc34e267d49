package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestKeptOutPodsAreBounded(t *testing.T) {
	f := &journaletv1.ManifestFile{Path: "f"}
	add := func(pod string) { f.Problems = append(f.Problems, &journaletv1.ManifestProblem{Pod: pod}) }
	for i := range 2 * maxKeptOut {
		add(fmt.Sprintf("default/p%04d", i))
		add(fmt.Sprintf("default/p%04d", i)) // two problems of one pod
	}
	add("") // the whole file
	add("default/" + strings.Repeat("a", maxFullName))
	got := keptOut(&journaletv1.SourceState{Files: map[string]*journaletv1.ManifestFile{"f": f}})
	if len(got) != maxKeptOut || got[0] != "default/p0000" || got[maxKeptOut-1] != "default/p0999" {
		t.Errorf("%d pods, from %s to %s", len(got), got[0], got[len(got)-1])
	}
}
