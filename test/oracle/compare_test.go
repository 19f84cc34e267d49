package oracle

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// both is a comparer whose sides differ where two keys stand in the case.
var both = comparer{name: "test", share: 100, compare: func(c *testCase) {
	tree := map[string]any{}
	if yaml.Unmarshal([]byte(c.text), &tree) == nil && tree["a"] != nil && tree["b"] != nil {
		c.differs("a and b", "here", "not here")
	}
}}

func TestADifferenceIsToldWithAsLittleAsItTakes(t *testing.T) {
	tally := newTally("test")
	both.do(&testCase{name: "made up", text: "a: {x: 1, y: [1, 2]}\nb: 2\nc: [3]\n", tally: tally})
	news := tally.news(both, nil)
	if len(news) != 1 {
		t.Fatalf("one difference expected, got %q", news)
	}
	if strings.Contains(news[0], "c:") || strings.Contains(news[0], "x:") || !strings.Contains(news[0], "b: 2") {
		t.Errorf("not as short as it can be:\n%s", news[0])
	}
	if left := tally.news(both, map[string]string{"test: a and*": "meant"}); len(left) != 0 {
		t.Errorf("a known difference was told: %q", left)
	}
}

func TestAnEntryStandsForItselfOrForAllThatBeginLikeIt(t *testing.T) {
	list := map[string]string{"x: a": "exact", "x: b*": "all"}
	for key, want := range map[string]string{"x: a": "x: a", "x: ab": "", "x: b": "x: b*", "x: bc": "x: b*", "y": ""} {
		if got := entryOf(list, key); got != want {
			t.Errorf("%q belongs to %q, got %q", key, want, got)
		}
	}
}

func TestASideThatFailsIsADifference(t *testing.T) {
	tally := newTally("test")
	broken := comparer{name: "test", compare: func(*testCase) { panic("no verdict") }}
	broken.do(&testCase{name: "any", text: "{}", tally: tally})
	if len(tally.found) != 1 {
		t.Errorf("found %v", tally.found)
	}
}

func TestAPathBelowAnotherIsCoveredByIt(t *testing.T) {
	theirs := map[string]string{"spec.containers[0].env[0].valueFrom.fieldRef": ""}
	if !covered("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", theirs) || covered("spec.containers[0].env[0].valueFrom.fieldRefs", theirs) {
		t.Error("below means below, and not to begin alike")
	}
}
