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
	for list, want := range map[string]int{storage: 82, hostpath: 79} {
		specs, err := selected(t.Context(), "", options{list: list})
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
	if _, err := selected(t.Context(), "", options{list: "other"}); err == nil {
		t.Error("a list that does not exist is taken")
	}
	if _, err := selected(t.Context(), "", options{list: storage, only: "no such spec"}); err == nil {
		t.Error("an expression that matches no spec is taken: nothing would run, and nothing fail")
	}
}

// listing is a dry run's report of specs in CODE: their containers begin in lines 1 and 2, and line 2 is an ordered
// container.
const listing = `[{"SpecReports": [
	{"LeafNodeType": "BeforeSuite"},
	{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeText": "does something [Beta]",
		"ContainerHierarchyLocations": [{"FileName": "CODE", "LineNumber": 1}]},
	{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeText": "works [Conformance]",
		"ContainerHierarchyLocations": [{"FileName": "CODE", "LineNumber": 1}]},
	{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] Pods:", ""],
		"LeafNodeText": "run [Conformance] [NodeConformance]",
		"ContainerHierarchyLocations": [{"FileName": "CODE", "LineNumber": 1}]},
	{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": "resize [NodeConformance]",
		"ContainerHierarchyLocations": [{"FileName": "CODE", "LineNumber": 1}]},
	{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": "resize [NodeConformance]",
		"ContainerHierarchyLocations": [{"FileName": "CODE", "LineNumber": 1}]},
	{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] Init", "a pod"], "LeafNodeText": "runs (all)",
		"ContainerHierarchyLocations": [{"FileName": "CODE", "LineNumber": 1}, {"FileName": "CODE", "LineNumber": 2}]},
	{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] Init", "a pod"],
		"LeafNodeText": "has run [NodeConformance]",
		"ContainerHierarchyLocations": [{"FileName": "CODE", "LineNumber": 1}, {"FileName": "CODE", "LineNumber": 2}]}]}]`

