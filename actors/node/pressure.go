package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A node that is short of something sets its conditions, removes what nothing needs, and ends pods one after the other
// until no threshold acts (ADR 063). Which pod ends is decided on figures that were measured after the last one ended.

// ReasonEvicted is the reason of pods that end, or are not admitted, because the node is short of something (kubelet:
// eviction.Reason).
const ReasonEvicted = "Evicted"

const (
	// evictionTimer bounds how long the node waits for what it has requested.
	evictionTimer = "eviction"
	// evictionWait is that bound. kubelet: podCleanupTimeout, 30 s.
	evictionWait = 30 * time.Second
	// settleWait is how long the kernel has to free what a pod held before a threshold that still acts costs another pod.
	// kubelet: podCleanupPollFreq, 1 s, its least pause between two pods.
	settleWait = time.Second
	// evictionRetry is the pause before it is measured again if no pod was left to end.
	evictionRetry = time.Minute
	// hardGrace is the grace period of a pod that a hard threshold ends. kubelet: immediateEvictionGracePeriodSeconds.
	hardGrace = time.Second
	// messageAgain follows the kubelet's message of a pod that comes back.
	messageAgain = "The pod starts again when the node is no longer short."
	// conditionTimer begins the names of the timers that end conditions.
	conditionTimer = "pressure "
)

const (
	idle       = journaletv1.EvictionStage_EVICTION_STAGE_UNSPECIFIED
	reclaiming = journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMING
	reclaimed  = journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMED
	ending     = journaletv1.EvictionStage_EVICTION_STAGE_ENDING
	settling   = journaletv1.EvictionStage_EVICTION_STAGE_SETTLING
	measuring  = journaletv1.EvictionStage_EVICTION_STAGE_MEASURING
)

// evolvePressure folds what concerns pressure; fired is the timer that fired.
func (a *Actor) evolvePressure(e actors.Event, fired string) {
	p := a.state.Pressure
	if fired == evictionTimer {
		p.WaitingFor, p.Images = nil, false
	}
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_PressureObserved:
		p.Thresholds = k.PressureObserved.GetThresholds()
	case *journaletv1.Event_NodePressureDecided:
		p.Conditions = k.NodePressureDecided.GetConditions()
	case *journaletv1.Event_EvictionProgressed:
		p.Stage, p.Signal = k.EvictionProgressed.GetStage(), k.EvictionProgressed.GetSignal()
		p.WaitingFor, p.Images = k.EvictionProgressed.GetWaitingFor(), k.EvictionProgressed.GetImages()
		p.RequestId = max(p.GetRequestId(), k.EvictionProgressed.GetRequestId())
	case *journaletv1.Event_PodReclaimRequested:
		if pod := a.state.Pods[k.PodReclaimRequested.GetUid()]; pod != nil && k.PodReclaimRequested.GetContainers() {
			pod.ReclaimRequested = true
		}
	case *journaletv1.Event_PodReclaimed:
		a.noLongerWaits(k.PodReclaimed.GetUid())
	case *journaletv1.Event_PodFinished:
		a.noLongerWaits(k.PodFinished.GetUid())
		a.forgetEvicted(k.PodFinished.GetUid())
	case *journaletv1.Event_ImagesReclaimed:
		p.Images = false
	case *journaletv1.Event_PodEvictionDecided:
		if at, found := slices.BinarySearch(p.GetEnded(), k.PodEvictionDecided.GetUid()); !found &&
			k.PodEvictionDecided.GetReadmittedAfterPressure() {
			p.Ended = slices.Insert(p.Ended, at, k.PodEvictionDecided.GetUid())
		}
	case *journaletv1.Event_PodReadmitted:
		a.forgetEvicted(k.PodReadmitted.GetUid())
	}
}

// forgetEvicted records that a pod that pressure ended is to be admitted again, or is gone.
func (a *Actor) forgetEvicted(uid string) {
	p := a.state.Pressure
	if at, found := slices.BinarySearch(p.GetEnded(), uid); found {
		p.Ended = slices.Delete(slices.Clone(p.GetEnded()), at, at+1)
	}
}

