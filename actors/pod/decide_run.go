package pod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
)

// run brings an admitted pod to what its manifest desires: volumes and sandbox first, then the init containers in their
// order, then every main container, those behind a postStart hook once it has ended; an ephemeral container as soon as
// the sandbox is there. It corresponds to the kubelet's computePodActions.
func (d *step) run() {
	if d.manifest == nil {
		return
	}
	if d.LeftAlone() {
		d.leaveAlone()
		return
	}
	d.stopStrays()
	if d.evict() {
		return
	}
	if d.restartAll() {
		return
	}
	if d.done() || d.initFailed() {
		d.conclude()
		return
	}
	if d.deadline() {
		return
	}
	d.requestResize()
	if d.refusedDevices() || d.exceedsAttachLimit() {
		return
	}
	d.setUp()
	if d.state.GetSandboxId() == "" || d.unfit() != "" {
		return
	}
	d.startEphemeral()
	initialized := d.initialize()
	for i := range d.containers() {
		if !initialized {
			break
		}
		d.reconcileInOrder(&d.containers()[i])
	}
	d.applyResources()
	d.place(false)
	d.leaveFoundCPUs()
	d.removeOld()
}

// stopStrays stops containers that run outside the pod's sandbox, and, after a lost journal, containers that the
// manifest does not have.
func (d *step) stopStrays() {
	for _, c := range d.state.GetObserved().GetContainers() {
		if !alive(c) || d.calling(forContainer(c.GetName())) {
			continue
		}
		reason := ""
		switch {
		case d.spec(c.GetName()) == nil:
			reason = "container is not in the manifest"
		case c.GetSandboxId() != d.state.GetSandboxId():
			reason = "its sandbox is not the pod's"
		case d.unfit() != "":
			reason = d.unfit()
		case c.GetId() != d.record(c.GetName()).GetCurrent().GetId():
			reason = "a newer instance has taken its place"
		case exited(d.record(c.GetName()).GetCurrent()):
			reason = "it counts as having ended"
		}
		if reason == "" {
			continue
		}
		d.stop(c, reason)
	}
}

// setUp requests the sandbox and the volumes that the pod lacks.
func (d *step) setUp() {
	d.reportNameHolder()
	d.setUpVolumes()
	d.allocateDevices()
	d.prepareClaims()
	if d.state.GetSandboxId() != "" && d.unfit() == "" || d.calling(sandboxCall) || d.AnyAlive() {
		return
	}
	if d.unfit() != "" && d.anyStarting() {
		return // its grace period comes first
	}
	// A dead sandbox holds its address and the pod's host ports until it is stopped.
	if !d.stopSandboxes(d.holdsNetwork) {
		return
	}
	if !d.claimsReady() {
		return // a driver of network devices wants to know of them before the sandbox is there
	}
	if wait := d.sandboxWait(); wait > 0 {
		d.timer(sandboxTimer, wait)
		return
	}
	d.requestCall(&journaletv1.RunSandbox{
		Attempt: d.state.GetNextSandboxAttempt(), Digest: d.state.GetPod().GetDigest(),
		HostNetwork: d.manifest.Spec.HostNetwork, AllocatedDigest: d.state.GetAllocatedDigest(),
		UserNamespace: d.state.GetUserNamespace(), ExclusiveCpus: d.exclusiveCPUs(), Given: d.given(),
	})
}

// reportNameHolder reports an earlier pod of this one's name to the node, once: no source names it any more, and this
// pod's sandbox is not created while a container of it runs (ADR 113).
func (d *step) reportNameHolder() {
	for _, e := range d.in.Events {
		holder := e.Body.GetCallFinished().GetNameHolderUid()
		if holder == "" || holder == d.self.ID || holder == d.state.GetNameHolderUid() {
			continue
		}
		d.decide(&journaletv1.OrphanFound{
			Uid: holder, Namespace: d.manifest.Namespace, Name: d.manifest.Name,
		})
	}
}

// anyStarting reports whether a container is being started, or was and is not observed since.
func (d *step) anyStarting() bool {
	for c := range containers.All(d.manifest) {
		if d.calling(startOf(c.Name)) || alive(d.record(c.Name).GetCurrent()) {
			return true
		}
	}
	return false
}

func sandboxCall(r *journaletv1.CallRequested) bool {
	return r.GetRunSandbox() != nil || r.GetStopSandbox() != nil || r.GetRemoveSandbox() != nil
}

// volumesCall matches the call that sets up volumes. What tears them down waits for it.
func volumesCall(r *journaletv1.CallRequested) bool { return r.GetSetUpVolumes() != nil }

// reconcileContainer brings one container to what its manifest desires.
func (d *step) reconcileContainer(c *corev1.Container) {
	r := d.record(c.Name)
	if d.calling(forContainer(c.Name)) {
		return
	}
	cur := r.GetCurrent()
	switch {
	case alive(cur) && d.wasStopped(cur):
		return
	case cur.GetState() == journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN:
		d.stop(cur, d.unknownReason(c))
	case running(cur) && cur.GetHash() != "" && cur.GetHash() != ContainerHash(c) && !d.runsToCompletion(c):
		// A running init container keeps running to its end, as with the kubelet.
		d.stop(cur, reasonChanged)
	case running(cur) && r.GetRestartRequested():
		d.stop(cur, reasonRestart)
	case running(cur) && d.restartsToResize(c):
		d.stop(cur, reasonResize)
	case running(cur):
		d.postStart(c)
		d.probe(c)
	case !d.volumesReady(c) || !d.devicesReady(c.Name) || !d.claimsReady():
		return
	case d.created(r) != nil:
		d.startCreated(c, d.created(r))
	case cur != nil && !d.restarts(c, r):
		return
	default:
		d.start(c, r)
	}
}

