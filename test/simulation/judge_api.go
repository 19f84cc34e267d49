package simulation

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/events"
	"github.com/journalet/journalet/runtime/cluster/mirror"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// Invariants of a node in a cluster. They are judged by the API server's own objects and by what runs in the world.
const (
	apiPodsRun    = "a pod of the API server runs as bound, and goes when it is deleted"
	admittedOnce  = "a pod of the API server is admitted once"
	neverAgain    = "a pod that has ended at the API server never runs again"
	statusIsWorld = "in the end the API server has each pod's status as the world shows it"
	terminalStays = "a terminal phase, or a container's end, stays at the API server"
	runsReported  = "a container that runs on is not reported as one that waits"
	deletedLast   = "a pod ends and goes at the API server after nothing of it runs"
	deletedOnly   = "the agent deletes no pod that nobody has deleted"
	noSecretsSent = "no status and no event holds a secret"
	eventsOnce    = "no event is sent under two names"
	eventsArrive  = "the API server hears of each pod whose containers were stopped"
	mirrorsExist  = "in the end each static pod has its mirror pod, and there is no other"
	nodeKept      = "in the end the Node exists, is ready, and its Lease is fresh"
)

// apiBooks are what the judge knows of the API server's objects besides what they are now.
type apiBooks struct {
	// boundAt is when each pod was bound, in uptime.
	boundAt map[types.UID]time.Duration
	// names are the names of events, by the record and the number in it. heard counts what was sent of each object, by its
	// UID, and of each reason.
	names map[string]string
	heard map[string]int
	// closed are the pods whose namespaces were deleted, or whose events the API server refused, by UID: nothing more
	// has to be heard of these.
	closed map[string]bool
	// unanswered are the versions of pods after a patch of the agent whose answer was lost, by UID.
	unanswered map[types.UID]int64
}

func newAPIBooks() apiBooks {
	return apiBooks{boundAt: map[types.UID]time.Duration{}, names: map[string]string{},
		heard: map[string]int{}, closed: map[string]bool{}, unanswered: map[types.UID]int64{}}
}

// answered books whether the agent has the answer to a patch. p is the pod after the patch, nil for none.
func (b *apiBooks) answered(p *corev1.Pod, err error) {
	switch {
	case p == nil:
	case err == nil:
		delete(b.unanswered, p.UID)
	default:
		b.unanswered[p.UID] = versionOf(p)
	}
}

// stored books a pod that was stored.
func (b *apiBooks) stored(s *sim, p *corev1.Pod) {
	if _, ok := b.boundAt[p.UID]; !ok {
		b.boundAt[p.UID] = s.clock.uptime
	}
}

// onNode returns the UID of a pod on the node: for a mirror pod the UID of its static pod.
func onNode(p *corev1.Pod) string {
	if manifest.IsMirror(p) {
		return mirror.Of(p)
	}
	return string(p.UID)
}

// runningOf returns a container that runs of a pod of the API server, as an inspection has shown, "" for none. A mirror
// pod stands for the incarnation that it was created for: what is created of a later one does not count.
func (j *judge) runningOf(p *corev1.Pod) string {
	uid := onNode(p)
	h := j.history(uid)
	earlier := manifest.IsMirror(p) && j.sim.api.books.boundAt[p.UID] < h.addedAt
	for _, c := range j.sim.world.objectsOf(uid).containers {
		if c.alive() && !c.startedLate && h.shown[c.id] && !(earlier && c.createdAt >= h.addedAt) {
			return c.id
		}
	}
	return ""
}

// deleted judges a DELETE of the agent. p is the pod of that name, nil for none.
func (b *apiBooks) deleted(s *sim, p *corev1.Pod, uid types.UID) {
	if p == nil || uid != "" && p.UID != uid || manifest.IsMirror(p) {
		return
	}
	if p.DeletionTimestamp == nil {
		s.judge.broken(deletedOnly, string(p.UID), "it is deleted by the agent alone")
	}
	s.judge.claimsOfEnded(string(p.UID))
	if id := s.judge.runningOf(p); id != "" {
		s.judge.broken(deletedLast, string(p.UID), "its object is deleted, and %s runs", id)
	}
}