func TestSpecsAreThoseWithUpstreamsLabel(t *testing.T) {
	dir := t.TempDir()
	program, code := filepath.Join(dir, "e2e.test"), filepath.Join(dir, "code.go")
	must.OK(t, os.WriteFile(code, []byte("Describe(\nWhen(\"a pod\", ginkgo.Ordered, func() {\n"), 0o600))
	must.OK(t, os.WriteFile(program, []byte(`#!/bin/sh
for a; do case $a in --ginkgo.json-report=*) report=${a#--ginkgo.json-report=};; esac; done
cat > "$report" <<'END'
`+strings.ReplaceAll(listing, "CODE", code)+"\nEND\n"), 0o700))
	const ordered = "[sig-node] Init a pod has run [NodeConformance]"
	for list, want := range map[string][]string{
		conformance: {"[sig-apps] Job works [Conformance]", "[sig-node] Pods: run [Conformance] [NodeConformance]"},
		nodes:       {"[sig-node] Pods resize [NodeConformance]", ordered},
	} {
		specs, err := selected(t.Context(), program, options{list: list})
		must.OK(t, err)
		var got []string
		for _, s := range specs {
			got = append(got, s.text)
			focus := regexp.MustCompile(s.focus(clusterSuite))
			if !focus.MatchString(clusterSuite + " " + s.text) {
				t.Errorf("the focus of %s does not match it", s.text)
			}
			if first := "[sig-node] Init a pod runs (all)"; focus.MatchString(clusterSuite+" "+first) != (s.text == ordered) {
				t.Errorf("%q is to run in the process of %q alone, not in that of %q", first, ordered, s.text)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", list, got, want)
		}
	}
}

// What one process runs is run again if one of its specs has not passed, and is started once.
func TestSpecsOfAnOrderedContainerRunInOneProcess(t *testing.T) {
	together := []string{"b1", "b2"}
	specs := []spec{{text: "a"}, {text: "b2", ordered: together}, {text: "c"}, {text: "b1", ordered: together}}
	var got []string
	for _, p := range inOneProcess(specs) {
		var texts []string
		for _, s := range p {
			texts = append(texts, s.text)
		}
		got = append(got, strings.Join(texts, " "))
	}
	if want := []string{"a", "b2 b1", "c"}; !slices.Equal(got, want) {
		t.Errorf("the processes are %q, want %q", got, want)
	}
	r := &results{Specs: map[string]storedResult{"a": {State: passed}, "b1": {State: passed}}}
	var missing []string
	for _, s := range r.missing(specs) {
		missing = append(missing, s.text)
	}
	if want := []string{"b2", "b1", "c"}; !slices.Equal(missing, want) {
		t.Errorf("%q are missing, want %q", missing, want)
	}
}

func TestSerialSpecsRunLastAndAlone(t *testing.T) {
	var specs []spec
	for line := range strings.Lines("a [Serial]\nb\nc [Disruptive]\nd\ne\n") {
		specs = append(specs, spec{text: strings.TrimSpace(line)})
	}
	// A spec that has passed does not run again, and the report of each has its name.
	dir := t.TempDir()
	program := filepath.Join(dir, "e2e.test")
	must.OK(t, os.WriteFile(program, []byte(`#!/bin/sh
for a; do case $a in
	--ginkgo.focus=*) text=${a#--ginkgo.focus=^Kubernetes e2e suite }; text=$(echo "${text%?}" | tr -d '\\');;
	--ginkgo.json-report=*) report=${a#--ginkgo.json-report=};;
esac; done
echo "$text" >> order
echo '[{"SpecReports": [{"LeafNodeType": "It", "LeafNodeText": "'"$text"'", "State": "passed"}]}]' > "$report"
`), 0o700))
	stored, err := openResults(options{program: program, out: dir, agent: kubelet}, program)
	must.OK(t, err)
	must.OK(t, stored.add([]result{{spec: spec{text: "d"}, state: passed}}))
	must.OK(t, stored.add([]result{{spec: spec{text: "e"}, state: "failed"}}))
	again, err := openResults(options{program: program, out: dir, agent: kubelet}, program)
	must.OK(t, err)
	r := runner{program: program, suite: clusterSuite, dir: dir, out: dir, workers: 1}
	must.OK(t, r.runAll(t.Context(), specs, again))
	order, err := os.ReadFile(filepath.Join(dir, "order"))
	must.OK(t, err)
	if got, want := string(order), "b\ne\na [Serial]\nc [Disruptive]\n"; got != want {
		t.Errorf("specs ran in the order %q, want %q", got, want)
	}
	if n := count(again.all(specs)); n != len(specs) {
		t.Errorf("%d of %d specs have passed: %+v", n, len(specs), again.Specs)
	}
	must.OK(t, os.WriteFile(program, []byte("another"), 0o700))
	other, err := openResults(options{program: program, out: dir, agent: kubelet}, program)
	must.OK(t, err)
	if len(other.Specs) != 0 {
		t.Errorf("what another program has passed counts: %+v", other.Specs)
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
	for _, list := range []string{conformance, nodes, storage, hostpath} {
		path := filepath.Join(t.TempDir(), "page.md")
		must.OK(t, writePage(path, list, "v1, containerd", "[Serial]", results))
		page, err := os.ReadFile(path)
		must.OK(t, err)
		pages[list] = string(page)
	}
	for list, title := range map[string]string{
		conformance: "# Conformance\n", nodes: "# Conformance of nodes\n",
		storage: "# Specs of CSI drivers\n", hostpath: "# Specs of a CSI driver with volumes\n",
	} {
		if !strings.Contains(pages[list], title) {
			t.Errorf("the page of %s lacks %q:\n%s", list, title, pages[list])
		}
	}
	page := pages[conformance]
	for _, want := range []string{"**1 of 2 passed.**", "specs that match `[Serial]`",
		`\[sig-node] B \| fails | failed | 0.0 | no &lt;pod>`,
		`\[sig-node] A works | passed | 1.0 | 2.0 |`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestEachSpecHasAFileOfItsOwn(t *testing.T) {
	long := strings.Repeat("a long text ", 30)
	has := map[string]string{}
	for _, text := range []string{"a b", "a_b", "a:b", long, long + "b", strings.ToUpper(long)} {
		name := fileName(text)
		if other, taken := has[name]; taken || len(name) > maxFileName {
			t.Errorf("%q and %q have the file %s", text, other, name)
		}
		has[name] = text
	}
}