// start starts a container once its back-off has passed, its image is there, and so is what its environment refers to.
func (d *step) start(c *corev1.Container, r *journaletv1.ContainerRecord) {
	if wait := d.left(r.GetStartFailedAt(), startDelay(r.GetStartFailures(), d.maxStartDelay(r))); wait > 0 {
		d.timer(startTimer+c.Name, wait)
		return
	}
	if d.otherAlive(r) {
		// The older instance is being stopped: two instances of a container never run at once.
		return
	}
	if d.missesImage(c, r) {
		// The wait of the back-off was over before the start that found no image.
		d.requestImages(c, r)
		return
	}
	delay, wait := d.backOff(c, r)
	if wait > 0 {
		d.timer(backOffTimer+c.Name, wait)
		return
	}
	if d.needsImages(c, r) {
		d.requestImages(c, r)
		return
	}
	d.clearDelays(c.Name)
	if d.hookAwaited != "" {
		return
	}
	if held, _ := d.lacking(references.OfContainer(c)); held || d.targetProblem(c.Name) != "" {
		return
	}
	if !d.preStart(c, r) {
		return
	}
	if delay != nil {
		d.decide(delay)
	}
	start := &journaletv1.StartContainer{
		Container: c.Name, Attempt: r.GetNextAttempt(), Digest: d.state.GetPod().GetDigest(),
		SandboxId: d.state.GetSandboxId(), PodIps: d.podIPs(), PulledForStart: r.GetImageReady(),
		Init: d.isInit(c.Name), AllocatedDigest: d.state.GetAllocatedDigest(), PulledVolumeImages: pulledVolumeImages(r),
		UserNamespace: d.state.GetUserNamespace(), Ephemeral: d.isEphemeral(c.Name),
		TargetContainerId: d.target(c.Name).GetId(), Devices: d.devicesOf(c.Name), Placement: d.placement(c.Name),
		ClaimDevices: d.claimDevices(c),
	}
	if d.atMostOnce(c) {
		start.Part = journaletv1.StartPart_START_PART_CREATE
	} else {
		start.AtLeastOnce = d.never(c)
	}
	d.requestCall(start)
}

// clearDelays clears the timers of a container's delays. One that is no longer needed must not cut the next wait short.
func (d *step) clearDelays(container string) {
	for _, timer := range []string{startTimer, backOffTimer} {
		d.clearTimer(timer + container)
	}
}

// otherAlive reports whether an older instance of a container runs.
func (d *step) otherAlive(r *journaletv1.ContainerRecord) bool {
	for _, c := range d.state.GetObserved().GetContainers() {
		if c.GetName() == r.GetName() && c.GetId() != r.GetCurrent().GetId() && alive(c) {
			return true
		}
	}
	return false
}

// needsImage reports whether the image has to be pulled before the next start. With Always it is pulled for each start,
// otherwise only where the last start did not find it.
func (d *step) needsImage(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	if r.GetImageReady() {
		return false
	}
	switch c.ImagePullPolicy {
	case corev1.PullNever:
		return false
	case corev1.PullAlways:
		return true
	}
	return r.GetImageMissing()
}

// startCreated starts the instance that is created.
func (d *step) startCreated(c *corev1.Container, m *journaletv1.CreatedContainer) {
	d.requestCall(&journaletv1.StartContainer{
		Container: c.Name, Attempt: m.GetAttempt(), Digest: d.state.GetPod().GetDigest(), SandboxId: m.GetSandboxId(),
		Part: journaletv1.StartPart_START_PART_START, ContainerId: m.GetContainerId(), Init: d.isInit(c.Name),
		UserNamespace: d.state.GetUserNamespace(), Ephemeral: d.isEphemeral(c.Name),
	})
}

// initialize brings the init containers to where they should be, and reports whether the main ones may start.
func (d *step) initialize() bool {
	inits, current := d.initContainers(), d.currentInit()
	for i := range inits {
		if i > current || i < current && !isSidecar(&inits[i]) {
			continue
		}
		d.reconcileInOrder(&inits[i])
	}
	return current == len(inits)
}

// done reports whether every main container has ended and none is to start again. Sidecars do not keep a pod running.
func (d *step) done() bool {
	for i := range d.containers() {
		c := &d.containers()[i]
		r := d.record(c.Name)
		if !exited(r.GetCurrent()) || d.restarts(c, r) || d.calling(forContainer(c.Name)) {
			return false
		}
	}
	return true
}

// conclude ends a pod that has nothing left to do. What still runs, or is under way, is ended first.
func (d *step) conclude() {
	if d.anyUnderWay() || d.usesClaims() {
		d.decide(new(journaletv1.PodTerminating))
		return
	}
	if d.AnyAlive() {
		return // a container that is not in the manifest is being stopped; until then it has the pod's resources
	}
	d.reportTerminated()
}

// anyUnderWay reports whether something of the pod runs or was requested. Of a pod with main containers alone that can
// be a sandbox: its sandbox has vanished, and then the last container turned out to have ended.
func (d *step) anyUnderWay() bool {
	if d.calling(func(r *journaletv1.CallRequested) bool { return r.GetRunSandbox() != nil }) {
		return true
	}
	if len(d.initContainers()) == 0 && len(d.manifest.Spec.EphemeralContainers) == 0 {
		return false
	}
	for c := range containers.All(d.manifest) {
		r := d.record(c.Name)
		if alive(r.GetCurrent()) || awaitsImages(r) || d.calling(forContainer(c.Name)) {
			return true
		}
	}
	return d.calling(volumesCall)
}