// event judges an event that was sent.
func (b *apiBooks) event(s *sim, e *corev1.Event) {
	if strings.Contains(e.Message, secret) {
		s.judge.broken(noSecretsSent, string(e.InvolvedObject.UID), "event %s does: %s", e.Reason, e.Message)
	}
	b.heard[string(e.InvolvedObject.UID)]++
	b.heard[string(e.InvolvedObject.UID)+" "+e.Reason]++
	id := e.Annotations[events.AnnotationRecord]
	if id == "" {
		return
	}
	about := &e.InvolvedObject
	key := strings.Join([]string{id, string(about.UID), e.Reason, about.FieldPath, e.Message}, "\x00")
	if e.Count > 1 {
		return // it stands for another one now
	}
	if was := b.names[key]; was != "" && was != e.Name && s.judge.lostRecordsAt < 0 {
		s.judge.broken(eventsOnce, string(e.InvolvedObject.UID), "%s of record %s is %s, and %s", e.Reason, id, was, e.Name)
	}
	b.names[key] = e.Name
}

// startedOfAPI: what has ended at the API server never runs again.
func (j *judge) startedOfAPI(c *container) {
	if j.sim.api != nil && !c.startedLate && j.terminalAtAPI(c.uid) && !j.unheardEnd(c.uid, c.intent) {
		j.broken(neverAgain, c.uid, "%s starts", c.id)
	}
}

// unheardEnd reports whether a call was requested before the pod could know of an end that no record has: the tenant
// has ended it by a write of its status, or the records of its end were lost. A pod of the journal continues before the
// first list of a run (ADR 057).
func (j *judge) unheardEnd(uid, intent string) bool {
	in, h := j.intents[intent], j.history(uid)
	unknown := h.endLost || j.sim.tenants != nil && j.sim.tenants.ended[types.UID(uid)]
	return in != nil && unknown && (h.heardEnd == 0 || in.cause < h.heardEnd)
}

// terminalAtAPI reports whether the API server has a terminal phase of a pod.
func (j *judge) terminalAtAPI(uid string) bool {
	p := j.sim.api.byUID(uid)
	return p != nil && hasEnded(p)
}

// judgeCluster reports how the API server's objects differ from the world.
func (s *sim) judgeCluster(desired map[string]string, say func(invariant, uid, format string, args ...any)) {
	a := s.api
	if a == nil {
		return
	}
	for _, n := range a.names(ofNode) {
		if p := a.pods[n]; p.DeletionTimestamp != nil {
			say(apiPodsRun, string(p.UID), "%s is deleted, and still there: %v", n, p.Finalizers)
		}
	}
	for _, n := range a.names(isBound) {
		p := a.pods[n]
		uid := onNode(p)
		if desired[uid] == "" || p.DeletionTimestamp != nil {
			continue
		}
		s.judgeStatus(p, uid, desired[uid], func(format string, args ...any) {
			say(statusIsWorld, uid, n.String()+": "+format, args...)
		})
	}
	s.judgeMirrors(desired, func(uid, format string, args ...any) { say(mirrorsExist, uid, format, args...) })
	switch n := a.node; {
	case n == nil:
		say(nodeKept, "", "there is no Node")
	case s.clock.uptime-a.renewed > leaseLasts || a.lease == nil:
		say(nodeKept, "", "its Lease was renewed %s ago, and exists: %t", s.clock.uptime-a.renewed, a.lease != nil)
	case !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}):
		say(nodeKept, "", "it is not ready: %v", n.Status.Conditions)
	}
	s.judgeClaims(desired, say)
	s.judgeStorage(desired, say)
	s.judgeEvents(func(uid, format string, args ...any) { say(eventsArrive, uid, format, args...) })
}

