package node

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A drain ends the node's pods by priority, and no other is admitted until it is over; so does the shutdown of the
// machine (ADR 049). Both can be under way at once: then the drain waits for the shutdown.

// Reasons and messages of pods that the node ends, or does not admit (pkg/kubelet/nodeshutdown for a shutdown).
const (
	ReasonDrained  = "NodeDrained"
	MessageDrained = "The node is drained; the pod is admitted after `journalet uncordon`."
	messageEnded   = "Pod was terminated because the node is drained; it runs again after `journalet uncordon`."

	ReasonShutdown  = "Terminated"
	MessageShutdown = "Pod was terminated in response to imminent node shutdown."

	ReasonNodeShutdown = "NodeShutdown"
)

// shuttingDown rejects a pod while the machine shuts down.
var shuttingDown = &rejection{ReasonNodeShutdown, "Pod was rejected as the node is shutting down."}

// shutdownTimer ends the time of a group of pods when the machine shuts down.
const shutdownTimer = "shutdown group"

// underWay reports whether a drain or a shutdown keeps pods from being admitted.
func underWay(d *journaletv1.Drain) bool { return d != nil && !d.GetOver() }

// drained reports whether a pod of this priority may not run because of a drain.
func (a *Actor) drained(priority int32) bool {
	d := a.state.GetDrain()
	return underWay(d) && (priority < systemCritical || d.GetRequest().GetCritical())
}

// closed reports whether no pod of this priority is admitted now.
func (a *Actor) closed(priority int32) bool {
	return underWay(a.state.GetShutdown()) || a.drained(priority)
}

// evolveDrain folds what concerns drains and shutdowns; fired is the timer that fired.
func (a *Actor) evolveDrain(e actors.Event, fired string) {
	s := a.state
	if fired == shutdownTimer && s.GetShutdown() != nil {
		s.Shutdown.WaitingFor = nil // their time is over: the next group follows
	}
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		s.BootId = k.AgentStarted.GetBootId()
		if d := s.GetShutdown(); d != nil && d.GetBootId() != s.BootId {
			s.Shutdown = ended(d)
		}
	case *journaletv1.Event_DrainRequested:
		a.evolveDrainRequested(e, k.DrainRequested)
	case *journaletv1.Event_UncordonRequested:
		s.Drain = ended(s.GetDrain())
	case *journaletv1.Event_ShutdownSignaled:
		a.evolveShutdown(e, k.ShutdownSignaled.GetActive())
	case *journaletv1.Event_PodEvictionDecided:
		if k.PodEvictionDecided.GetSignal() == "" {
			a.evolveEviction(k.PodEvictionDecided.GetUid())
		}
	case *journaletv1.Event_DrainProgressed:
		d := s.GetDrain()
		if k.DrainProgressed.GetShutdown() {
			d = s.GetShutdown()
		}
		if d != nil {
			d.WaitingFor, d.Complete = k.DrainProgressed.GetWaitingFor(), len(k.DrainProgressed.GetWaitingFor()) == 0
			d.Volumes = k.DrainProgressed.GetVolumes()
		}
	case *journaletv1.Event_PodTerminated:
		a.stopWaiting(k.PodTerminated.GetUid(), false)
	case *journaletv1.Event_PodReclaimed:
		a.stopWaiting(k.PodReclaimed.GetUid(), true)
	case *journaletv1.Event_PodReadmitted:
		a.forgetEnded(k.PodReadmitted.GetUid())
	case *journaletv1.Event_PodFinished:
		a.stopWaiting(k.PodFinished.GetUid(), true)
		a.forgetEnded(k.PodFinished.GetUid())
	}
}

// evolveDrainRequested begins a drain, or changes the one under way.
func (a *Actor) evolveDrainRequested(e actors.Event, q *journaletv1.DrainRequested) {
	s := a.state
	if !underWay(s.GetDrain()) {
		s.Drain = &journaletv1.Drain{Since: timestamppb.New(e.Time), Ended: s.GetDrain().GetEnded()}
	}
	s.Drain.Request, s.Drain.Complete = q, false
}

func (a *Actor) evolveShutdown(e actors.Event, active bool) {
	s := a.state
	switch {
	case !active:
		s.Shutdown = ended(s.GetShutdown())
	case !underWay(s.GetShutdown()):
		s.Shutdown = &journaletv1.Drain{
			Since: timestamppb.New(e.Time), BootId: s.GetBootId(), Ended: s.GetShutdown().GetEnded(),
		}
	}
}

