package pleg

import (
	"strings"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestContainerStateOnlyAdvances(t *testing.T) {
	const (
		none    = journaletv1.ContainerState_CONTAINER_STATE_UNSPECIFIED
		created = journaletv1.ContainerState_CONTAINER_STATE_CREATED
		running = journaletv1.ContainerState_CONTAINER_STATE_RUNNING
		exited  = journaletv1.ContainerState_CONTAINER_STATE_EXITED
		unknown = journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN
	)
	for _, c := range []struct{ before, now, want journaletv1.ContainerState }{
		{none, created, created}, {none, exited, exited}, {created, running, running}, {created, exited, exited},
		{running, created, running}, {running, exited, exited}, {exited, running, exited}, {exited, created, exited},
		{exited, unknown, exited}, {running, unknown, unknown}, {unknown, running, running}, {unknown, created, unknown},
	} {
		if got := Advance(c.before, c.now); got != c.want {
			t.Errorf("%s then %s gives %s, want %s", c.before, c.now, got, c.want)
		}
	}
}

func TestTailOfLogReturnsText(t *testing.T) {
	const at = "2026-01-02T03:04:05.678901234Z"
	got := tailOfLog([]byte("05.6Z stdout F cut\n" + at + " stdout F one\n" + at + " stderr P tw\n" + at +
		" stderr F o\n\n"))
	if got != "one\ntwo\n" {
		t.Errorf("got %q", got)
	}
	var many strings.Builder
	for range 100 {
		many.WriteString(at + " stdout F x\n")
	}
	if got := tailOfLog([]byte(many.String())); strings.Count(got, "\n") != maxLogMessageLines {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
	if got := tailOfLog([]byte(at + " stdout F " + strings.Repeat("y", 9000) + "\n")); len(got) != maxLogMessageBytes {
		t.Errorf("%d bytes", len(got))
	}
}
