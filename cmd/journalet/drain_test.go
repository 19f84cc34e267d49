package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/test/must"
)

func TestDrainNamesWhatItWaitsFor(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)
	status := &query.DrainStatus{Drained: true, Pods: []query.DrainPod{
		{PodName: query.PodName{Namespace: "shop", Name: "done", UID: "u0"}, State: query.DrainEnded},
		{
			PodName: query.PodName{Namespace: "shop", Name: "web", UID: "u1"}, State: query.DrainEnds, GraceSeconds: 30,
			Until: now.Add(12 * time.Second), Waits: []query.PodWait{{What: "run the preStop hook of container main"}},
		},
		{PodName: query.PodName{Namespace: "shop", Name: "db", UID: "u2"}, Priority: 10, State: query.DrainWaits},
		{PodName: query.PodName{Namespace: "kube-system", Name: "dns", UID: "u3"}, State: query.DrainStays},
	}}
	var out bytes.Buffer
	p := &drainPicture{a: &app{out: &screen{&out}, now: func() time.Time { return now }}, status: status}
	p.paint()
	lines := strings.Split(out.String(), "\n")
	if want := "shop/web  0         12s         run the preStop hook of container main"; lines[1] != want {
		t.Errorf("the picture is\n%s\nwant the line\n%s", &out, want)
	}
	if !strings.Contains(out.String(), "1 wait for those, 1 system-critical stay") {
		t.Errorf("the picture is\n%s", &out)
	}
	if got, want := p.left(), "it waits for pod shop/web, and 1 end after that"; got != want {
		t.Errorf("left: %q, want %q", got, want)
	}
	out.Reset()
	must.OK(t, p.summary())
	if got := out.String(); !strings.HasPrefix(got, "node drained: 1 pods ended, 1 system-critical stay") {
		t.Errorf("summary: %q", got)
	}
}