// ended returns a drain that is over, as long as pods are to be admitted again.
func ended(d *journaletv1.Drain) *journaletv1.Drain {
	if len(d.GetEnded()) == 0 {
		return nil
	}
	d.Over, d.WaitingFor = true, nil
	return d
}

// evolveEviction records that a pod was ended, or rejected.
func (a *Actor) evolveEviction(uid string) {
	d := a.state.GetShutdown()
	if !underWay(d) {
		d = a.state.GetDrain()
	}
	if at, found := slices.BinarySearch(d.GetEnded(), uid); d != nil && !found {
		d.Ended = slices.Insert(d.Ended, at, uid)
	}
}

// stopWaiting records that a pod runs no more, or that it is reclaimed: its volumes are torn down, too.
func (a *Actor) stopWaiting(uid string, reclaimed bool) {
	for _, d := range []*journaletv1.Drain{a.state.GetDrain(), a.state.GetShutdown()} {
		if d.GetVolumes() && !reclaimed {
			continue
		}
		if at, found := slices.BinarySearch(d.GetWaitingFor(), uid); found {
			d.WaitingFor = slices.Delete(slices.Clone(d.WaitingFor), at, at+1)
		}
	}
}

// forgetEnded records that a pod is to be admitted again, or is gone.
func (a *Actor) forgetEnded(uid string) {
	s := a.state
	for _, d := range []*journaletv1.Drain{s.GetDrain(), s.GetShutdown()} {
		if at, found := slices.BinarySearch(d.GetEnded(), uid); found {
			d.Ended = slices.Delete(d.Ended, at, at+1)
		}
	}
	if d := s.GetDrain(); d.GetOver() && len(d.GetEnded()) == 0 {
		s.Drain = nil
	}
	if d := s.GetShutdown(); d.GetOver() && len(d.GetEnded()) == 0 {
		s.Shutdown = nil
	}
}

// decideDrain decides what follows for the drain and the shutdown. Nothing of a drain is decided during a shutdown.
func (a *Actor) decideDrain(e actors.Event, emit actors.Emit) {
	a.clearGroupTimer(emit)
	s := a.state
	if underWay(s.GetShutdown()) {
		a.reclaimEnded(e, emit)
		a.progress(s.Shutdown, a.shutdownGroup, emit)
		return
	}
	if e.Body.GetDrainRequested() != nil {
		a.shortenGrace(emit)
	}
	if underWay(s.GetDrain()) {
		a.progress(s.Drain, a.drainGroup, emit)
	}
	a.readmit(e, emit)
}

// group returns the pods to end next, sorted, and how; no pods: none is left.
type group func() (uids []string, how *journaletv1.PodEvictionDecided)

// progress ends the next group of pods once the one before has ended.
func (a *Actor) progress(d *journaletv1.Drain, next group, emit actors.Emit) {
	if d.GetComplete() || len(d.GetWaitingFor()) > 0 {
		return
	}
	uids, how := next()
	for _, uid := range uids {
		emit(messages.NewEvent(&journaletv1.PodEvictionDecided{
			Uid: uid, Reason: how.GetReason(), Message: how.GetMessage(), Grace: how.GetGrace(),
		}))
	}
	shutdown := d == a.state.GetShutdown()
	emit(messages.NewEvent(&journaletv1.DrainProgressed{
		WaitingFor: uids, Shutdown: shutdown, Volumes: shutdown && len(uids) > 0,
	}))
	if ev := actors.SetTimer(a.state.GetTimers(), shutdownTimer, how.GetGrace().AsDuration()); shutdown && len(uids) > 0 &&
		ev != nil {
		emit(ev)
	}
}

// reclaimEnded requests that a pod of the shutdown's group that runs no more frees its volumes. The next group may have
// the CSI driver that unpublishes them (as in pkg/kubelet/nodeshutdown), so it waits for that, within the group's time.
func (a *Actor) reclaimEnded(e actors.Event, emit actors.Emit) {
	d, uid := a.state.GetShutdown(), e.Body.GetPodTerminated().GetUid()
	if _, waits := slices.BinarySearch(d.GetWaitingFor(), uid); d.GetVolumes() && waits && !a.endsVictim(uid) {
		emit(messages.NewEvent(&journaletv1.PodReclaimRequested{Uid: uid}))
	}
}

// drainGroup returns the pods of the lowest priority that the drain has not ended.
func (a *Actor) drainGroup() ([]string, *journaletv1.PodEvictionDecided) {
	q := a.state.GetDrain().GetRequest()
	uids := a.lowest(a.state.GetDrain(), func(priority int32) (int32, bool) { return priority, a.drained(priority) })
	return uids, &journaletv1.PodEvictionDecided{Reason: ReasonDrained, Message: messageEnded, Grace: q.GetGrace()}
}

