package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/history/why"
)

func TestWhyShowsARecordAsTextAndAsJSON(t *testing.T) {
	root := agentRoot(t)
	code, out, errs := run(t.Context(), "why", "#2", "--root-dir", root)
	if code != exitOK || !strings.Contains(out, "#2") || !strings.Contains(out, "agent stopped: test") ||
		!strings.Contains(out, "the agent was stopped") {
		t.Errorf("text: %d\n%s%s", code, out, errs)
	}
	code, out, errs = run(t.Context(), "why", "2", "-o", "json", "--journal", root)
	var a why.Answer
	if err := json.Unmarshal([]byte(out), &a); err != nil || code != exitOK || a.Seq != 2 || len(a.Chains) != 1 ||
		a.Chains[0].End.Kind != why.Stopped {
		t.Errorf("JSON: %d, %v\n%s%s", code, err, out, errs)
	}
}
