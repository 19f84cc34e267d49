package pod

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The stages, short.
const (
	unknown     = journaletv1.PodStage_POD_STAGE_UNSPECIFIED
	admitting   = journaletv1.PodStage_POD_STAGE_ADMITTING
	runningPod  = journaletv1.PodStage_POD_STAGE_RUNNING
	terminating = journaletv1.PodStage_POD_STAGE_TERMINATING
	terminated  = journaletv1.PodStage_POD_STAGE_TERMINATED
	cleaning    = journaletv1.PodStage_POD_STAGE_CLEANING
	finished    = journaletv1.PodStage_POD_STAGE_FINISHED
)

// Evolve folds one event.
func (a *Actor) Evolve(e actors.Event) error {
	s := a.state
	if fired := actors.FoldTimer(s.Timers, e); fired != "" {
		a.evolveTimerFired(fired)
	}
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		a.evolveAgentStarted(k.AgentStarted)
	case *journaletv1.Event_FoundCpusLeft:
		a.evolveFoundCPUsLeft()
	case *journaletv1.Event_OrphanFound:
		a.evolveOrphanFound(e, k.OrphanFound)
	case *journaletv1.Event_OrphanConfirmed:
		a.evolveOrphanConfirmed(e, k.OrphanConfirmed.GetGrace())
	case *journaletv1.Event_PodUpdated:
		return a.evolveUpdated(e, k.PodUpdated)
	case *journaletv1.Event_AdmissionRequested:
		s.AdmissionRequested, s.Incarnation = true, k.AdmissionRequested.GetIncarnation()
	case *journaletv1.Event_AdmissionDeferred:
		a.evolveDeferred(k.AdmissionDeferred)
	case *journaletv1.Event_AdmissionPendingPreemption:
		a.evolvePendingPreemption(e, k.AdmissionPendingPreemption)
	case *journaletv1.Event_AdmissionDecided:
		a.evolveAdmission(e, k.AdmissionDecided)
	case *journaletv1.Event_PodObserved:
		a.evolveObserved(k.PodObserved)
	case *journaletv1.Event_PodCgroupLost:
		a.evolveCgroupLost()
	case *journaletv1.Event_CallRequested:
		a.evolveCallRequested(e, k.CallRequested)
	case *journaletv1.Event_CallWithdrawn:
		if c := s.Calls[k.CallWithdrawn.GetIntentId()]; c != nil {
			c.Withdrawn = true
		}
	case *journaletv1.Event_CallDropped:
		delete(s.Calls, k.CallDropped.GetIntentId())
	case *journaletv1.Event_CallFinished:
		a.evolveCallFinished(e, k.CallFinished)
	case *journaletv1.Event_ImagePullRequested:
		a.state.PullCredentialsChanged = false
		a.evolvePullRequested(k.ImagePullRequested.GetImage())
	case *journaletv1.Event_ImagePullWithdrawn:
		a.evolvePullWithdrawn(k.ImagePullWithdrawn.GetImage())
	case *journaletv1.Event_ImagePullDecided:
		a.evolvePullDecided(k.ImagePullDecided)
	case *journaletv1.Event_BackOffStarted:
		a.evolveBackOff(e, k.BackOffStarted)
	case *journaletv1.Event_TimerSet:
		a.evolveTimerSet(k.TimerSet.GetName())
	case *journaletv1.Event_ProbesSet:
		a.evolveProbesSet(k.ProbesSet)
	case *journaletv1.Event_ProbeResult:
		a.evolveProbeResult(k.ProbeResult)
	case *journaletv1.Event_AllContainersRestarting:
		a.evolveRestartingAll(k.AllContainersRestarting)
	case *journaletv1.Event_RestartRequested:
		a.evolveRestartRequested(e, k.RestartRequested)
	case *journaletv1.Event_PodEvictionDecided:
		a.evolveEviction(e, k.PodEvictionDecided)
	case *journaletv1.Event_PodReclaimRequested:
		a.evolveReclaimRequested(k.PodReclaimRequested)
	case *journaletv1.Event_PodReclaimed:
		s.Reclaim = nil
	case *journaletv1.Event_PodReadmitted:
		a.evolveReadmitted(e)
	case *journaletv1.Event_DeviceHealthDecided:
		a.evolveDeviceHealth(k.DeviceHealthDecided)
	case *journaletv1.Event_ClaimHealthObserved:
		a.evolveClaimHealth(k.ClaimHealthObserved)
	case *journaletv1.Event_ReadinessGatesSet:
		s.ReadinessGates = k.ReadinessGatesSet.GetTypes()
	case *journaletv1.Event_ReadinessGatesRead:
		a.evolveGatesRead(e, k.ReadinessGatesRead)
	case *journaletv1.Event_ObjectsSet:
		a.evolveObjectsSet(k.ObjectsSet)
	case *journaletv1.Event_ObjectsRead:
		a.evolveObjectsRead(k.ObjectsRead)
	case *journaletv1.Event_VolumesLost:
		a.evolveVolumesLost(k.VolumesLost)
	case *journaletv1.Event_PodDirectoryFound:
		a.evolveDirectoryFound(e)
	case *journaletv1.Event_PodStatusChanged:
		a.evolveStatus(e, k.PodStatusChanged)
	case *journaletv1.Event_PodTerminating:
		a.evolveTerminating(e, k.PodTerminating)
	case *journaletv1.Event_PodTerminated:
		a.enter(terminated, e.Time)
	case *journaletv1.Event_PodFinished:
		s.RestartsGoOn = k.PodFinished.GetRestartsGoOn()
		a.enter(finished, e.Time)
	case *journaletv1.Event_ApiDeleteRequested:
		s.ApiDeleteRequested = true
	case *journaletv1.Event_ApiDeleteFinished:
		a.evolveAPIDeleteFinished(e, k.ApiDeleteFinished)
	case *journaletv1.Event_ResizeRequested:
		a.resizing().RequestedDigest = k.ResizeRequested.GetDigest()
	case *journaletv1.Event_ResizeWithdrawn:
		a.resizing().RequestedDigest, a.resizing().Deferred, a.resizing().Infeasible = "", "", false
		a.dropEmptyResize()
	case *journaletv1.Event_ResizeDecided:
		a.evolveResizeDecided(e, k.ResizeDecided)
	case *journaletv1.Event_SharedCpusDecided:
		s.SharedCpus = k.SharedCpusDecided.GetCpus()
	case *journaletv1.Event_ResizePendingPreemption:
		a.evolveResizePendingPreemption(e, k.ResizePendingPreemption)
	case *journaletv1.Event_ResizeStarted:
		a.resizing().InProgress = true
	case *journaletv1.Event_ResizeCompleted:
		s.Resize.InProgress, s.Resize.Error = false, ""
		a.dropEmptyResize()
	}
	return nil
}

