package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/describe"
)

// The names of the pod's timers (actors/pod).
const (
	backOffTimer = "back-off "
	startTimer   = "start "
	sandboxTimer = "sandbox"
	volumeTimer  = "volume "
	claimsTimer  = "claims"
)

// problems explains what an admitted pod lacks to be ready, in the order of its start.
func (s *subject) problems(a *Answer) {
	s.restartingAll(a)
	s.claims(a)
	s.sandbox(a)
	s.volumes(a)
	for _, name := range s.containers {
		if s.ephemeral(name) {
			continue // nothing waits for it
		}
		s.container(a, name)
		if s.inits[name] && a.Because != "" {
			return // what comes after an init container waits for it
		}
	}
	if c := s.state.GetConditions()["Ready"]; c.GetReason() == "ReadinessGatesNotReady" {
		s.add(a, s.log.last(s.at+1, 0, func(e *Event) bool { return e.Body.GetReadinessGatesRead().GetUid() == s.uid }), "")
		a.because("its containers are ready, and its readiness gates are not: %s", oneLine(c.GetMessage()))
	}
}

// ephemerals explains the ephemeral containers that have not run yet, beside the pod's own state.
func (s *subject) ephemerals(a *Answer) {
	for _, name := range s.containers {
		cur := s.state.GetContainers()[name].GetCurrent()
		ran := cur != nil && cur.GetState() != journaletv1.ContainerState_CONTAINER_STATE_CREATED
		if !s.ephemeral(name) || ran {
			continue
		}
		var own Answer
		s.container(&own, name)
		a.Reasons = append(a.Reasons, own.Reasons...)
		if own.Because == "" {
			continue
		}
		why := "its ephemeral container " + name + " does not run: " + own.Because
		if a.Because != "" {
			why = a.Because + "; " + why
		}
		a.Because = why
		if !own.Until.IsZero() {
			a.until(own.Until, own.UntilWhat)
		}
	}
}

// timer returns a timer of the pod that is set, and the decision that set it.
func (s *subject) timer(name string) (*journaletv1.Timer, *Event) {
	t := s.state.GetTimers().GetSet()[name]
	if t == nil {
		return nil, nil
	}
	return t, s.log.last(s.at+1, 0, func(e *Event) bool {
		set := e.Body.GetTimerSet()
		return set.GetName() == name && set.GetGeneration() == t.GetGeneration() && e.Author == messages.Pod(s.uid)
	})
}

func firesAt(t *journaletv1.Timer) time.Time {
	return t.GetSetAt().AsTime().Add(t.GetDuration().AsDuration())
}

// sandbox explains why the pod has no sandbox.
func (s *subject) sandbox(a *Answer) {
	if s.state.GetSandboxId() != "" {
		return
	}
	run := func(c *journaletv1.CallRequested) bool { return c.GetRunSandbox() != nil }
	if failed := s.failedCall(run); failed != nil && s.state.GetSandboxFailures() > 0 {
		a.because("its sandbox cannot be created: %s; %s so far", failureText(failed.Body.GetCallFinished()),
			describe.Count(int(s.state.GetSandboxFailures()), "failure"))
		s.add(a, failed, "")
	}
	if t, set := s.timer(sandboxTimer); t != nil {
		a.because("its sandbox has ended, and the next one waits")
		a.until(firesAt(t), "next attempt")
		s.add(a, set, fmt.Sprintf("waits %s before the next sandbox", short(t.GetDuration().AsDuration())))
	}
	s.underWay(a, "", run, "its sandbox is being created")
	s.underWay(a, "", func(c *journaletv1.CallRequested) bool { return c.GetStopSandbox() != nil },
		"its dead sandbox is being stopped")
}

