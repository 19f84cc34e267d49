package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/pleg"
	"github.com/journalet/journalet/runtime/image"
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
	wrong := deviations{{convergence, "", "nothing was checked"}}
	// A relist shows the last fault's effects at the latest, and so does the next attempt of a watch.
	last := 2 * pleg.RelistWithEvents
	if s.api != nil {
		last = max(last, 2*reflectMost)
	}
	s.play(from+last, crashAfter)
	for len(wrong) > 0 {
		if s.clock.uptime >= end {
			for _, invariant := range wrong.invariants() {
				uid, text := wrong.first(invariant)
				s.judge.broken(invariant, uid, "after %s:\n%s", convergeWithin, text)
			}
			return
		}
		s.play(s.clock.uptime+convergeStep, crashAfter)
		s.noticesLost(from)
		s.judge.overdue(from)
		if s.judge.first != nil {
			return
		}
		wrong = s.deviations()
	}
	// Inspections under way, or of the next relist, may show details.
	since := s.clock.uptime
	s.play(since+2*pleg.RelistWithEvents, 0)
	records := len(s.journal.stored)
	s.play(s.clock.uptime+restFor, 0)
	s.judge.overdue(from)
	wrong = s.deviations()
	for end := s.clock.uptime + endsWithin; len(wrong) > 0 && s.judge.first == nil; wrong = s.deviations() {
		if len(s.endedSince(since)) == 0 || s.clock.uptime >= end {
			uid, text := wrong.first("")
			s.judge.broken(rest, uid, "pods had converged, and then:\n%s", text)
			return
		}
		s.play(s.clock.uptime+convergeStep, 0)
	}
	ended := s.endedSince(since)
	for _, rec := range s.journal.stored[records:] {
		// The driver of images missed what a fault hid, until its next check.
		late := since < from+image.Period+time.Minute && rec.GetFact().GetImagesObserved() != nil ||
			rec.GetFact().GetCertificateChanged() != nil
		if s.judge.first == nil && !late && !s.mayStillHappen(rec, ended) {
			s.judge.broken(rest, rec.GetActor().GetId(), "record %d follows convergence without a reason: %v", rec.GetSeq(), rec)
		}
	}
	if s.judge.first == nil && !s.config.operated { // it is the end of a run
		s.judgeObjects()
	}
	if s.judge.first == nil {
		s.judgeImages()
	}
	if s.judge.first == nil {
		s.judgePressure()
	}
	if s.judge.first == nil {
		s.fillIdle()
	}
}

// noticesLost: a container that vanished from the runtime is not reported as running any more, once faults have ended.
func (s *sim) noticesLost(faultless time.Duration) {
	if s.agent == nil {
		return
	}
	for _, ref := range s.agent.cells.Refs() {
		v := s.reported(ref)
		if v == nil {
			continue
		}
		for _, c := range slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses) {
			_, id, _ := strings.Cut(c.ContainerID, "://")
			at, gone := s.judge.lostAt[id]
			if since := s.clock.uptime - max(at, faultless); gone && c.State.Running != nil && since > missedWithin {
				s.judge.broken(vanishedEnds, ref.ID, "%s vanished from the runtime, and counts as running for %s since", id, since)
			}
		}
	}
}

// reported returns the status that the agent reports of a pod, nil if it has none.
func (s *sim) reported(ref messages.Ref) *corev1.Pod {
	if a, ok := s.agent.cells.Decider(ref).(*pod.Actor); ok {
		return a.View(pod.Node{RuntimeName: "sim"})
	}
	return nil
}

// endsWithin bounds how long the end of a pod takes whose deadline passes, with what follows from it.
const endsWithin = 5 * time.Minute

// endedSince returns the pods whose deadline has ended them since an uptime.
func (s *sim) endedSince(since time.Duration) map[string]bool {
	ended := map[string]bool{}
	for uid, h := range s.judge.pods {
		if h.endsAt >= since-time.Second && h.manifest != nil && s.judge.deadlineEnded(h, h.manifest) {
			ended[uid] = true
		}
	}
	return ended
}