func (a *Actor) evolveAgentStarted(k *journaletv1.AgentStarted) {
	a.state.MaxBackOff, a.state.CpuQuota = k.GetConfig().GetMaxContainerBackOff(), k.GetConfig().GetCpuQuota()
	a.state.PullsForPods = k.GetConfig().GetPullsForPods()
	a.state.TrustsFirstInspection = k.GetConfig().GetTrustsFirstInspection()
	without := k.GetConfig().GetPullsWithoutServiceAccount()
	if a.state.GetPullsWithoutServiceAccount() && !without {
		a.renewCredentials()
	}
	a.state.PullsWithoutServiceAccount = without
	if a.state.Observed != nil {
		// No inspection of an earlier run is still to come, and the clock may have been set back since.
		a.changeObserved().ObservedAt = nil
	}
	a.evolveBoot(k.GetBootId())
	a.forgetPreStarts()
	a.forgetCreationTimes()
}

// enter has the pod enter a stage. A removed pod is cleaned up as soon as it has terminated.
func (a *Actor) enter(stage journaletv1.PodStage, at time.Time) {
	s := a.state
	switch stage {
	case runningPod:
		s.AdmittedAt = timestamppb.New(at)
	case terminating:
		s.TerminatingAt = timestamppb.New(at)
		a.resetClaimFailures() // why claims were not prepared is no reason to wait with the end
	case terminated:
		if a.ends() {
			stage = cleaning
		}
	case finished:
		s.Observed = nil // what is observed from now on belongs to the next incarnation
	}
	s.Stage = stage
}

// evolveOrphanFound folds that this pod is an orphan, or that it has reported an earlier pod of its name as one.
func (a *Actor) evolveOrphanFound(e actors.Event, o *journaletv1.OrphanFound) {
	switch s := a.state; {
	case o.GetUid() != a.self.ID:
		s.NameHolderUid = o.GetUid()
	case s.GetStage() == unknown:
		s.OrphanFoundAt = timestamppb.New(e.Time)
	}
}

func (a *Actor) evolveOrphanConfirmed(e actors.Event, grace *durationpb.Duration) {
	if a.state.GetStage() == unknown {
		a.state.Orphan, a.state.Grace = true, grace
		a.enter(cleaning, e.Time)
	}
}