// shutdownGroup returns the pods of the lowest group of the configuration that the shutdown has not ended.
func (a *Actor) shutdownGroup() ([]string, *journaletv1.PodEvictionDecided) {
	groups := a.state.GetConfig().GetShutdownGroups()
	how := &journaletv1.PodEvictionDecided{Reason: ReasonShutdown, Message: MessageShutdown}
	if len(groups) == 0 {
		return nil, how
	}
	uids := a.lowest(a.state.GetShutdown(), func(priority int32) (int32, bool) {
		return int32(groupOf(groups, priority)), true
	})
	if len(uids) > 0 {
		how.Grace = groups[groupOf(groups, a.state.Pods[uids[0]].GetPriority())].GetGrace()
		if how.Grace == nil {
			how.Grace = durationpb.New(0)
		}
	}
	return uids, how
}

// groupOf returns the index of a priority's group: the last group that begins at or below it, or the first group (as in
// pkg/kubelet/nodeshutdown).
func groupOf(groups []*journaletv1.ShutdownGroup, priority int32) int {
	at := 0
	for i, g := range groups {
		if g.GetPriority() <= priority && g.GetPriority() > groups[at].GetPriority() {
			at = i
		}
	}
	return at
}

// lowest returns the running pods of the lowest group that d has not ended, sorted. groupFor returns the group of a
// priority, and whether its pods end at all.
func (a *Actor) lowest(d *journaletv1.Drain, groupFor func(priority int32) (group int32, ends bool)) []string {
	var uids []string
	var least int32
	for _, uid := range slices.Sorted(maps.Keys(a.state.Pods)) {
		p := a.state.Pods[uid]
		g, ends := groupFor(p.GetPriority())
		if _, before := slices.BinarySearch(d.GetEnded(), uid); p.GetTerminated() || before || !ends {
			continue
		}
		switch {
		case len(uids) == 0 || g < least:
			uids, least = []string{uid}, g
		case g == least:
			uids = append(uids, uid)
		}
	}
	return uids
}

// clearGroupTimer clears the timer of a group that has ended in time, or of a shutdown that is over.
func (a *Actor) clearGroupTimer(emit actors.Emit) {
	if d := a.state.GetShutdown(); underWay(d) && len(d.GetWaitingFor()) > 0 {
		return
	}
	if ev := actors.ClearTimer(a.state.GetTimers(), shutdownTimer); ev != nil {
		emit(ev)
	}
}

// deferWaiting reports to the pods that wait for their admission why: the drain, or the pod that has their name.
func (a *Actor) deferWaiting(emit actors.Emit) {
	for _, name := range slices.Sorted(maps.Keys(a.state.Waiting)) {
		holder := a.state.Names[name]
		for _, q := range a.state.Waiting[name].GetRequests() {
			if a.drained(q.GetPriority()) || holder != "" && holder != q.GetUid() {
				emit(a.deferred(q, holder))
			}
		}
	}
}

// shortenGrace applies the grace period of a repeated request to the pods that end now.
func (a *Actor) shortenGrace(emit actors.Emit) {
	d := a.state.GetDrain()
	if d.GetRequest().GetGrace() == nil {
		return
	}
	for _, uid := range slices.Clone(d.GetWaitingFor()) {
		emit(messages.NewEvent(&journaletv1.PodEvictionDecided{
			Uid: uid, Reason: ReasonDrained, Message: messageEnded, Grace: d.GetRequest().GetGrace(),
		}))
	}
}

// readmit admits again what a drain or a shutdown ended that is over, and what waited meanwhile.
func (a *Actor) readmit(e actors.Event, emit actors.Emit) {
	s := a.state
	for _, d := range []*journaletv1.Drain{s.GetDrain(), s.GetShutdown()} {
		if !d.GetOver() {
			continue
		}
		for _, uid := range slices.Clone(d.GetEnded()) {
			emit(messages.NewEvent(&journaletv1.PodReadmitted{Uid: uid}))
		}
	}
	switch e.Body.GetKind().(type) {
	case *journaletv1.Event_UncordonRequested, *journaletv1.Event_DrainRequested:
		a.deferWaiting(emit)
	case *journaletv1.Event_AgentStarted, *journaletv1.Event_ShutdownSignaled:
	default:
		return
	}
	a.admitNext(emit)
	a.admitPending(emit)
}
