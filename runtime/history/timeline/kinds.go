package timeline

import (
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
)

// alerts reports whether an event by itself needs attention. What becomes one by what was before is marked where it is
// folded: an exit, which observations show again and again, and a start of the agent after a crash.
func alerts(e *journaletv1.Event) bool { return kind.Alerts(e) && e.GetPodObserved() == nil }

// turningPoint reports whether a person who reads a pod's history wants to see an event, though it is no alert.
func turningPoint(e *journaletv1.Event) bool { return kind.Severity(e) == kind.Progress }

// span formats a duration in at most about four figures.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return d.Round(time.Hour).String()
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