// evolveUpdated folds what the source desires. A manifest that is no update of what runs belongs to another incarnation
// (ADR 024): this one ends, and the source, which receives PodFinished, adds the pod again. A pod that is not admitted,
// or was rejected or evicted, runs nothing that could be updated.
func (a *Actor) evolveUpdated(e actors.Event, u *journaletv1.PodUpdated) error {
	s := a.state
	if s.GetSource() != "" && s.GetSource() != u.GetSource() && s.GetStage() != finished {
		// The node keeps two sources from having one UID at a time. If it could not, the pod stays the first one's.
		return nil
	}
	switch u.GetOperation() {
	case journaletv1.PodOperation_POD_OPERATION_ADD:
		return a.evolveAdded(e, u)
	case journaletv1.PodOperation_POD_OPERATION_UPDATE:
		switch {
		case a.ofAPI():
			a.evolveAPIUpdated(e, u)
		case s.Removed, s.GetStage() == cleaning:
			// The new manifest is for the next incarnation: what is cleaned up may be an orphan.
		case s.GetStage() == admitting, s.Rejected, a.evicted(), !UpdateAllowed(a.desired, e.Manifest):
			a.evolveRemoved(e, nil)
		default:
			a.resetChangedImages(e.Manifest)
			a.evolveDesired(u, e.Manifest)
		}
	case journaletv1.PodOperation_POD_OPERATION_REMOVE:
		a.evolveRemoved(e, u.GetGrace())
	default:
		return actors.Illegal(e, s.GetStage())
	}
	return nil
}

// evolveRemoved folds that no source names the pod any more. A grace period that has begun only shrinks.
func (a *Actor) evolveRemoved(e actors.Event, most *durationpb.Duration) {
	s := a.state
	if most != nil {
		s.Grace = durationpb.New(min(a.grace(), most.AsDuration()))
	}
	s.Removed = true
	switch s.GetStage() {
	case admitting, terminated:
		a.enter(cleaning, e.Time)
	case runningPod:
		a.enter(terminating, e.Time)
	}
}

// evolveTerminating starts the termination of a pod that its source still names.
func (a *Actor) evolveTerminating(e actors.Event, k *journaletv1.PodTerminating) {
	s := a.state
	if s.GetStage() != terminating {
		a.enter(terminating, e.Time)
	}
	s.Fails = s.Fails || k.GetFailed()
	if k.GetReason() != "" {
		s.Reason, s.Message = k.GetReason(), k.GetMessage()
	}
	if k.GetGrace() != nil {
		s.Grace = k.GetGrace()
	}
}

// resetChangedImages drops what is known of images that changed: why the old one did not start is no reason to wait.
func (a *Actor) resetChangedImages(manifest *corev1.Pod) {
	for c := range containers.WithoutEphemeral(manifest) {
		if r := a.state.Containers[c.Name]; r != nil && a.spec(c.Name).Image != c.Image {
			r.ImageReady, r.ImageRequested, r.ImageMissing = false, false, false
			r.StartFailures, r.StartError, r.StartsNotRun = 0, nil, 0
		}
	}
}

// countedOn returns what the next incarnation of a pod keeps of its containers: their attempts, which the restart count
// is made of. A pod that its source removes and adds again while it ends has been restarted (kubelet: the containers
// that ended are there still, and count).
func countedOn(records map[string]*journaletv1.ContainerRecord) map[string]*journaletv1.ContainerRecord {
	kept := map[string]*journaletv1.ContainerRecord{}
	for _, name := range slices.Sorted(maps.Keys(records)) {
		if r := records[name]; r.GetNextAttempt() > 0 {
			kept[name] = &journaletv1.ContainerRecord{
				Name: name, NextAttempt: r.GetNextAttempt(), InstancesNotRun: r.GetInstancesNotRun(),
				ReportedRestarts: max(r.GetReportedRestarts(), restarts(r)),
			}
		}
	}
	return kept
}

// keptCounts returns what the next incarnation of this pod keeps of its containers: nothing, unless the end of the pod
// says that restart counts go on.
func (a *Actor) keptCounts() map[string]*journaletv1.ContainerRecord {
	if !a.state.GetRestartsGoOn() {
		return map[string]*journaletv1.ContainerRecord{}
	}
	return countedOn(a.state.GetContainers())
}

