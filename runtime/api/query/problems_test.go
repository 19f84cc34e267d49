package query

import (
	"fmt"
	"strings"
	"testing"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func TestProblemsOfManifestsAreListed(t *testing.T) {
	w := newTestAgent(t)
	a := source.New(messages.FileSource)
	files := []*journaletv1.ManifestFile{
		{Path: "a.yaml", Pods: []*journaletv1.PodRef{podRef("u1", "d", "web")}},
		{Path: "a.yaml~", Pods: []*journaletv1.PodRef{podRef("u2", "d", "web")}},
		{Path: "b.yaml", Problems: []*journaletv1.ManifestProblem{{Line: 3, Field: "spec", Message: "empty"}}},
	}
	for i := range maxProblems {
		files = append(files, &journaletv1.ManifestFile{
			Path: fmt.Sprintf("c%03d.yaml", i), Problems: []*journaletv1.ManifestProblem{{Message: "is wrong"}},
		})
	}
	read := messages.NewEvent(&journaletv1.ManifestsRead{Changed: files, HeldNamesStay: true})
	must.OK(t, a.Evolve(actors.Event{Body: read}))
	w.host.add(messages.Source(messages.FileSource), a)
	list, err := w.client(t).Problems(testContext(t))
	must.OK(t, err)
	if len(list.Problems) != maxProblems || list.More != 2 {
		t.Fatalf("%d problems and %d more", len(list.Problems), list.More)
	}
	first, second := list.Problems[0], list.Problems[1]
	if text := first.String(); first.Source != messages.FileSource || first.Code != "DuplicateName" ||
		!strings.HasPrefix(text, "a.yaml~: pod d/web is not run: the name d/web is taken by a.yaml") {
		t.Errorf("the ignored file: %q, %+v", text, first)
	}
	if text := second.String(); text != "b.yaml:3: spec: empty" {
		t.Errorf("the problem of a field: %q", text)
	}
}
