package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

const log = `
{"auditID":"1","verb":"patch","user":{"username":"system:node:a"},"objectRef":{"resource":"pods","subresource":"status"},"requestReceivedTimestamp":"2026-01-01T00:00:01.000000Z"}
{"auditID":"2","verb":"watch","user":{"username":"system:node:a"},"objectRef":{"resource":"configmaps"},"requestReceivedTimestamp":"2026-01-01T00:00:02.000000Z"}
{"auditID":"3","verb":"update","user":{"username":"system:node:a"},"objectRef":{"resource":"leases"},"requestReceivedTimestamp":"2026-01-01T00:00:02.500000Z"}
{"auditID":"2","verb":"watch","user":{"username":"system:node:a"},"objectRef":{"resource":"configmaps"},"requestReceivedTimestamp":"2026-01-01T00:00:02.000000Z"}
{"auditID":"4","verb":"patch","user":{"username":"system:node:b"},"objectRef":{"resource":"pods","subresource":"status"},"requestReceivedTimestamp":"2026-01-01T00:00:01.000000Z"}
{"auditID":"5","verb":"delete","user":{"username":"system:node:a"},"objectRef":{"resource":"pods"},"requestReceivedTimestamp":"2026-01-01T00:00:10.000000Z"}
{"auditID":"6","verb":"de`

func TestRequestsOfANodeAreCountedOnce(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	read := func(onlyPods bool, windows ...window) counts {
		c, err := count(strings.NewReader(strings.TrimSpace(log)), "system:node:a", onlyPods, windows...)
		must.OK(t, err)
		return c
	}
	all := counts{"pods/status patch": 1, "configmaps watch": 1, "leases update": 1}
	if got := read(false, window{at(0), at(10)}); !maps.Equal(got, all) || got.total() != 3 {
		t.Errorf("requests of ten seconds: %v, want %v", got, all)
	}
	ofPods := counts{"pods/status patch": 1, "pods delete": 1}
	if got := read(true, window{at(0), at(2)}, window{at(9), at(11)}); !maps.Equal(got, ofPods) {
		t.Errorf("requests of pods in two windows: %v, want %v", got, ofPods)
	}
}