func (a *Actor) evolveAdded(e actors.Event, u *journaletv1.PodUpdated) error {
	s := a.state
	switch s.GetStage() {
	case unknown, finished:
	case cleaning:
		// Orphan cleanup is in progress; PodFinished makes the source add the pod again.
		s.Source = u.GetSource()
		return nil
	default:
		return actors.Illegal(e, s.GetStage())
	}
	next := withMaps(&journaletv1.PodState{
		Pod: u.GetPod(), Source: u.GetSource(), Stage: admitting,
		CreatedAt: timestamppb.New(e.Time), MaxBackOff: s.GetMaxBackOff(),
		PullsWithoutServiceAccount: s.GetPullsWithoutServiceAccount(), CpuQuota: s.GetCpuQuota(),
		PullsForPods: s.GetPullsForPods(), TrustsFirstInspection: s.GetTrustsFirstInspection(),
		Timers:     &journaletv1.Timers{Generation: s.GetTimers().GetGeneration()},
		RemovedIds: s.GetRemovedIds(),
	})
	if s.GetStage() == unknown {
		next.Observed, next.UsedRuntime, next.Timers = s.GetObserved(), s.GetUsedRuntime(), s.GetTimers()
	}
	next.Containers = a.keptCounts()
	// What an orphan had is this incarnation's only while the runtime shows some of it. An inspection from before the end
	// of the last incarnation may have shown what has been removed since.
	if o := s.GetObserved(); len(o.GetSandboxes())+len(o.GetContainers()) > 0 {
		next.Observed, next.Containers, next.SandboxId = o, s.GetContainers(), s.GetSandboxId()
		next.NextSandboxAttempt, next.UsedRuntime = s.GetNextSandboxAttempt(), s.GetUsedRuntime()
	}
	a.state, a.desired = withMaps(next), e.Manifest
	a.evolveOtherName(s.GetReportedAs())
	a.allocate("", nil)
	a.adoptHooks()
	if a.ofAPI() {
		a.evolveAPIAdded(e)
	}
	return nil
}

func (a *Actor) evolveAdmission(e actors.Event, d *journaletv1.AdmissionDecided) {
	s := a.state
	if d.GetIncarnation() != s.GetIncarnation() {
		return // the decision is for an earlier incarnation, which ended before it
	}
	s.HolderUid = ""
	if s.GetStage() == admitting {
		s.Reason, s.Message = "", ""
	}
	switch {
	case s.GetStage() != admitting:
		// The pod was removed while its request was open: its termination continues.
	case d.GetAdmitted():
		s.UserNamespace, s.FreshUserNamespace = d.GetUserNamespace(), d.GetFreshUserNamespace()
		s.Exclusive, s.SharedCpus, s.Found = d.GetExclusive(), d.GetSharedCpus(), d.GetFound()
		s.Rest, s.LeftAlone = d.GetRest(), d.GetReason() == actors.ReasonUnsupported
		a.evolveDevicesAllocated(d.GetDevices())
		a.enter(runningPod, e.Time)
		a.inferAllApplied()
	default:
		s.Rejected = true
		a.enter(terminated, e.Time)
		s.Reason, s.Message = d.GetReason(), "Pod was rejected: "+d.GetMessage()
	}
}

func (a *Actor) evolveStatus(e actors.Event, c *journaletv1.PodStatusChanged) {
	s := a.state
	s.Phase, s.Reason, s.Message = c.GetPhase(), c.GetReason(), c.GetMessage()
	for _, cond := range c.GetConditions() {
		last := timestamppb.New(e.Time)
		if old := s.Conditions[cond.GetType()]; old != nil && old.GetStatus() == cond.GetStatus() &&
			(!isResize(cond.GetType()) || old.GetReason() == cond.GetReason()) {
			last = old.GetLastTransition()
		}
		s.Conditions[cond.GetType()] = &journaletv1.Condition{
			Type: cond.GetType(), Status: cond.GetStatus(), Reason: cond.GetReason(),
			Message: cond.GetMessage(), LastTransition: last,
		}
	}
	for _, gone := range c.GetRemovedConditions() {
		delete(s.Conditions, gone)
	}
	for _, name := range slices.Sorted(maps.Keys(c.GetWaiting())) {
		w := c.GetWaiting()[name]
		if w.GetReason() == "" {
			w = nil
		}
		a.ensureRecord(name).Waiting = w
	}
}

// evolveRestartingAll folds that all containers are to restart, or may start now.
func (a *Actor) evolveRestartingAll(k *journaletv1.AllContainersRestarting) {
	s := a.state
	if !k.GetAllStopped() {
		s.AllContainersRestarting = k
		return
	}
	s.AllContainersRestarting, s.Restart = nil, nil
	for _, name := range slices.Sorted(maps.Keys(s.Containers)) {
		if a.isEphemeral(name) {
			continue
		}
		r := s.Containers[name]
		r.RestartedFrom, r.Created, r.Replacing = r.GetNextAttempt(), nil, false
	}
}
