package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestListsHaveEverySpecOnce(t *testing.T) {
	seen := map[string]bool{}
	for list, want := range map[string]int{nodes: 174, storage: 82, hostpath: 79} {
		specs, err := selected(list, "", "")
		must.OK(t, err)
		if len(specs) != want {
			t.Errorf("%s has %d specs, want %d", list, len(specs), want)
		}
		for _, s := range specs {
			if seen[s.text] {
				t.Errorf("%s is selected twice", s.text)
			}
			seen[s.text] = true
		}
	}
	if _, err := selected("other", "", ""); err == nil {
		t.Error("a list that does not exist is taken")
	}
	if _, err := selected(nodes, "no such spec", ""); err == nil {
		t.Error("an expression that matches no spec is taken: nothing would run, and nothing fail")
	}
}

func TestShardsHoldEverySpecAndAreFocusedOnTheirOwn(t *testing.T) {
	specs, err := selected(nodes, "", "")
	must.OK(t, err)
	shards := shard(specs, 4)
	focuses := make([]*regexp.Regexp, len(shards))
	for i, s := range shards {
		focuses[i] = regexp.MustCompile(focus(s))
	}
	for _, s := range specs {
		matched := 0
		for i, f := range focuses {
			if f.MatchString(suite+" "+s.text) != slices.Contains(shards[i], s) {
				t.Errorf("shard %d is not focused on its own specs: %s", i, s.text)
			}
			if f.MatchString(suite + " " + s.text) {
				matched++
			}
		}
		if matched != 1 {
			t.Errorf("%s is in %d shards", s.text, matched)
		}
	}
	if n := len(shard(specs[:2], 4)); n != 2 {
		t.Errorf("two specs are in %d shards, one would run everything", n)
	}
}

func TestReportDistinguishesSkippedFromNotInFocus(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	must.OK(t, os.WriteFile(file, []byte(`[{"SpecReports": [
		{"LeafNodeType": "BeforeSuite", "State": "passed"},
		{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] A"], "LeafNodeText": "works", "State": "passed",
			"RunTime": 1500000000},
		{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] B"], "LeafNodeText": "is elsewhere",
			"State": "skipped"},
		{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] C"], "LeafNodeText": "needs more",
			"State": "skipped", "Failure": {"Message": "two nodes\nare needed"}}]}]`), 0o600))
	got, err := read(file)
	must.OK(t, err)
	if len(got) != 2 || got["[sig-node] A works"].took != 1.5 || got["[sig-node] C needs more"].why != "two nodes" {
		t.Errorf("the report reads as %+v", got)
	}
}

func TestPageListsWhatDidNotPassFirst(t *testing.T) {
	results := []result{
		{spec: spec{text: "[sig-node] A works", seconds: 2}, state: passed, took: 1},
		{spec: spec{text: "[sig-node] B | fails"}, state: "failed", why: "no <pod>"},
	}
	pages := map[string]string{}
	for _, list := range []string{nodes, storage, hostpath} {
		path := filepath.Join(t.TempDir(), "page.md")
		must.OK(t, writePage(path, list, "v1, containerd", results))
		page, err := os.ReadFile(path)
		must.OK(t, err)
		pages[list] = string(page)
	}
	for list, title := range map[string]string{
		nodes: "# Conformance\n", storage: "# Specs of CSI drivers\n", hostpath: "# Specs of a CSI driver with volumes\n",
	} {
		if !strings.Contains(pages[list], title) {
			t.Errorf("the page of %s lacks %q:\n%s", list, title, pages[list])
		}
	}
	page := pages[nodes]
	for _, want := range []string{"**1 of 2 passed.**", `\[sig-node] B \| fails | failed | 0.0 | no &lt;pod>`,
		`\[sig-node] A works | passed | 1.0 | 2.0 |`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
