package describe

import (
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func probeEvent(kind journaletv1.ProbeKind, ok bool, message string) *ev {
	return &ev{Kind: &journaletv1.Event_ProbeResult{ProbeResult: &journaletv1.ProbeResult{
		Uid: "a", Container: "main", Kind: kind, Success: ok, Message: message,
	}}}
}

func TestProbesAreDescribedInShortLines(t *testing.T) {
	both := []journaletv1.ProbeKind{journaletv1.ProbeKind_PROBE_KIND_LIVENESS, journaletv1.ProbeKind_PROBE_KIND_READINESS}
	for want, e := range map[string]*ev{
		"started the Liveness and the Readiness probe of container main": {Kind: &journaletv1.Event_ProbesSet{
			ProbesSet: &journaletv1.ProbesSet{Container: "main", Kinds: both}}},
		"stopped the probes of container main": {Kind: &journaletv1.Event_ProbesSet{
			ProbesSet: &journaletv1.ProbesSet{Container: "main"}}},
		"Startup probe of container main succeeded": probeEvent(journaletv1.ProbeKind_PROBE_KIND_STARTUP, true, ""),
		"container main: Readiness probe failed: HTTP probe failed with statuscode: 500": probeEvent(
			journaletv1.ProbeKind_PROBE_KIND_READINESS, false, "Readiness probe failed: HTTP probe failed with statuscode: 500"),
	} {
		if got := New().Describe("", messages.Pod("a"), e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestFailedProbesAndWarningsAreEventsOfThePod(t *testing.T) {
	p := NewPodEvents(messages.Pod("a"))
	for i, e := range []*ev{
		probeEvent(journaletv1.ProbeKind_PROBE_KIND_READINESS, true, ""),
		probeEvent(journaletv1.ProbeKind_PROBE_KIND_READINESS, false, "Readiness probe failed: it does"),
		probeEvent(journaletv1.ProbeKind_PROBE_KIND_READINESS, true, "Readiness probe warning: Probe terminated redirects"),
	} {
		p.Add(&journaletv1.Record{Seq: uint64(i + 1)}, "", e)
	}
	if len(p.list) != 2 {
		t.Fatalf("events: %v", p.list)
	}
	for i, want := range []PodEvent{
		{Seq: 2, Type: "Warning", Reason: "Unhealthy", Message: "container main: Readiness probe failed: it does"},
		{Seq: 3, Type: "Warning", Reason: "ProbeWarning",
			Message: "container main: Readiness probe warning: Probe terminated redirects"},
	} {
		if p.list[i].Time = want.Time; p.list[i] != want {
			t.Errorf("%+v, want %+v", p.list[i], want)
		}
	}
}