// mayStillHappen: after convergence only the deadlines of pods still pass, with what follows from that. On a small node
// another pod may wait for the resources of a pod that ends.
func (s *sim) mayStillHappen(rec *journaletv1.Record, ended map[string]bool) bool {
	if len(ended) > 0 && s.config.cpu < largeCPU {
		return true
	}
	ofEnded := func(id string) bool {
		in := s.judge.intents[id]
		return in != nil && ended[in.req.GetPodUid()]
	}
	other := func(f *journaletv1.ManifestFile) bool { return !ended[f.GetPath()] }
	return ended[rec.GetActor().GetId()] || !slices.ContainsFunc(messages.Events(rec), func(e *journaletv1.Event) bool {
		read := e.GetManifestsRead() // that the API server has their ends
		shown := read.GetSource() == messages.APISource && !slices.ContainsFunc(read.GetChanged(), other)
		return !shown && !ended[e.GetPodUpdated().GetPod().GetUid()] && !ofEnded(e.GetCallDispatched().GetIntentId()) &&
			!ofEnded(e.GetCallFinished().GetIntentId()) && !ofEnded(e.GetCallDropped().GetIntentId())
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
	s.endRefusals()
	s.tenantGoes()
	s.site.fix()
	s.api.fix()
	clear(w.others)
	w.relieve()
	w.fixConditions()
	w.fixPlugins()
	w.fixClaimDrivers()
	w.storage.fix()
	w.files.fix()
	s.endOperations()
}

// deviation is one difference that must not be in the end, with its invariant and its pod.
type deviation struct{ invariant, uid, text string }

type deviations []deviation

// invariants returns the invariants that are broken, in order of the first difference of each.
func (d deviations) invariants() (all []string) {
	for _, x := range d {
		if !slices.Contains(all, x.invariant) {
			all = append(all, x.invariant)
		}
	}
	return all
}

// first returns the pod of the first difference and the texts of all, by one invariant or, with "", by any.
func (d deviations) first(invariant string) (uid, text string) {
	var texts []string
	for _, x := range d {
		if invariant != "" && x.invariant != invariant {
			continue
		}
		if len(texts) == 0 {
			uid = x.uid
		}
		texts = append(texts, x.text)
	}
	return uid, strings.Join(texts, "\n")
}

// deviations returns how the agent and the world differ from the manifests.
func (s *sim) deviations() (wrong deviations) {
	sayBy := func(invariant, uid, format string, args ...any) {
		wrong = append(wrong, deviation{invariant, uid, fmt.Sprintf(format, args...)})
	}
	say := func(uid, format string, args ...any) {
		invariant := convergence
		if h := s.judge.pods[uid]; h != nil && h.apiPod || s.api.has(uid) {
			invariant = apiPodsRun
		}
		sayBy(invariant, uid, format, args...)
	}
	if s.agent == nil {
		return deviations{{convergence, "", "the agent is down"}}
	}
	for _, name := range slices.Sorted(maps.Keys(s.judge.set)) {
		if ref := s.judge.set[name]; ref.Kind != journaletv1.ActorKind_ACTOR_KIND_POD ||
			!strings.Contains(name, activeDeadline) {
			say(ref.ID, "timer %q is set", name)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(s.judge.pods)) {
		if n := len(s.judge.pods[uid].openCalls); n > 0 {
			say(uid, "%d of its calls have no outcome", n)
		}
	}
	s.judgeImagesKnown(say)
	desired := s.judgeSources(say)
	for _, uid := range slices.Sorted(maps.Keys(desired)) {
		v := s.reported(messages.Pod(uid))
		if v == nil {
			say(uid, "%s is desired and has no actor", s.manifests.names[uid])
			continue
		}
		if s.waitsForNamesake(uid, v, desired) {
			continue
		}
		if s.judge.staysEvicted(uid, v) {
			sayBy(startsAgain, uid, "%s: nothing is short, and it is %q", s.manifests.names[uid], v.Status.Message)
		}
		s.judgePod(uid, v, desired[uid],
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
	for _, uid := range slices.Sorted(maps.Keys(s.world.files.disk)) {
		if desired[uid] == "" {
			say(uid, "no source names %s, and it left a directory", s.manifests.names[uid])
		}
	}
	s.judgeCluster(desired, sayBy)
	s.judgePlaces(sayBy)
	return wrong
}

// fromFiles returns the digests of the pods in files, by UID. Of two pods with one name or one UID one counts.
func (s *sim) fromFiles() map[string]string {
	all := map[string]string{}
	for _, p := range s.judge.names.among(s.directory.files) {
		all[p.uid] = p.digest
	}
	return all
}

// activeDeadline is in the names of the timers that end pods.
const activeDeadline = " active deadline "

// judgePod reports how a desired pod differs from its manifest when there are no faults. v is what the agent reports.
func (s *sim) judgePod(uid string, v *corev1.Pod, digest string, say func(string, ...any)) {
	h, m, o := s.judge.history(uid), s.manifests.byDigest[digest], s.world.objectsOf(uid)
	if m == nil {
		say("no source has read its manifest %s", digest)
		return
	}
	ready := 0
	for _, x := range o.sandboxes {
		if x.ready {
			ready++
		}
		if x.ready && x.hostNetwork != m.Spec.HostNetwork {
			say("the network of its sandbox %s is the node's: %t", x.id, x.hostNetwork)
		}
	}
	// A lost journal may have taken the request.
	if n := len(h.requests); h.rejectedAs == h.incarnation && n > 0 && h.requests[n-1].digest != digest && !h.apiPod {
		say("it was rejected with an old manifest")
	}
	// h.manifest follows the updates of a pod one by one only while it holds its share.
	if h.rejectedAs != h.incarnation && v.Status.Phase != corev1.PodPending &&
		(!updatesLeadTo(h.admittedAs, m) || h.holdsShare && !isUpdate(h.manifest, m)) {
		say("it was admitted with a manifest of which the present one is no update")
	}
	switch v.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		if !s.keptStatus(uid) && !s.mayHaveEnded(uid, m, v.Status.Phase) {
			say("it is %s (%s), and its manifest and its containers do not allow that", v.Status.Phase, v.Status.Reason)
		}
		if ready > 0 {
			say("it has ended and keeps a ready sandbox")
		}
		if h.evictedAs == h.incarnation && h.evictedWith != "" && h.evictedWith != digest && !h.apiPod {
			say("it was evicted with an old manifest")
		}
		s.judgeVolumes(uid, m, false, say)
		for _, c := range o.containers {
			if c.alive() {
				say("it has ended, and %s runs", c.name)
			}
		}
	case corev1.PodRunning:
		if late := s.pastDeadline(h, m); late > deadlineTolerance {
			say("it runs %s beyond its deadline", late)
		}
		if over, _ := s.judge.allOver(h, m); over || ready != 1 {
			say("it runs with %d ready sandboxes, all its containers have ended for good: %t", ready, over)
		}
		s.judgeContainers(h, m, o, v, say)
		s.judgeResources(h, m, o, v, say)
		s.judgeGates(uid, v, say)
		s.judgeVolumes(uid, m, true, say)
	default:
		say("it is %s", v.Status.Phase)
	}
	s.judgeDead(o, say)
}

// deadlineTolerance bounds how long an actor takes to end a pod whose deadline has passed.
const deadlineTolerance = time.Minute

// pastDeadline returns for how long a pod has run beyond its active deadline. If the clock was set since its admission,
// the deadline counts from the start of the present run of the agent, which reads the clock again.
func (s *sim) pastDeadline(h *podHistory, m *corev1.Pod) time.Duration {
	if m.Spec.ActiveDeadlineSeconds == nil {
		return 0
	}
	from := h.admittedAt
	if s.judge.clockSet >= from {
		from = max(s.judge.runSince, s.judge.clockSet)
	}
	return s.clock.uptime - from - time.Duration(*m.Spec.ActiveDeadlineSeconds)*time.Second
}

// judgeContainers compares what runs with the manifest, and checks the status of each container.
func (s *sim) judgeContainers(h *podHistory, m *corev1.Pod, o *objects, v *corev1.Pod, say func(string, ...any)) {
	alive := map[string]*container{}
	for _, c := range o.containers {
		if c.alive() {
			alive[c.name] = c
		}
	}
	for _, list := range [][]corev1.Container{m.Spec.InitContainers, m.Spec.Containers} {
		for i := range list {
			c := alive[list[i].Name]
			delete(alive, list[i].Name)
			if c != nil && c.image != list[i].Image && !c.once {
				say("%s runs an old definition", c.name)
			}
			if over, _ := s.judge.over(h, m, &list[i]); c == nil && !over && (isSidecar(&list[i]) || !isInit(m, list[i].Name)) {
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
			text += fmt.Sprintf("/%d", c.RestartCount)
		}
		lines = append(lines, text)
	}
	slices.SortFunc(lines, cmp.Compare[string])
	return strings.Join(lines, "\n")
}
