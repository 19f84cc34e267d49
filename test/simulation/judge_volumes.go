package simulation

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What is judged of volumes and objects. The judge believes the node's disk, the store and the manifests, and what was
// recorded of objects before a decision.

// objectsAt is what a record reports of a pod's objects.
type objectsAt struct {
	seq  uint64
	read *journaletv1.ObjectsRead
}

// bookObjects keeps the books of objects and volumes.
func (j *judge) bookObjects(author string, e *journaletv1.Event, rec *journaletv1.Record) {
	cause := rec.GetStep().GetCause()
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ObjectsRead:
		h := j.history(k.ObjectsRead.GetUid())
		h.objectReads = append(h.objectReads, objectsAt{rec.GetSeq(), k.ObjectsRead})
	case *journaletv1.Event_CallRequested:
		j.objectsRequired(author, j.history(author), cause, k.CallRequested)
	case *journaletv1.Event_PodTerminating:
		j.evicted(j.history(author), author, cause, k.PodTerminating)
	case *journaletv1.Event_PodDirectoryFound:
		j.history(k.PodDirectoryFound.GetUid()).leftBehind = true
	case *journaletv1.Event_PodFinished:
		j.finishedVolumes(author, j.history(author))
	}
}

// volumesOf: a container is created with all volumes of its pod set up.
func (j *judge) volumesOf(c *container) {
	for i := range c.manifest.Spec.Volumes {
		v := &c.manifest.Spec.Volumes[i]
		if !ofDriver(v) && j.sim.world.files.disk[c.uid][v.Name] == "" && !j.mayLack(c, v.Name) {
			j.broken(volumesFirst, c.uid, "%s is created, and volume %s is not set up", c.name, v.Name)
		}
	}
}

// volumesTornDown: volumes are torn down after the last container that an inspection has shown.
func (j *judge) volumesTornDown(uid string) {
	for _, c := range j.sim.world.objectsOf(uid).containers {
		if c.alive() && !c.startedLate && j.history(uid).shown[c.id] {
			j.broken(unmountedLast, uid, "its volumes are torn down, and %s (%s) runs", c.name, c.id)
		}
	}
}

// finishedVolumes: nothing of a finished pod stays mounted. An actor that was about to finish when the agent stopped
// does so before it handles that a directory is left of an incarnation that the journal lost: that one has an end of
// its own.
func (j *judge) finishedVolumes(uid string, h *podHistory) {
	if h.leftBehind {
		h.leftBehind = false
		return
	}
	if w := j.sim.world; h.setUps > 0 && (len(w.files.disk[uid]) > 0 || w.storage.has(uid)) {
		j.broken(noneMounted, uid, "it has finished, and has volumes: %v %v", w.files.disk[uid], w.storage.mountedFor(uid))
	}
	h.setUps = 0
}

// objectsRequired: nothing is requested that lacks a required object, as far as was recorded before the decision.
func (j *judge) objectsRequired(uid string, h *podHistory, cause uint64, k *journaletv1.CallRequested) {
	var uses []references.Use
	m := j.sim.manifests.byDigest[cmp.Or(k.GetSetUpVolumes().GetDigest(), k.GetStartContainer().GetDigest())]
	switch {
	case k.GetSetUpVolumes() == nil && k.GetStartContainer() == nil:
		return
	case m == nil:
		j.broken(objectsFirst, uid, "a call is requested on record %d with a manifest that nobody has: %v", cause, k)
		return
	case k.GetSetUpVolumes() != nil:
		h.setUps++
		for _, v := range k.GetSetUpVolumes().GetVolumes() {
			uses = append(uses, references.OfVolume(m, volumeIn(m, v.GetName()))...)
		}
	case k.GetStartContainer() != nil && k.GetStartContainer().GetPart() != journaletv1.StartPart_START_PART_START:
		uses = references.OfContainer(findSpec(m, k.GetStartContainer().GetContainer()))
	}
	for _, u := range uses {
		if state := h.objectAt(u.Ref, cause); state != journaletv1.ObjectState_OBJECT_STATE_PRESENT &&
			(!u.Optional || state == journaletv1.ObjectState_OBJECT_STATE_UNSPECIFIED) {
			j.broken(objectsFirst, uid, "a call is requested on record %d, when %s was %s: %v", cause, objectName(u.Ref),
				state, k)
		}
	}
}

// objectAt returns the state of an object in the newest read up to a record.
func (h *podHistory) objectAt(ref *journaletv1.ObjectRef, seq uint64) journaletv1.ObjectState {
	for _, at := range slices.Backward(h.objectReads) {
		if at.seq > seq {
			continue
		}
		for _, o := range at.read.GetObjects() {
			if references.Equal(o.GetRef(), ref) {
				return o.GetState()
			}
		}
		break
	}
	return journaletv1.ObjectState_OBJECT_STATE_UNSPECIFIED
}