// judgeStatus reports how the status of a pod at the API server differs from the world.
func (s *sim) judgeStatus(p *corev1.Pod, uid, digest string, say func(format string, args ...any)) {
	h, o, m := s.judge.history(uid), s.world.objectsOf(uid), s.manifests.byDigest[digest]
	if m == nil || s.keptStatus(uid) {
		return
	}
	st := &p.Status
	running := map[string]*container{}
	for _, c := range o.containers {
		if c.alive() {
			running[c.name] = c
		}
	}
	switch {
	case h.rejectedAs == h.incarnation && h.rejectedAs != 0:
		if st.Phase != corev1.PodFailed || st.Reason == "" {
			say("it was rejected, and is %s %s", st.Phase, st.Reason)
		}
		return
	case len(running) > 0 && st.Phase != corev1.PodRunning, len(running) == 0 && !hasEnded(p):
		say("it is %s, and %d containers run", st.Phase, len(running))
	case hasEnded(p) && !s.mayHaveEnded(uid, m, st.Phase):
		say("it is %s, and its manifest and its containers do not allow that", st.Phase)
	}
	ready := st.Phase == corev1.PodRunning
	for _, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		x := running[c.Name]
		delete(running, c.Name)
		if s.cannotRevive(p, &c, x) {
			continue
		}
		switch _, id, _ := strings.Cut(c.ContainerID, "://"); {
		case x != nil && (c.State.Running == nil || id != x.id):
			say("%s runs as %s, and is reported as %s %v", c.Name, x.id, id, c.State)
		case x == nil && c.State.Running != nil:
			say("%s is reported as running, and does not", c.Name)
		case x == nil && c.State.Terminated != nil && id != "":
			s.judgeEnd(id, &c, say)
		}
		if spec := findSpec(m, c.Name); !isInit(m, c.Name) || isSidecar(spec) {
			ready = ready && c.Ready || isInit(m, c.Name) && ready
		}
	}
	for _, name := range slices.Sorted(maps.Keys(running)) {
		say("%s runs, and is not reported", name)
	}
	s.judgeConditions(p, uid, ready, say)
	if !manifest.IsMirror(p) && st.ObservedGeneration != p.Generation {
		say("its generation is %d, and %d is observed", p.Generation, st.ObservedGeneration)
	}
	if st.Phase == corev1.PodRunning && !m.Spec.HostNetwork {
		i := slices.IndexFunc(o.sandboxes, func(x *sandbox) bool { return x.ready })
		if i >= 0 && !slices.Contains(o.sandboxes[i].ips, st.PodIP) {
			say("its address is %v, and %q is reported", o.sandboxes[i].ips, st.PodIP)
		}
	}
}

// cannotRevive reports whether the API server has the final end of an instance that neither the runtime nor the journal
// has any more, and another instance runs in its place. The API server refuses a status where such a container has not
// ended, also from the kubelet.
func (s *sim) cannotRevive(p *corev1.Pod, c *corev1.ContainerStatus, runs *container) bool {
	_, id, _ := strings.Cut(c.ContainerID, "://")
	was, t := s.judge.book.byID[id], c.State.Terminated
	return runs != nil && t != nil && was != nil && was.vanished && s.judge.lostIntents[was.intent] &&
		!mayRevive(p, findSpec(p, c.Name), t.ExitCode)
}

// keptStatus reports whether a pod had ended at the API server before the agent knew it: then its status stays.
func (s *sim) keptStatus(uid string) bool {
	return s.judge.history(uid).incarnation == 0 && s.terminalPod(uid)
}

func (s *sim) terminalPod(uid string) bool { return s.api != nil && s.judge.terminalAtAPI(uid) }

// judgeEnd reports how the reported end of an instance differs from that in the world.
func (s *sim) judgeEnd(id string, c *corev1.ContainerStatus, say func(format string, args ...any)) {
	x, t := s.judge.book.byID[id], c.State.Terminated
	unknown := t.Reason == unknownReason && t.ExitCode == unknownCode
	if x == nil || unknown && (x.vanished || x.startLost || x.startedAt == 0) {
		return
	}
	if x.alive() || t.ExitCode != x.code || t.Reason != x.reason {
		say("%s ended with %d %s, and is reported with %d %s", id, x.code, x.reason, t.ExitCode, t.Reason)
	}
}

func (s *sim) judgeConditions(p *corev1.Pod, uid string, ready bool, say func(format string, args ...any)) {
	if len(p.Spec.ReadinessGates) > 0 {
		return // see judgeGates
	}
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if is := i >= 0 && p.Status.Conditions[i].Status == corev1.ConditionTrue; is != ready {
		say("its containers are ready: %t, and it is reported ready: %t", ready, is)
	}
	if n := len(p.Status.Conditions); p.Status.Phase == corev1.PodRunning && n == 0 {
		say("it has no conditions (%s)", uid)
	}
}

