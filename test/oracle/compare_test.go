package oracle

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// twoKeys is a comparer whose sides differ if the case has two keys.
var twoKeys = comparer{name: "test", share: 100, compare: func(c *testCase) {
	tree := map[string]any{}
	if yaml.Unmarshal([]byte(c.text), &tree) == nil && tree["a"] != nil && tree["b"] != nil {
		c.differs("a and b", "present", "absent")
	}
}}

func TestDifferenceIsReportedWithTheShortestCase(t *testing.T) {
	tally := newTally(comparer{name: "test"})
	twoKeys.do(&testCase{name: "generated", text: "a: {x: 1, y: [1, 2]}\nb: 2\nc: [3]\n", tally: tally})
	list := tally.unknown(twoKeys, nil)
	if len(list) != 1 {
		t.Fatalf("%d differences, want 1: %q", len(list), list)
	}
	if strings.Contains(list[0], "c:") || strings.Contains(list[0], "x:") || !strings.Contains(list[0], "b: 2") {
		t.Errorf("not as short as possible:\n%s", list[0])
	}
	if left := tally.unknown(twoKeys, map[string]meant{"test: a and b": {}}); len(left) != 0 {
		t.Errorf("a known difference was reported: %q", left)
	}
}

func TestPanicOfASideIsADifference(t *testing.T) {
	tally := newTally(comparer{name: "test"})
	broken := comparer{name: "test", compare: func(*testCase) { panic("no verdict") }}
	broken.do(&testCase{name: "any", text: "{}", tally: tally})
	if len(tally.found) != 1 {
		t.Errorf("found %v", tally.found)
	}
}

func TestPathCoversOnlyPathsBelowIt(t *testing.T) {
	const path = "spec.containers[0].env[0].valueFrom.fieldRef"
	theirs := map[string]string{path: ""}
	if !covered(path+".fieldPath", theirs) || covered(path+"s", theirs) {
		t.Error("a path must cover those below it, and not those with the same beginning")
	}
}
