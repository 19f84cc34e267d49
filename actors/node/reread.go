package node

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A pod is not rejected for the labels of the Node before the Node was read from the API server (kubelet:
// pkg/kubelet/lifecycle/predicate.go). The watches of the Node and of pods are two: a pod may be known before the label
// that it was bound for, and a rejection is for good. The read has a deadline, and where it fails the pod is rejected,
// as by a kubelet (ADR 095).

// reasonAffinity is the reason of a pod that does not want a node with these labels.
const reasonAffinity = "NodeAffinity"

// mayBeStale reports whether the labels of the Node are the only reason why a pod cannot run here, and the Node was not
// read for this pod yet.
func (a *Actor) mayBeStale(pod *corev1.Pod, q *journaletv1.AdmissionRequested, r *rejection) bool {
	if r.reason != reasonAffinity || !a.inCluster() || a.state.NodeReads[q.GetUid()].GetAnswered() {
		return false
	}
	name := pod.Spec.NodeName
	return a.noRoom(q.GetDemand()) == nil && (name == "" || name == a.state.GetConfig().GetNodeName()) &&
		a.untolerated(pod, q) == nil
}

// awaitsNode reports whether a pod waits for a read of the Node.
func (a *Actor) awaitsNode(uid string) bool {
	r := a.state.NodeReads[uid]
	return r != nil && !r.GetAnswered()
}

// requestNode requests a read of the Node for a pod.
func (a *Actor) requestNode(uid string, emit actors.Emit) {
	emit(messages.NewEvent(&journaletv1.NodeReadRequested{RequestId: a.state.GetNodeReadId() + 1, Uid: uid}))
}

// evolveReads folds what concerns reads of the Node.
func (a *Actor) evolveReads(e actors.Event) {
	s := a.state
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AdmissionRequested:
		uid := k.AdmissionRequested.GetUid()
		delete(s.NodeReads, uid) // of an incarnation before
		a.requested[uid] = e.Manifest
	case *journaletv1.Event_NodeReadRequested:
		q := k.NodeReadRequested
		if s.NodeReads == nil {
			s.NodeReads = map[string]*journaletv1.NodeRead{}
		}
		s.NodeReadId = q.GetRequestId()
		s.NodeReads[q.GetUid()] = &journaletv1.NodeRead{RequestId: q.GetRequestId()}
	case *journaletv1.Event_NodeObserved:
		a.answered = a.waitingFor(k.NodeObserved.GetRequestId())
		for _, uid := range a.answered {
			s.NodeReads[uid].Answered = true
		}
	}
}

// waitingFor returns the pods that wait for a read of the Node with this number or a lower one, in the order of their
// requests.
func (a *Actor) waitingFor(id uint64) []string {
	var all []string
	for _, uid := range slices.Sorted(maps.Keys(a.state.NodeReads)) {
		if a.awaitsNode(uid) && a.state.NodeReads[uid].GetRequestId() <= id {
			all = append(all, uid)
		}
	}
	slices.SortStableFunc(all, func(x, y string) int {
		return cmp.Compare(a.state.NodeReads[x].GetRequestId(), a.state.NodeReads[y].GetRequestId())
	})
	return all
}

// dropRead forgets the read for a pod that does not wait any more.
func (a *Actor) dropRead(uid string) {
	delete(a.state.NodeReads, uid)
	delete(a.requested, uid)
}

// decideReads decides, with all checks, on the pods that the Node was read for. At a start of the agent it requests the
// reads again, since nobody answers earlier requests.
func (a *Actor) decideReads(e actors.Event, emit actors.Emit) {
	switch e.Body.GetKind().(type) {
	case *journaletv1.Event_NodeObserved:
		for _, uid := range a.answered {
			if q := a.waitingRequest(uid); q != nil {
				a.decideRequest(q, a.requested[uid], emit)
			}
		}
	case *journaletv1.Event_AgentStarted:
		for _, uid := range a.waitingFor(a.state.GetNodeReadId()) {
			a.requestNode(uid, emit)
		}
	}
}