// judgeMirrors reports static pods without a mirror pod, and mirror pods without a static pod.
func (s *sim) judgeMirrors(desired map[string]string, say func(uid, format string, args ...any)) {
	shown := map[string]bool{}
	for _, n := range s.api.names(func(p *corev1.Pod) bool { return isBound(p) && manifest.IsMirror(p) }) {
		p := s.api.pods[n]
		uid := mirror.Of(p)
		shown[uid] = true
		if m := s.manifests.byDigest[desired[uid]]; m == nil || m.Namespace != n.Namespace || m.Name != n.Name {
			say(uid, "%s is the mirror pod of no static pod", n)
		} else if p.DeletionTimestamp != nil {
			say(uid, "the mirror pod %s is deleted, and there is no other", n)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(desired)) {
		h, m := s.judge.history(uid), s.manifests.byDigest[desired[uid]]
		v := s.reported(messages.Pod(uid))
		switch {
		case m == nil || v == nil || h.apiPod || shown[uid], h.rejectedAs == h.incarnation, refersToObjects(m):
		case s.waitsForNamesake(uid, v, desired):
		default:
			say(uid, "static pod %s/%s has no mirror pod", m.Namespace, m.Name)
		}
	}
}

// refersToObjects reports whether a pod refers to objects of its namespace. The API server refuses its mirror pod.
func refersToObjects(m *corev1.Pod) bool {
	for i := range m.Spec.Volumes {
		if len(references.OfVolume(m, &m.Spec.Volumes[i])) > 0 {
			return true
		}
	}
	for _, list := range [][]corev1.Container{m.Spec.InitContainers, m.Spec.Containers} {
		for i := range list {
			if len(references.OfContainer(&list[i])) > 0 {
				return true
			}
		}
	}
	return false
}

// fewEvents is how many events of one object are never too many (events: objectBurst).
const fewEvents = 20

// judgeEvents reports pods whose containers were stopped, if the API server has heard of no stop.
func (s *sim) judgeEvents(say func(uid, format string, args ...any)) {
	if s.judge.lostRecordsAt >= 0 {
		return // with the journal, the events are lost
	}
	for _, uid := range slices.Sorted(maps.Keys(s.judge.pods)) {
		h, b := s.judge.pods[uid], &s.api.books
		if h.stops > 0 && h.apiPod && b.heard[uid] < fewEvents && b.heard[uid+" Killing"] == 0 && !b.closed[uid] {
			say(uid, "%d stops were requested, and of %d events none is Killing", h.stops, b.heard[uid])
		}
	}
}

// bookAPI books what the records have of pods of the API server.
func (j *judge) bookAPI(author string, e *journaletv1.Event) {
	if e.GetCallRequested().GetStopContainer() != nil {
		j.history(author).stops++
	}
}

// onDeletion notes that the API server has deleted the pod.
func (h *podHistory) onDeletion(seq uint64, at time.Duration, api *journaletv1.ApiPod) {
	if !api.GetDeleted() {
		return
	}
	h.endedByDeletion = h.endedByDeletion || h.endsAt < 0
	grace := time.Duration(min(api.GetDeletionGraceSeconds(), math.MaxInt32)) * time.Second
	if h.deletionGrace == 0 || grace < h.deletionGrace {
		h.deletionGrace = grace
	}
	h.terminates(seq, at)
}

// admittedBy: a pod of the API server is admitted once.
func (j *judge) admittedBy(k *journaletv1.AdmissionDecided, h *podHistory) {
	if was := h.admittedIncarnation; h.apiPod && was != 0 && was != k.GetIncarnation() {
		j.broken(admittedOnce, k.GetUid(), "it is admitted as incarnation %d, and was as %d", k.GetIncarnation(), was)
	}
}

// rejectedAtNode reports whether a pod of the API server is rejected for what it needs beside resources.
func (j *judge) rejectedAtNode(k *journaletv1.AdmissionDecided) bool {
	switch k.GetReason() {
	case actors.ReasonUnsupported, "TaintToleration", "NodeAffinity":
		return true
	}
	return false
}

// boundAt returns when a pod was bound that is still there.
func (a *apiServer) boundAt(uid string) (time.Duration, bool) {
	if !a.has(uid) {
		return 0, false
	}
	return a.books.boundAt[types.UID(uid)], true
}

// has reports whether a pod of this node has a UID.
func (a *apiServer) has(uid string) bool {
	if a == nil {
		return false
	}
	p := a.byUID(uid)
	return p != nil && isBound(p)
}
