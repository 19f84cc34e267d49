package node

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Decide answers the requests that can be answered now.
func (a *Actor) Decide(in actors.Input, emit actors.Emit) {
	for _, e := range in.Events {
		switch k := e.Body.GetKind().(type) {
		case *journaletv1.Event_AdmissionRequested:
			a.decideRequest(k.AdmissionRequested, e.Manifest, emit)
		case *journaletv1.Event_PodFinished:
			a.admitNext(emit)
			a.admitPending(emit)
		case *journaletv1.Event_UidRequested:
			a.decideUID(k.UidRequested, emit)
		case *journaletv1.Event_UidWithdrawn:
			a.grant(k.UidWithdrawn.GetUid(), emit)
			a.confirmOrphans(emit)
		case *journaletv1.Event_OrphanFound, *journaletv1.Event_SourceSynced, *journaletv1.Event_PodsKeptOut:
			a.confirmOrphans(emit)
		case *journaletv1.Event_PodTerminated:
			a.admitPending(emit)
		case *journaletv1.Event_AgentStarted:
			a.admitPending(emit)
			a.confirmOrphans(emit)
		}
		a.decideReads(e, emit)
		a.decideDrain(e, emit)
		a.decidePressure(e, emit)
		a.decideDevices(e, emit)
		a.decideKubeletPods(e, emit)
		a.decidePodCIDR(e, emit)
		switch e.Body.GetKind().(type) {
		case *journaletv1.Event_AgentStarted, *journaletv1.Event_ResizeRequested, *journaletv1.Event_ResizeWithdrawn,
			*journaletv1.Event_PodTerminated, *journaletv1.Event_PodFinished:
			// The node's resources, or the requests for them, may have changed.
			a.decideResizes(emit)
		}
		// Each of these may have admitted a pod.
		a.decideShared(emit)
	}
}

// decideRequest decides on a new request, or on a request once the Node was read for it. It rejects a pod that can
// never run here at once, and every pod while the machine shuts down. A pod whose name is taken waits until the holder
// has finished; a pod of a drained node waits until the end of the drain.
func (a *Actor) decideRequest(q *journaletv1.AdmissionRequested, manifest *corev1.Pod, emit actors.Emit) {
	if underWay(a.state.GetShutdown()) {
		emit(rejected(q, shuttingDown))
		return
	}
	if r := a.underPressure(q, manifest); r != nil {
		emit(rejected(q, r))
		return
	}
	if r := a.cannotRun(manifest, q); r != nil {
		if a.mayBeStale(manifest, q, r) {
			a.requestNode(q.GetUid(), emit)
			return
		}
		emit(rejected(q, r))
		return
	}
	name := queueOf(q)
	if holder := a.state.Names[name]; holder != "" || a.drained(q.GetPriority()) {
		emit(a.deferred(q, holder))
		return
	}
	a.admit(q, emit)
}

// admitNext decides on the first pod that waits for each freed name. Finished pods free names, at most one an event.
// The end of a drain frees the names of all pods that waited for it: then pods of higher priority come first, and among
// equals the first to have requested its admission.
func (a *Actor) admitNext(emit actors.Emit) {
	var next []*journaletv1.AdmissionRequested
	for _, name := range a.freed() {
		if q := a.state.Waiting[name].GetRequests()[0]; !a.closed(q.GetPriority()) {
			next = append(next, q)
		}
	}
	slices.SortStableFunc(next, func(x, y *journaletv1.AdmissionRequested) int {
		return cmp.Or(cmp.Compare(y.GetPriority(), x.GetPriority()), cmp.Compare(x.GetIncarnation(), y.GetIncarnation()))
	})
	for _, q := range next {
		a.admit(q, emit)
		// With several sources, further pods may wait for this name. They wait for another holder now.
		name := queueOf(q)
		if a.state.Names[name] == "" && a.waitingRequest(q.GetUid()) != nil {
			continue // it waits for a device plugin, and keeps its place
		}
		for _, q := range a.state.Waiting[name].GetRequests() {
			emit(a.deferred(q, a.state.Names[name]))
		}
	}
}

// deferred returns the answer to a request that waits for the holder of its name, or for the end of a drain.
func (a *Actor) deferred(q *journaletv1.AdmissionRequested, holder string) *journaletv1.Event {
	d := &journaletv1.AdmissionDeferred{Uid: q.GetUid(), HolderUid: holder}
	if a.drained(q.GetPriority()) {
		d.Reason, d.Message = ReasonDrained, MessageDrained
	}
	return messages.NewEvent(d)
}

// rejected returns the answer to a request that is refused.
func rejected(q *journaletv1.AdmissionRequested, r *rejection) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.AdmissionDecided{
		Uid: q.GetUid(), Incarnation: q.GetIncarnation(), Reason: r.reason, Message: r.message,
	})
}

// admitted returns the answer to a request that is granted; a rejection if no ids are left for its user namespace.
func (a *Actor) admitted(q *journaletv1.AdmissionRequested, g grant) *journaletv1.Event {
	ids, ok := a.userNamespace(q)
	if !ok {
		return rejected(q, noUserNamespace)
	}
	var leftAlone rejection
	if q.GetUnsupported() != "" {
		leftAlone = *unsupportedFeature(q)
	}
	return messages.NewEvent(&journaletv1.AdmissionDecided{
		Uid: q.GetUid(), Incarnation: q.GetIncarnation(), Admitted: true, UserNamespace: ids,
		Reason: leftAlone.reason, Message: leftAlone.message,
		FreshUserNamespace: ids != nil && a.state.FoundUserNamespaces[q.GetUid()] == nil, Found: a.found(q.GetUid()),
		Devices:   g.devices,
		Exclusive: g.exclusive, SharedCpus: a.shared(append(a.taken(), g.exclusive)), Rest: a.rest(q.GetUid(), g),
	})
}