func (a *Actor) noLongerWaits(uid string) {
	p := a.state.Pressure
	if at, found := slices.BinarySearch(p.GetWaitingFor(), uid); found {
		p.WaitingFor = slices.Delete(slices.Clone(p.GetWaitingFor()), at, at+1)
	}
}

// underPressure returns the rejection of a pod that may not run while the node is short of something; nil for none.
// Pods of local sources are admitted, as with the kubelet, which counts them as critical.
func (a *Actor) underPressure(q *journaletv1.AdmissionRequested, pod *corev1.Pod) *rejection {
	now := a.state.Pressure.GetConditions()
	if len(now) == 0 || !q.GetSharesName() || q.GetPriority() >= systemCritical {
		return nil
	}
	if len(now) == 1 && now[0] == string(corev1.NodeMemoryPressure) {
		taint := corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}
		if q.GetQos() != journaletv1.QosClass_QOS_CLASS_BEST_EFFORT || pod != nil &&
			scheduling.TolerationsTolerateTaint(logr.Discard(), pod.Spec.Tolerations, &taint, true) {
			return nil
		}
	}
	return &rejection{ReasonEvicted, fmt.Sprintf("The node had condition: [%s]. ", strings.Join(now, " "))}
}

// decidePressure decides what follows for the node's conditions and for what is short. While the machine shuts down all
// pods end anyway.
func (a *Actor) decidePressure(e actors.Event, emit actors.Emit) {
	a.decideConditions(e, emit)
	if underWay(a.state.GetShutdown()) {
		return
	}
	a.readmitEvicted(emit)
	observed := e.Body.GetPressureObserved()
	switch p := a.state.Pressure; p.GetStage() {
	case reclaiming, ending:
		a.reclaimVictim(e, emit)
		if len(p.GetWaitingFor()) > 0 || p.GetImages() {
			return
		}
		if p.GetStage() == reclaiming {
			a.measure(reclaimed, 0, emit)
			return
		}
		a.measure(settling, settleWait, emit)
	case settling:
		switch {
		case observed != nil && pressure.Acting(observed.GetThresholds()) == nil:
			a.progressEviction(&journaletv1.EvictionProgressed{}, 0, emit)
		case a.state.GetTimers().GetSet()[evictionTimer] == nil:
			a.measure(measuring, 0, emit)
		}
	case reclaimed, measuring:
		switch {
		case observed == nil || observed.GetRequestId() != p.GetRequestId():
			return // what was measured before the request says nothing about what was reclaimed
		case pressure.Acting(observed.GetThresholds()) == nil:
			a.progressEviction(&journaletv1.EvictionProgressed{}, 0, emit)
		case p.GetStage() == reclaimed:
			a.evictOne(observed, emit)
		default:
			a.beginReclaim(observed, emit)
		}
	default:
		if pressure.Acting(observed.GetThresholds()) != nil {
			a.beginReclaim(observed, emit)
			return
		}
		a.retryEviction(e, emit)
	}
}

// measure requests PressureObserved, in a stage that lasts no longer than a time; 0: without a bound.
func (a *Actor) measure(stage journaletv1.EvictionStage, most time.Duration, emit actors.Emit) {
	next := &journaletv1.EvictionProgressed{Stage: stage, RequestId: a.state.Pressure.GetRequestId() + 1}
	a.progressEviction(next, most, emit)
}

// progressEviction emits a stage, and has it last no longer than a time; 0: without a bound.
func (a *Actor) progressEviction(next *journaletv1.EvictionProgressed, most time.Duration, emit actors.Emit) {
	if ev := actors.ClearTimer(a.state.GetTimers(), evictionTimer); ev != nil {
		emit(ev)
	}
	emit(messages.NewEvent(next))
	if most != 0 {
		emit(actors.SetTimer(a.state.GetTimers(), evictionTimer, most))
	}
}