// evicted: a pod is evicted only on what was measured, unless it is critical.
func (j *judge) evicted(h *podHistory, uid string, cause uint64, k *journaletv1.PodTerminating) {
	if k.GetReason() != pod.ReasonEvicted {
		return
	}
	h.evictedAs, h.evictedWith, h.evictedGrace = h.incarnation, h.newestDigest(), time.Second
	if fact := j.sim.journal.stored[cause-1].GetFact().GetStorageExceeded(); fact == nil {
		j.broken(evictedRightly, uid, "record %d reports no exceeded storage", cause)
	}
	if m := h.manifest; m != nil && m.Spec.Priority != nil && *m.Spec.Priority >= 2_000_000_000 {
		j.broken(evictedRightly, uid, "it is critical")
	}
}

// newestDigest returns the manifest of the newest update, empty for none.
func (h *podHistory) newestDigest() string {
	if n := len(h.updates); n > 0 {
		return h.updates[n-1].digest
	}
	return ""
}

// judgeVolumes reports how the volumes of a desired pod differ from what they should be. runs reports whether it does.
func (s *sim) judgeVolumes(uid string, m *corev1.Pod, runs bool, say func(string, ...any)) {
	disk := s.world.files.disk[uid]
	if !runs {
		for _, name := range slices.Sorted(maps.Keys(disk)) {
			if s.judge.lostRecordsAt > 0 && !hasVolume(m, name) {
				continue // only the lost journal had its manifest: it goes when the pod is removed
			}
			say("it has ended, and has volume %s: %s", name, disk[name])
		}
		return
	}
	from := ""
	if s.judge.history(uid).apiPod {
		from = ofAPIServer
	}
	for i := range m.Spec.Volumes {
		v := &m.Spec.Volumes[i]
		if ofDriver(v) {
			if !s.world.storage.isMounted(uid, v) {
				say("its volume %s is not mounted", v.Name)
			}
			continue
		}
		if _, lost := s.world.files.lost[uid]; lost && v.Name == scratchVolume {
			continue // it is set up before the next start of a container that mounts it
		}
		if newest, problem, _ := s.world.files.holding(from, m, v); problem == "" && disk[v.Name] != newest {
			say("its volume %s has %q and not %q", v.Name, disk[v.Name], newest)
		}
	}
}

const (
	// reachWithin bounds how long a change of an object takes to reach a running pod on a node without faults.
	reachWithin = 5 * time.Second
	// readWithin is how long a file may take to be read: its notification may be lost.
	readWithin = 45 * time.Second
	// startWithin bounds the start of a pod whose objects have appeared.
	startWithin = 10 * time.Second
)

// judgeObjects changes objects when everything is at rest: each change reaches the pods that run, and a pod that is
// added waits for its objects, then starts.
func (s *sim) judgeObjects() {
	n := s.world.files
	for _, name := range planObjects {
		n.set(name)
		n.set(ofAPIServer + name)
	}
	s.play(s.clock.uptime+reachWithin, 0)
	for _, ref := range s.agent.cells.Refs() {
		v := s.reported(ref)
		if v == nil || v.Status.Phase != corev1.PodRunning || v.DeletionTimestamp != nil {
			continue
		}
		s.judgeVolumes(ref.ID, v, true, func(format string, args ...any) {
			s.judge.broken(objectsReach, ref.ID, format, args...)
		})
	}
	s.latePod()
}

// latePod adds a pod whose objects are missing. After a while they appear.
func (s *sim) latePod() {
	const file = "late.json"
	s.world.images["app:1"] = true
	s.directory.write(s.manifests, file, []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"late"},"spec":{
		"volumes":[{"name":"conf","configMap":{"name":"late"}}],"containers":[{"name":"main","image":"app:1",
		"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"late","key":"key"}}}]}]}}`))
	uid := s.directory.files[file].GetPods()[0].GetUid()
	s.play(s.clock.uptime+readWithin, 0)
	d, ok := s.agent.cells.Decider(messages.Pod(uid)).(*pod.Actor)
	if !ok || d.Pod().GetStage() != journaletv1.PodStage_POD_STAGE_RUNNING {
		s.directory.remove(file) // there is no room for it
		s.play(s.clock.uptime+readWithin, 0)
		return
	}
	waits := func(what, text string) {
		v := s.reported(messages.Pod(uid))
		if w := v.Status.ContainerStatuses[0].State.Waiting; w == nil || !strings.Contains(w.Message, text) {
			s.judge.broken(objectsAwaited, uid, "it does not wait for %s: %v", what, v.Status.ContainerStatuses)
		}
	}
	waits("the ConfigMap", `configmap "late" not found`)
	s.world.files.set(lateObjects[0])
	s.play(s.clock.uptime+reachWithin, 0)
	waits("the Secret", `secret "late" not found`)
	s.world.files.set(lateObjects[1])
	s.play(s.clock.uptime+startWithin, 0)
	if v := s.reported(messages.Pod(uid)); v.Status.Phase != corev1.PodRunning {
		s.judge.broken(objectsAwaited, uid, "its objects are there for %s, and it is %s: %v", startWithin, v.Status.Phase,
			v.Status.ContainerStatuses)
	}
	s.directory.remove(file)
	s.play(s.clock.uptime+readWithin+time.Minute, 0)
	if s.world.files.disk[uid] != nil {
		s.judge.broken(noneMounted, uid, "no source names it, and it has a directory")
	}
}