// container explains why a container does not run, or is not ready.
func (s *subject) container(a *Answer, name string) {
	r := s.state.GetContainers()[name]
	cur := r.GetCurrent()
	if s.inits[name] && cur.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED && cur.GetExitCode() == 0 &&
		r.GetWaiting() == nil {
		return
	}
	switch {
	case s.state.GetTimers().GetSet()[backOffTimer+name] != nil:
		s.crashLoop(a, name, r)
	case s.pull(a, name, r):
	case s.missing(a, name):
	case r.GetStartError() != nil:
		s.startError(a, name, r)
	case s.startsAgain(a, name, cur):
	case s.underWay(a, name, ofContainer(name), ""):
		s.before(a, r)
	case cur.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING:
		s.probes(a, name, r)
	case cur.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED:
		s.exit(a, cur)
		a.because("container %s has ended: %s", name, s.endText(cur))
	}
}

// startsAgain explains a container that has ended and is being started again. It reports whether it is.
func (s *subject) startsAgain(a *Answer, name string, cur *journaletv1.ContainerObservation) bool {
	if cur.GetState() != journaletv1.ContainerState_CONTAINER_STATE_EXITED {
		return false
	}
	again := "container " + name + " is being started again: " + s.endText(cur)
	if !s.underWay(a, name, func(c *journaletv1.CallRequested) bool {
		return c.GetStartContainer().GetContainer() == name
	}, again) {
		return false
	}
	s.exit(a, cur)
	return true
}

// restartingAll explains a pod whose containers are all being restarted.
func (s *subject) restartingAll(a *Answer) {
	k := s.state.GetAllContainersRestarting()
	if k == nil {
		return
	}
	began := s.log.last(s.at+1, 0, func(e *Event) bool {
		r := e.Body.GetAllContainersRestarting()
		return r.GetContainerId() == k.GetContainerId() && !r.GetAllStopped()
	})
	s.addOrigin(a, began)
	s.add(a, began, "")
	why := "all its containers are being restarted, by a restart rule of container " + k.GetContainer()
	if cur := s.state.GetContainers()[k.GetContainer()].GetCurrent(); cur.GetId() == k.GetContainerId() {
		why += ", which " + exitText(cur)
	}
	a.because("%s", why)
}

// ofContainer matches the calls of a container.
func ofContainer(name string) func(*journaletv1.CallRequested) bool {
	return func(c *journaletv1.CallRequested) bool {
		return c.GetStartContainer().GetContainer() == name || c.GetStopContainer().GetContainer() == name ||
			c.GetRunHook().GetContainer() == name || c.GetPreStartContainer().GetContainer() == name
	}
}

// crashLoop explains a container that waits for the end of its back-off.
func (s *subject) crashLoop(a *Answer, name string, r *journaletv1.ContainerRecord) {
	t, set := s.timer(backOffTimer + name)
	cur := r.GetCurrent()
	restarts := cur.GetAttempt()
	s.before(a, r)
	s.exit(a, cur)
	s.add(a, set, fmt.Sprintf("back-off %s before restart %d of container %s, counted from its exit",
		r.GetBackOff().GetDelay().AsDuration(), restarts+1, name))
	a.because("container %s is in CrashLoopBackOff: %s; %s so far", name, s.endText(cur),
		describe.Count(int(restarts), "restart"))
	a.until(firesAt(t), "next start")
}

// before adds how the instance before the newest one ended.
func (s *subject) before(a *Answer, r *journaletv1.ContainerRecord) {
	if last := r.GetLast(); last != nil && last.GetId() != r.GetCurrent().GetId() {
		s.exit(a, last)
	}
}