// decideConditions decides the node's conditions: the conditions of the thresholds that are met, and conditions that
// were true within the transition period.
func (a *Actor) decideConditions(e actors.Event, emit actors.Emit) {
	p, timers := a.state.Pressure, a.state.GetTimers()
	now := map[string]bool{}
	for _, t := range p.GetThresholds() {
		now[string(pressure.Signal(t.GetSignal()).Condition())] = true
	}
	if e.Body.GetPressureObserved() != nil {
		after := a.state.GetConfig().GetEviction().GetTransitionPeriod().AsDuration()
		for _, c := range p.GetConditions() {
			ev := actors.ClearTimer(timers, conditionTimer+c)
			if !now[c] {
				if ev = nil; after > 0 {
					ev = actors.SetTimer(timers, conditionTimer+c, after)
				}
			}
			if ev == nil {
				continue
			}
			emit(ev)
		}
	}
	for _, c := range p.GetConditions() {
		now[c] = now[c] || timers.GetSet()[conditionTimer+c] != nil
	}
	maps.DeleteFunc(now, func(_ string, set bool) bool { return !set })
	all := slices.Sorted(maps.Keys(now))
	if slices.Equal(all, p.GetConditions()) {
		return
	}
	emit(messages.NewEvent(&journaletv1.NodePressureDecided{Conditions: all}))
}

// beginReclaim requests that what nothing needs is removed, or ends a pod if there is nothing of that kind.
func (a *Actor) beginReclaim(o *journaletv1.PressureObserved, emit actors.Emit) {
	signal := pressure.Signal(pressure.Acting(o.GetThresholds()).GetSignal())
	containers, images := signal.Reclaim(o.GetLayout())
	var from []string
	if containers {
		for _, uid := range slices.Sorted(maps.Keys(a.state.Pods)) {
			if pod := a.state.Pods[uid]; pod.GetTerminated() && !pod.GetReclaimRequested() {
				from = append(from, uid)
			}
		}
	}
	if len(from) == 0 && !images {
		a.evictOne(o, emit)
		return
	}
	next := &journaletv1.EvictionProgressed{
		Stage: reclaiming, Signal: string(signal), WaitingFor: from, Images: images,
	}
	a.progressEviction(next, evictionWait, emit)
	for _, uid := range from {
		q := &journaletv1.PodReclaimRequested{Uid: uid, Containers: true}
		emit(messages.NewEvent(q))
	}
	if !images {
		return
	}
	emit(messages.NewEvent(&journaletv1.ImageReclaimRequested{}))
}

// readmitEvicted admits again what pressure has ended, once the node has no condition of it: the transition period
// keeps a pod that causes the pressure from coming back at once.
func (a *Actor) readmitEvicted(emit actors.Emit) {
	if len(a.state.Pressure.GetConditions()) > 0 {
		return
	}
	for _, uid := range slices.Clone(a.state.Pressure.GetEnded()) {
		emit(messages.NewEvent(&journaletv1.PodReadmitted{Uid: uid}))
	}
}

// evictOne ends the first pod of the ranking. If the ranking is empty, the node measures again after a while.
func (a *Actor) evictOne(o *journaletv1.PressureObserved, emit actors.Emit) {
	t := pressure.Acting(o.GetThresholds())
	all := a.evictable(o)
	if len(all) == 0 {
		a.nothingToEvict(t, emit)
		return
	}
	pressure.Rank(all, pressure.Signal(t.GetSignal()), o.GetLayout())
	victim := all[0]
	next := &journaletv1.EvictionProgressed{Stage: ending, Signal: t.GetSignal(), WaitingFor: []string{victim.UID}}
	a.progressEviction(next, evictionWait, emit)
	grace := durationpb.New(hardGrace)
	if t.GetSoft() {
		grace = a.state.GetConfig().GetEviction().GetMaxPodGrace()
	}
	again, message := a.local(victim.UID), evictionMessage(t, victim.Usage)
	if again {
		message += messageAgain
	}
	emit(messages.NewEvent(&journaletv1.PodEvictionDecided{
		Uid: victim.UID, Reason: ReasonEvicted, Message: message, Grace: grace,
		Signal: t.GetSignal(), Resource: string(pressure.Signal(t.GetSignal()).Resource()),
		Containers: victim.Usage.GetContainers(), ReadmittedAfterPressure: again,
	}))
}

