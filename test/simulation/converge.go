package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/dispatch"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/pleg"
)

const (
	// convergeWithin bounds how long convergence takes without faults. The longest waits are back-offs of 300 s of an
	// image, then of an init container, then of a container, and what was under way when the runtime hung.
	convergeWithin = 40 * time.Minute
	// convergeStep is how often convergence is checked.
	convergeStep = 5 * time.Second
	// missedWithin bounds how long a container counts as running that has vanished from the runtime: some relists, a
	// slow actor, and a failed inspection.
	missedWithin = 2 * time.Minute
	// restFor is how long nothing may change after convergence.
	restFor = 2 * time.Minute
)

// lost marks a container in Result.Final whose start was in doubt and that may not run twice (ADR 015).
const lost = "=lost"

// converge stops the faults and waits until every pod is as its manifest says.
func (s *sim) converge(crashAfter uint64) {
	s.endFaults()
	from := max(s.clock.uptime, s.world.hungUntil, s.journal.stalledUntil)
	end := from + convergeWithin
	wrong := []string{"nothing was checked"}
	// A relist shows the last fault's effects at the latest.
	s.play(from+2*pleg.RelistWithEvents, crashAfter)
	uid := ""
	for len(wrong) > 0 {
		if s.clock.uptime >= end {
			s.judge.broken(convergence, uid, "after %s:\n%s", convergeWithin, strings.Join(wrong, "\n"))
			return
		}
		s.play(s.clock.uptime+convergeStep, crashAfter)
		s.noticesLost(from)
		if s.judge.first != nil {
			return
		}
		uid, wrong = s.deviations()
	}
	// Inspections under way, or of the next relist, may show details.
	s.play(s.clock.uptime+2*pleg.RelistWithEvents, 0)
	records := len(s.journal.stored)
	s.play(s.clock.uptime+restFor, 0)
	if s.judge.first != nil {
		return
	}
	if uid, wrong = s.deviations(); len(wrong) > 0 && !s.deadlines() {
		s.judge.broken(rest, uid, "pods had converged, and then:\n%s", strings.Join(wrong, "\n"))
	}
	for _, rec := range s.journal.stored[records:] {
		if !s.mayStillHappen(rec) {
			s.judge.broken(rest, rec.GetActor().GetId(), "record %d follows convergence without a reason: %v", rec.GetSeq(), rec)
			return
		}
	}
}

// noticesLost: a container that vanished from the runtime stops counting as running, once faults have ended.
func (s *sim) noticesLost(faultless time.Duration) {
	if s.agent == nil {
		return
	}
	for _, ref := range s.agent.cells.Refs() {
		a, _ := s.agent.cells.Decider(ref).(*pod.Actor)
		if a == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(a.Pod().GetContainers())) {
			c := a.Pod().GetContainers()[name].GetCurrent()
			at, gone := s.judge.lostAt[c.GetId()]
			if since := s.clock.uptime - max(at, faultless); gone && c.GetState() == running && since > missedWithin {
				s.judge.broken(vanishedEnds, ref.ID, "%s vanished from the runtime, and counts as running for %s since", c.GetId(),
					since)
			}
		}
	}
}

// mayStillHappen: deadlines of pods still pass after convergence, with what follows from that.
func (s *sim) mayStillHappen(rec *journaletv1.Record) bool {
	a, _ := s.agent.cells.Decider(messages.RefOf(rec.GetActor())).(*pod.Actor)
	switch {
	case s.config.cpu < largeCPU && s.deadlines():
		// On a small node another pod may wait for the resources of one that ends.
		return true
	case a != nil:
		return a.Manifest() != nil && a.Manifest().Spec.ActiveDeadlineSeconds != nil
	case messages.RefOf(rec.GetActor()) == messages.Runtime || rec.GetFact().GetCallFinished() != nil:
		return s.deadlines()
	}
	return false
}

// deadlines reports whether the deadline of a pod may pass at any time.
func (s *sim) deadlines() bool {
	return slices.ContainsFunc(s.agent.cells.Refs(), func(ref messages.Ref) bool {
		a, _ := s.agent.cells.Decider(ref).(*pod.Actor)
		return a != nil && a.Manifest() != nil && a.Manifest().Spec.ActiveDeadlineSeconds != nil
	})
}

