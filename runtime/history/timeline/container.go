package timeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// container folds what is recorded about one container, over all its instances.
type container struct {
	lane *Lane
	// waiting is the reason that the pod's status gives, doing the call under way, queued or not.
	waiting, doing string
	queued         bool
	// now is the newest instance; ended when the call that started it ended, zero once it was observed.
	now    *journaletv1.ContainerObservation
	ended  time.Time
	probed string // the instance whose probes were set last
}

func (p *pod) container(name string) *container {
	c := p.containers[name]
	if c == nil {
		c = &container{lane: p.group.lane("container", name, name, rankContainer)}
		p.containers[name] = c
	}
	return c
}

func (p *pod) showContainers(ev *Event) {
	over := p.phase == journaletv1.PodPhase_POD_PHASE_FAILED || p.phase == journaletv1.PodPhase_POD_PHASE_SUCCEEDED
	for _, name := range slices.Sorted(maps.Keys(p.containers)) {
		if over {
			p.containers[name].waiting = "" // for nothing any more
		}
		p.containers[name].show(ev)
	}
}

// failures are the reasons of a container that waits because something failed, except reasons that end in Error.
var failures = []string{"ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable",
	"SignatureValidationFailed"}

// show sets the lane to the container's state.
func (c *container) show(ev *Event) {
	state := c.now.GetState()
	exited := state == journaletv1.ContainerState_CONTAINER_STATE_EXITED
	running := state == journaletv1.ContainerState_CONTAINER_STATE_RUNNING
	attempt := ""
	if n := c.now.GetAttempt(); n > 0 {
		attempt = fmt.Sprintf(", attempt %d", n)
	}
	switch {
	case running && c.doing == "stopping":
		c.lane.set(ev, ClassStop, c.doing+attempt)
	case running:
		c.lane.set(ev, ClassOK, "running"+attempt)
	case c.doing != "" && c.queued:
		c.lane.set(ev, ClassWait, "queued: "+c.doing)
	case c.doing != "" && c.doing != "stopping":
		c.lane.set(ev, ClassBusy, c.doing)
	case strings.HasSuffix(c.waiting, "BackOff"):
		c.lane.set(ev, ClassBackOff, c.waiting+exitText(c.now))
	case strings.HasSuffix(c.waiting, "Error") || slices.Contains(failures, c.waiting):
		c.lane.set(ev, ClassFail, c.waiting)
	case c.waiting != "" && !exited:
		c.lane.set(ev, ClassWait, c.waiting)
	case exited && c.now.GetExitCode() == 0:
		c.lane.set(ev, ClassDone, "exited 0"+attempt)
	case exited:
		c.lane.set(ev, ClassFail, fmt.Sprintf("exited %d%s%s", c.now.GetExitCode(), reasonText(c.now), attempt))
	case state == journaletv1.ContainerState_CONTAINER_STATE_CREATED:
		c.lane.set(ev, ClassBusy, "created"+attempt)
	case state == journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN:
		c.lane.set(ev, ClassFail, "unknown state"+attempt)
	default:
		c.lane.close(ev)
	}
}

// exitText returns how an instance ended, such as " after exit 137 (OOMKilled)", "" if it has not.
func exitText(o *journaletv1.ContainerObservation) string {
	if o.GetState() != journaletv1.ContainerState_CONTAINER_STATE_EXITED {
		return ""
	}
	return fmt.Sprintf(" after exit %d%s", o.GetExitCode(), reasonText(o))
}

// reasonText returns the reason of an exit that the exit code does not imply.
func reasonText(o *journaletv1.ContainerObservation) string {
	if r := o.GetReason(); r != "" && r != "Error" && r != "Completed" {
		return " (" + r + ")"
	}
	return ""
}

// observed folds what the runtime shows of the pod.
func (p *pod) observed(ev *Event, o *journaletv1.PodObserved) {
	newest := map[string]*journaletv1.ContainerObservation{}
	for _, x := range o.GetContainers() {
		if had := newest[x.GetName()]; had == nil || had.GetAttempt() <= x.GetAttempt() {
			newest[x.GetName()] = x
		}
		p.container(x.GetName())
	}
	at := o.GetObservedAt().AsTime()
	for name, c := range p.containers {
		x := newest[name]
		if !c.ended.IsZero() && at.Before(c.ended) && x.GetId() != c.now.GetId() {
			continue // the inspection began before the start that is folded already
		}
		if ends(c.now, x) && x.GetExitCode() != 0 && c.doing != "stopping" && p.stops == "" {
			ev.Alert = true
		}
		c.now, c.ended = x, time.Time{}
	}
	p.showContainers(ev)
	p.sandbox.observed(p, ev, o)
}

// ends reports whether an observation shows the end of an instance that an earlier one did not. What the first one
// shows is no news.
func ends(was, is *journaletv1.ContainerObservation) bool {
	const exited = journaletv1.ContainerState_CONTAINER_STATE_EXITED
	return was != nil && is.GetState() == exited && (was.GetId() != is.GetId() || was.GetState() != exited)
}

// sandbox folds what is recorded about a pod's sandboxes.
type sandbox struct {
	doing  string
	queued bool
	now    *journaletv1.SandboxObservation
	ended  time.Time
	failed bool
}

func (s *sandbox) observed(p *pod, ev *Event, o *journaletv1.PodObserved) {
	var newest *journaletv1.SandboxObservation
	for _, x := range o.GetSandboxes() {
		if newest == nil || newest.GetAttempt() <= x.GetAttempt() {
			newest = x
		}
	}
	if !s.ended.IsZero() && o.GetObservedAt().AsTime().Before(s.ended) && newest.GetId() != s.now.GetId() {
		return
	}
	s.now, s.ended = newest, time.Time{}
	s.show(p, ev)
}

func (s *sandbox) show(p *pod, ev *Event) {
	lane := p.group.lane("sandbox", "", "sandbox", rankSandbox)
	state := s.now.GetState()
	attempt := ""
	if n := s.now.GetAttempt(); n > 0 {
		attempt = fmt.Sprintf(", attempt %d", n)
	}
	switch {
	case s.doing == "stopping" && state == journaletv1.SandboxState_SANDBOX_STATE_READY:
		lane.set(ev, ClassStop, s.doing)
	case s.doing != "" && s.queued:
		lane.set(ev, ClassWait, "queued: "+s.doing)
	case s.doing == "creating":
		lane.set(ev, ClassBusy, s.doing)
	case s.doing != "":
		lane.set(ev, ClassStop, s.doing)
	case s.failed:
		lane.set(ev, ClassFail, "failed")
	case state == journaletv1.SandboxState_SANDBOX_STATE_READY:
		lane.set(ev, ClassOK, "ready"+attempt)
	case state == journaletv1.SandboxState_SANDBOX_STATE_NOT_READY:
		lane.set(ev, ClassDone, "stopped"+attempt)
	default:
		lane.close(ev)
	}
}