// evictable returns the pods that run and are not critical, in no order that counts. In a cluster pods of local sources
// are critical, as for the kubelet: they carry what the other pods need (ADR 088).
func (a *Actor) evictable(o *journaletv1.PressureObserved) []pressure.Candidate {
	usage := map[string]*journaletv1.PodUsage{}
	for _, u := range o.GetPods() {
		usage[u.GetUid()] = u
	}
	cluster := a.inCluster()
	var all []pressure.Candidate
	for _, uid := range slices.Sorted(maps.Keys(a.state.Pods)) {
		p := a.state.Pods[uid]
		// One without a sandbox has nothing to give back.
		if p.GetTerminated() || p.GetPriority() >= systemCritical || usage[uid] == nil || cluster && a.local(uid) {
			continue
		}
		all = append(all, pressure.Candidate{
			UID: uid, Priority: p.GetPriority(), MemoryRequest: p.GetDemand().GetMemoryBytes(),
			StorageRequest: p.GetDemand().GetEphemeralStorageBytes(), Usage: usage[uid],
		})
	}
	return all
}

// nothingToEvict ends a cycle without a victim.
func (a *Actor) nothingToEvict(t *journaletv1.ThresholdMet, emit actors.Emit) {
	retry := time.Duration(0)
	if a.state.GetRunning() > 0 {
		retry = evictionRetry
	}
	a.progressEviction(&journaletv1.EvictionProgressed{Signal: t.GetSignal()}, retry, emit)
}

// retryEviction requests that it is measured again if a threshold still acts after nothing was left to end.
func (a *Actor) retryEviction(e actors.Event, emit actors.Emit) {
	p := a.state.Pressure
	waits := a.state.GetTimers().GetSet()[evictionTimer] != nil
	if p.GetSignal() == "" || pressure.Acting(p.GetThresholds()) == nil || waits {
		return
	}
	if e.Body.GetTimerFired() != nil {
		a.measure(measuring, 0, emit)
		return
	}
	if e.Body.GetAdmissionRequested() == nil || a.state.GetRunning() == 0 {
		return
	}
	emit(actors.SetTimer(a.state.GetTimers(), evictionTimer, evictionRetry))
}

// reclaimVictim requests that a victim that has terminated frees what it holds.
func (a *Actor) reclaimVictim(e actors.Event, emit actors.Emit) {
	p, uid := a.state.Pressure, e.Body.GetPodTerminated().GetUid()
	if !a.endsVictim(uid) {
		return
	}
	onDisk := pressure.Signal(p.GetSignal()).Condition() == corev1.NodeDiskPressure
	emit(messages.NewEvent(&journaletv1.PodReclaimRequested{Uid: uid, Containers: onDisk}))
}

// endsVictim reports whether a pod is a victim of pressure that is to end and to free what it holds.
func (a *Actor) endsVictim(uid string) bool {
	p := a.state.Pressure
	return p.GetStage() == ending && uid != "" && slices.Contains(p.GetWaitingFor(), uid)
}

// evictionMessage returns the message of a pod that is evicted, in the kubelet's words (pkg/kubelet/eviction).
func evictionMessage(t *journaletv1.ThresholdMet, u *journaletv1.PodUsage) string {
	signal := pressure.Signal(t.GetSignal())
	quantity := t.GetQuantity()
	if quantity == "" {
		quantity = quantityOf(signal, t.GetThreshold(), true)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "The node was low on resource: %s. ", signal.Resource())
	fmt.Fprintf(&out, "Threshold quantity: %s, available: %s. ", quantity, quantityOf(signal, t.GetAvailable(), false))
	if r := u.GetOwnRequest(); r != nil {
		fmt.Fprintf(&out, "Pod %s was using %s, request is %s, has larger consumption of %s. ", r.GetName(), r.GetUsed(),
			r.GetRequest(), signal.Resource())
	}
	for _, c := range u.GetContainers() {
		fmt.Fprintf(&out, "Container %s was using %s, request is %s, has larger consumption of %s. ", c.GetContainer(),
			c.GetUsed(), c.GetRequest(), signal.Resource())
	}
	return out.String()
}

// quantityOf returns an amount as the kubelet prints it: a share of a capacity is always binary there.
func quantityOf(s pressure.Signal, n int64, share bool) string {
	format := resource.DecimalSI
	if s.Bytes() || share {
		format = resource.BinarySI
	}
	return resource.NewQuantity(n, format).String()
}