// pull explains a container that waits for its image, or for the image of a volume. It reports whether the container
// does.
func (s *subject) pull(a *Answer, name string, r *journaletv1.ContainerRecord) bool {
	image := ""
	if spec := s.spec(name); r.GetImageRequested() && spec != nil {
		image = spec.Image
	}
	for _, reference := range slices.Sorted(maps.Keys(r.GetVolumeImages())) {
		if image == "" && r.GetVolumeImages()[reference].GetRequested() {
			image = reference
		}
	}
	if image == "" {
		return false
	}
	same := func(e *Event) bool { return e.image() == image }
	requested := s.log.last(s.at+1, 0, func(e *Event) bool { return e.Body.GetImagePullRequested() != nil && same(e) })
	if requested == nil {
		return false
	}
	attempts := 0
	var failed *Event
	s.log.last(s.at+1, requested.Seq, func(e *Event) bool {
		if e.Body.GetImagePullDecided().GetUid() == s.uid && same(e) {
			if failed == nil {
				at := *e
				failed = &at
			}
			attempts++
		}
		return false
	})
	s.add(a, requested, "")
	if failed == nil {
		a.becauseSince(requested.Time, "image %s of container %s is being pulled", image, name)
		return true
	}
	d := failed.Body.GetImagePullDecided()
	s.add(a, failed, "")
	a.because("image %s of container %s cannot be pulled: %s; %s failed", image, name,
		errorText(d.GetError(), d.GetMessage()), describe.Count(attempts, "attempt"))
	if after := d.GetRetryAfter().AsDuration(); after > 0 {
		a.until(failed.Time.Add(after), "next attempt")
	}
	return true
}

// startError explains a container whose last start failed.
func (s *subject) startError(a *Answer, name string, r *journaletv1.ContainerRecord) {
	failed := s.failedCall(func(c *journaletv1.CallRequested) bool {
		return c.GetStartContainer().GetContainer() == name || c.GetRunHook().GetContainer() == name ||
			c.GetPreStartContainer().GetContainer() == name
	})
	s.before(a, r)
	s.add(a, failed, "")
	why := r.GetStartError()
	a.because("container %s cannot be started: %s", name, text(why.GetReason(), why.GetMessage()))
	if t, set := s.timer(startTimer + name); t != nil {
		a.until(firesAt(t), "next attempt")
		s.add(a, set, fmt.Sprintf("waits %s before the next start of container %s, after %s",
			short(t.GetDuration().AsDuration()), name, describe.Count(int(r.GetStartFailures()), "failed start")))
	}
	s.underWay(a, name, ofContainer(name), "")
}

// probes explains a running container that is not ready.
func (s *subject) probes(a *Answer, name string, r *journaletv1.ContainerRecord) {
	p := r.GetProbes()
	if p.GetContainerId() != r.GetCurrent().GetId() {
		p = nil
	}
	if r.GetCurrent().GetStartedAt() == nil {
		a.because("container %s was started and is not observed yet", name)
		return
	}
	results := []*journaletv1.ProbeResult{p.GetStartup(), p.GetLiveness(), p.GetReadiness()}
	for _, result := range results {
		if result != nil && !result.GetSuccess() {
			s.add(a, s.resultOf(result), "")
			a.because("%s probe of container %s fails: %s", probeName(result.GetKind()), name, probeText(result))
		}
	}
	for _, kind := range p.GetKinds() {
		none := kind == journaletv1.ProbeKind_PROBE_KIND_READINESS && p.GetReadiness() == nil ||
			kind == journaletv1.ProbeKind_PROBE_KIND_STARTUP && p.GetStartup() == nil
		if none {
			set := s.log.last(s.at+1, 0, func(e *Event) bool {
				return e.Body.GetProbesSet().GetContainerId() == p.GetContainerId() && len(e.Body.GetProbesSet().GetKinds()) > 0
			})
			s.add(a, set, "")
			a.because("%s probe of container %s has not succeeded yet", probeName(kind), name)
		}
	}
}

func probeName(k journaletv1.ProbeKind) string {
	return strings.ToLower(describe.Enum(k.String(), "PROBE_KIND_"))
}

// resultOf returns the record of a probe's result.
func (s *subject) resultOf(r *journaletv1.ProbeResult) *Event {
	return s.log.last(s.at+1, 0, func(e *Event) bool {
		p := e.Body.GetProbeResult()
		return p.GetContainerId() == r.GetContainerId() && p.GetKind() == r.GetKind() && p.GetSuccess() == r.GetSuccess() &&
			p.GetMessage() == r.GetMessage()
	})
}
