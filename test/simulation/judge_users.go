package simulation

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of user namespaces. Who has which ids is judged by pods' directories and by what the runtime was given.
const (
	idsAlone  = "no two pods have the same ids while both run, or have directories"
	idsAsSaid = "a pod with users of its own, and no other, runs with the ids of its directory"
	idsKept   = "a pod keeps its ids as long as its directory is there, and others get ids of the node's range"
	idsShort  = "a pod is rejected for its ids only if no others are left"
)

// outOfUsers is the reason of a pod if no ids are left for it.
const outOfUsers = "OutOfUserNamespaces"

// userBook is what is recorded of user namespaces.
type userBook struct {
	// given are the ids that pods have by a record, and the ids that a start of the agent has found in directories, by
	// UID.
	given map[string]*journaletv1.UserNamespace
	// freed are the records that gave ids of pods back, with these ids.
	freed []freedIDs
}

type freedIDs struct {
	seq uint64
	ids *journaletv1.UserNamespace
}

// overlap reports whether two pods would have ids in common.
func overlap(a, b *journaletv1.UserNamespace) bool {
	return uint64(a.GetHostId()) < uint64(b.GetHostId())+uint64(b.GetLength()) &&
		uint64(b.GetHostId()) < uint64(a.GetHostId())+uint64(a.GetLength())
}

// idsTaken: the ids that a pod takes are in the directory of no other pod.
func (j *judge) idsTaken(uid string, ids *journaletv1.UserNamespace) {
	users := j.sim.world.files.users
	for _, other := range slices.Sorted(maps.Keys(users)) {
		if had := users[other]; other != uid && overlap(had, ids) {
			j.broken(idsAlone, uid, "it gets the ids %v, and %s has %v", ids, other, had)
		}
	}
}

// idsOfSandbox: the sandbox of a pod has the ids of the pod's directory.
func (j *judge) idsOfSandbox(x *sandbox, m *corev1.Pod, has *runtimeapi.UserNamespace) {
	x.ids = idsIn(has)
	if m == nil || j.sim.config.managed == nil {
		return
	}
	want := j.sim.world.files.users[x.uid]
	if !ownUsers(m) {
		want = nil
	}
	if !proto.Equal(x.ids, want) {
		j.broken(idsAsSaid, x.uid, "its sandbox %s gets the ids %v, want %v", x.id, x.ids, want)
	}
}

// idsOfContainer: a container has the ids of its sandbox, and none that a running container of another pod has.
func (j *judge) idsOfContainer(uid string, x *sandbox, k *runtimeapi.ContainerConfig) {
	if has := idsIn(k.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions()); !proto.Equal(has, x.ids) {
		j.broken(idsAsSaid, uid, "a container in sandbox %s gets the ids %v, and the sandbox has %v", x.id, has, x.ids)
	}
	if x.ids == nil {
		return
	}
	for _, o := range j.sim.world.objects {
		for _, c := range o.containers {
			if other := j.sim.world.sandbox(c.sandbox); c.uid != uid && c.alive() && other != nil && overlap(x.ids, other.ids) {
				j.broken(idsAlone, uid, "a container in sandbox %s gets the ids %v, and %s of %s has %v", x.id, x.ids, c.id, c.uid,
					other.ids)
			}
		}
	}
}

// idsIn returns the ids of a user namespace for the runtime; nil for the node's.
func idsIn(n *runtimeapi.UserNamespace) *journaletv1.UserNamespace {
	if n.GetMode() != runtimeapi.NamespaceMode_POD || len(n.GetUids()) != 1 {
		return nil
	}
	return &journaletv1.UserNamespace{HostId: n.GetUids()[0].GetHostId(), Length: n.GetUids()[0].GetLength()}
}

// bookUsers keeps the books of ids, and judges what the node gives.
func (j *judge) bookUsers(rec *journaletv1.Record, e *journaletv1.Event) {
	b := &j.users
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		for uid, ids := range k.AgentStarted.GetFoundUserNamespaces() {
			b.given[uid] = ids
		}
	case *journaletv1.Event_AdmissionPendingPreemption:
		if ids := k.AdmissionPendingPreemption.GetUserNamespace(); ids != nil {
			b.given[k.AdmissionPendingPreemption.GetUid()] = ids // reserved until it has finished, if not longer
		}
	case *journaletv1.Event_AdmissionDecided:
		uid, ids := k.AdmissionDecided.GetUid(), k.AdmissionDecided.GetUserNamespace()
		if ids == nil {
			return
		}
		pool, had := j.configAt(rec.GetStep().GetCause()).GetUserNamespaces(), j.sim.world.files.users[uid]
		end := uint64(pool.GetFirst()) + uint64(pool.GetPods())*uint64(pool.GetIdsPerPod())
		switch {
		case had != nil && !proto.Equal(had, ids):
			j.broken(idsKept, uid, "it gets the ids %v, and its directory says %v", ids, had)
		case had == nil && b.given[uid] == nil && (ids.GetHostId() < pool.GetFirst() ||
			uint64(ids.GetHostId())+uint64(ids.GetLength()) > end || ids.GetLength() != pool.GetIdsPerPod()):
			j.broken(idsKept, uid, "it gets the ids %v, and the node has %v", ids, pool)
		}
		b.given[uid] = ids
	case *journaletv1.Event_PodFinished:
		if ids := b.given[k.PodFinished.GetUid()]; ids != nil && !k.PodFinished.GetUnseen() {
			delete(b.given, k.PodFinished.GetUid())
			b.freed = append(b.freed, freedIDs{rec.GetSeq(), ids})
		}
	}
}

// lacksUsers judges the rejection of a pod because no ids are left for it. The node decided on record cause.
func (j *judge) lacksUsers(cause uint64, k *journaletv1.AdmissionDecided, m *corev1.Pod) (judged bool) {
	if k.GetReason() != outOfUsers {
		return false
	}
	pool := j.configAt(cause).GetUserNamespaces()
	for i := range pool.GetPods() {
		slot := &journaletv1.UserNamespace{HostId: pool.GetFirst() + i*pool.GetIdsPerPod(), Length: pool.GetIdsPerPod()}
		if !j.taken(cause, slot) {
			j.broken(idsShort, k.GetUid(), "%v are free", slot)
		}
	}
	if !ownUsers(m) {
		j.broken(idsShort, k.GetUid(), "it needs none")
	}
	return true
}

// taken reports whether a pod has some of the ids by a record, or had until a record after cause.
func (j *judge) taken(cause uint64, ids *journaletv1.UserNamespace) bool {
	for _, has := range j.users.given {
		if overlap(has, ids) {
			return true
		}
	}
	for _, x := range j.users.freed {
		if x.seq > cause && overlap(x.ids, ids) {
			return true
		}
	}
	return false
}
