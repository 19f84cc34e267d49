package pod

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// activeDeadlineTimer ends a pod that was active for too long. The seconds follow it in the timer's name, so that a
// manifest with others sets another timer.
const activeDeadlineTimer = "active deadline "

// ReasonDeadline is the status reason of such a pod (pkg/kubelet/active_deadline.go), messageDeadline its message.
const (
	ReasonDeadline  = "DeadlineExceeded"
	messageDeadline = "Pod was active on the node longer than the specified deadline"
)

// deadline ends the pod whose activeDeadlineSeconds, counted from its start, have passed, or waits for them to pass.
// The manifest bounds them to 68 years. passed reports whether the pod is ending.
func (d *step) deadline() (passed bool) {
	seconds := d.manifest.Spec.ActiveDeadlineSeconds
	name := ""
	if seconds != nil {
		name = activeDeadlineTimer + strconv.FormatInt(*seconds, 10)
	}
	for _, set := range slices.Sorted(maps.Keys(d.state.GetTimers().GetSet())) {
		if strings.HasPrefix(set, activeDeadlineTimer) && set != name {
			d.clearTimer(set)
		}
	}
	if seconds == nil {
		return false
	}
	// A timer that has fired counts even if the clock was set back since it was set.
	fired := d.fired(name) && d.state.GetTimers().GetSet()[name] == nil
	if left := d.left(d.state.GetAdmittedAt(), time.Duration(*seconds)*time.Second); left > 0 && !fired {
		d.timer(name, left)
		return false
	}
	d.decide(&journaletv1.PodTerminating{
		Reason: ReasonDeadline, Message: messageDeadline, Failed: true,
	})
	return true
}