// endFaults ends all faults.
func (s *sim) endFaults() {
	w := s.world
	w.heal()
	// A hang of the runtime and a stall of the disk end at their own time: requests under way wait for it.
	w.slowUntil, w.eventsBadUntil, w.networkReady, w.registryUp = 0, 0, true, true
	s.journal.failing, s.trap, w.atStart = 0, noMoment, nil
	if !w.up {
		w.startRuntime()
	}
	if s.agent == nil {
		s.start()
	}
	for _, path := range s.directory.names() {
		if len(s.directory.files[path].GetProblems()) > 0 {
			s.directory.remove(path)
		}
	}
	s.site.fix()
	w.fixConditions()
}

// deviations returns how the agent and the world differ from the manifests, and the pod of the first difference.
func (s *sim) deviations() (uid string, wrong []string) {
	say := func(of, format string, args ...any) {
		if len(wrong) == 0 {
			uid = of
		}
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	if s.agent == nil {
		return "", []string{"the agent is down"}
	}
	if n := len(s.agent.cells.Decider(messages.Runtime).(*dispatch.Actor).Runtime().GetCalls()); n > 0 {
		say("", "the runtime actor has %d calls", n)
	}
	if n := len(s.agent.cells.Decider(messages.Image).Timers().GetSet()); n > 0 {
		say("", "%d pulls wait for their next attempt", n)
	}
	desired := s.judgeSources(say)
	for _, uid := range slices.Sorted(maps.Keys(desired)) {
		a, _ := s.agent.cells.Decider(messages.Pod(uid)).(*pod.Actor)
		if a == nil {
			say(uid, "%s is desired and has no actor", s.manifests.names[uid])
			continue
		}
		if s.waitsForNamesake(uid, a, desired) {
			continue
		}
		s.judgePod(uid, a, desired[uid],
			func(format string, args ...any) { say(uid, s.manifests.names[uid]+": "+format, args...) })
	}
	for _, ref := range s.agent.cells.Refs() {
		if ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD && desired[ref.ID] == "" {
			say(ref.ID, "no source names %s, and it has an actor", s.manifests.names[ref.ID])
		}
	}
	for _, o := range s.world.objects {
		if desired[o.uid] == "" && !o.empty() {
			say(o.uid, "no source names %s, and it left %d sandboxes and %d containers", s.manifests.names[o.uid],
				len(o.sandboxes), len(o.containers))
		}
	}
	return uid, wrong
}

// fromFiles returns the digests of the pods in files, by UID. Of two pods with one name or one UID the first by path
// counts.
func (s *sim) fromFiles() map[string]string {
	all, names := map[string]string{}, map[string]bool{}
	for _, path := range s.directory.names() {
		for _, p := range s.directory.files[path].GetPods() {
			name := p.GetNamespace() + "/" + p.GetName()
			if names[name] || all[p.GetUid()] != "" {
				continue
			}
			names[name], all[p.GetUid()] = true, p.GetDigest()
		}
	}
	return all
}

// judgePod reports how a desired pod differs from its manifest when there are no faults.
func (s *sim) judgePod(uid string, a *pod.Actor, digest string, say func(string, ...any)) {
	st, o := a.Pod(), s.world.objectsOf(uid)
	if st.GetPod().GetDigest() != digest && st.GetStage() < journaletv1.PodStage_POD_STAGE_TERMINATING {
		say("it runs an old manifest")
	}
	if n := len(st.GetCalls()); n > 0 {
		say("%d calls are under way", n)
	}
	for _, name := range slices.Sorted(maps.Keys(st.GetTimers().GetSet())) {
		if !strings.HasPrefix(name, "active deadline ") {
			say("timer %q is set", name)
		}
	}
	v := a.View(pod.Node{RuntimeName: "sim"})
	ready := 0
	for _, x := range o.sandboxes {
		if x.ready {
			ready++
		}
	}
	switch st.GetStage() {
	case journaletv1.PodStage_POD_STAGE_TERMINATED:
		if v.Status.Phase != corev1.PodSucceeded && v.Status.Phase != corev1.PodFailed {
			say("it has terminated with phase %s", v.Status.Phase)
		}
		if name, code := failed(o, v); name != "" && v.Status.Phase == corev1.PodSucceeded {
			say("it has succeeded, and %s has failed with %d", name, code)
		}
		if ready > 0 {
			say("it has terminated and keeps a ready sandbox")
		}
		for _, c := range o.containers {
			if c.alive() {
				say("it has terminated, and %s runs", c.name)
			}
		}
	case journaletv1.PodStage_POD_STAGE_RUNNING:
		if late := s.pastDeadline(uid, v); late > deadlineTolerance {
			say("it runs %s beyond its deadline", late)
		}
		if v.Status.Phase != corev1.PodRunning || ready != 1 {
			say("it runs with phase %s and %d ready sandboxes", v.Status.Phase, ready)
		}
		s.judgeContainers(o, v, say)
		s.judgeResources(uid, a, o, v, say)
		s.judgeGates(uid, v, say)
	default:
		say("it is in stage %s", st.GetStage())
	}
	s.judgeDead(o, say)
}

// deadlineTolerance bounds how long an actor takes to end a pod whose deadline has passed.
const deadlineTolerance = time.Minute

// pastDeadline returns for how long a pod has run beyond its active deadline, 0 if the clock was set since its
// admission.
func (s *sim) pastDeadline(uid string, v *corev1.Pod) time.Duration {
	h, seconds := s.judge.history(uid), v.Spec.ActiveDeadlineSeconds
	if seconds == nil || !h.holdsShare || s.judge.clockSet >= h.admittedAt {
		return 0
	}
	return s.clock.uptime - h.admittedAt - time.Duration(*seconds)*time.Second
}

// failed returns a main container whose newest instance in the world ended with another code than 0, "" for none.
func failed(o *objects, v *corev1.Pod) (name string, code int32) {
	for i := range v.Spec.Containers {
		var newest *container
		for _, c := range o.containers {
			if c.name == v.Spec.Containers[i].Name && (newest == nil || c.attempt > newest.attempt) {
				newest = c
			}
		}
		if newest != nil && newest.code != 0 {
			return newest.name, newest.code
		}
	}
	return "", 0
}

// judgeContainers compares what runs with the manifest, and checks the status of each container.
func (s *sim) judgeContainers(o *objects, v *corev1.Pod, say func(string, ...any)) {
	alive := map[string]*container{}
	for _, c := range o.containers {
		if c.alive() {
			alive[c.name] = c
		}
	}
	for _, list := range [][]corev1.Container{v.Spec.InitContainers, v.Spec.Containers} {
		for i := range list {
			c := alive[list[i].Name]
			delete(alive, list[i].Name)
			if c != nil && c.hash != pod.ContainerHash(&list[i]) && !c.once {
				say("%s runs an old definition", c.name)
			}
			policy := v.Spec.RestartPolicy
			if list[i].RestartPolicy != nil {
				policy = corev1.RestartPolicy(*list[i].RestartPolicy)
			}
			if c == nil && policy == corev1.RestartPolicyAlways && (isSidecar(&list[i]) || !isInit(v, list[i].Name)) {
				say("%s does not run", list[i].Name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(alive)) {
		say("%s runs and is not in the manifest", name)
	}
	for _, c := range slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses) {
		if c.State.Waiting != nil {
			say("%s waits: %s %s", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
		}
		if c.State.Running != nil && !c.Ready {
			say("%s runs and is not ready", c.Name)
		}
	}
}

// judgeDead: of each container at most two dead instances are kept.
func (s *sim) judgeDead(o *objects, say func(string, ...any)) {
	dead := map[string]int{}
	for _, c := range o.containers {
		if !c.alive() {
			if dead[c.name]++; dead[c.name] == 3 {
				say("3 dead instances of %s are kept", c.name)
			}
		}
	}
}

// final returns what each pod has become, without times.
func (s *sim) final() string {
	if s.agent == nil {
		return "the agent is down"
	}
	var lines []string
	for _, ref := range s.agent.cells.Refs() {
		a, ok := s.agent.cells.Decider(ref).(*pod.Actor)
		if !ok {
			continue
		}
		v := a.View(pod.Node{RuntimeName: "sim"})
		text := fmt.Sprintf("%s %s %s %s", v.Name, ref.ID, v.Status.Phase, v.Status.Reason)
		for _, c := range slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses) {
			switch {
			case c.State.Running != nil:
				text += fmt.Sprintf(" %s=running", c.Name)
			case c.State.Terminated != nil && c.State.Terminated.Reason == "ContainerStatusUnknown":
				text += fmt.Sprintf(" %s%s", c.Name, lost)
			case c.State.Terminated != nil:
				text += fmt.Sprintf(" %s=exit-%d", c.Name, c.State.Terminated.ExitCode)
			default:
				text += fmt.Sprintf(" %s=waiting", c.Name)
			}
		}
		lines = append(lines, text)
	}
	slices.SortFunc(lines, cmp.Compare[string])
	return strings.Join(lines, "\n")
}
