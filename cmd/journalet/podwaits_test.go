package main

import (
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/runtime/query"
)

func TestWhatAnEndingPodWaitsForIsShownWithItsAge(t *testing.T) {
	a, out := testApp()
	(&description{w: a.out, now: now, node: "node-1"}).pod(&query.PodReport{
		Pod: &somePods().Items[1],
		Waits: []query.PodWait{
			{What: "stop container main, grace 30s (pod removed)", Since: now.Add(-time.Hour), Cause: 1042},
			{What: "the turn of sidecar proxy, after all that started after it", Since: now.Add(-2 * time.Hour)},
		},
	})
	for _, want := range []string{"Its end waits for:", "60m    #1042   stop container main, grace 30s (pod removed)", "the turn of sidecar proxy"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not told in\n%s", want, out.String())
		}
	}
}

func TestWhatAPodWaitsForThatIsNotAdmittedIsNoEnd(t *testing.T) {
	a, out := testApp()
	(&description{w: a.out, now: now, node: "node-1"}).pod(&query.PodReport{
		Pod: &somePods().Items[1], Stage: "Admitting",
		Waits: []query.PodWait{{What: "the end of pod 1234, which has its name", Since: now.Add(-time.Minute)}},
	})
	if got := out.String(); strings.Contains(got, "Its end waits") || !strings.Contains(got, "It waits for:") || !strings.Contains(got, "which has its name") {
		t.Errorf("it says\n%s", got)
	}
}
