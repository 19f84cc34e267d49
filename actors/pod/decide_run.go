package pod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
)

// run brings an admitted pod to what its manifest desires: volumes and sandbox first, then the init containers in their
// order, then every main container; an ephemeral container as soon as the sandbox is there. It corresponds to the
// kubelet's computePodActions.
func (d *step) run() error {
	if d.manifest == nil {
		return nil
	}
	if err := d.stopStrays(); err != nil {
		return err
	}
	if ending, err := d.evict(); ending || err != nil {
		return err
	}
	if under, err := d.restartAll(); under || err != nil {
		return err
	}
	if d.done() || d.initFailed() {
		return d.conclude()
	}
	if passed, err := d.deadline(); passed || err != nil {
		return err
	}
	if err := d.requestResize(); err != nil {
		return err
	}
	if refused, err := d.refusedDevices(); refused || err != nil {
		return err
	}
	if err := d.setUp(); err != nil {
		return err
	}
	if d.state.GetSandboxId() == "" || d.unfit() != "" {
		return nil
	}
	if err := d.startEphemeral(); err != nil {
		return err
	}
	initialized, err := d.initialize()
	if err != nil {
		return err
	}
	for i := range d.containers() {
		if !initialized {
			break
		}
		if err := d.container(&d.containers()[i]); err != nil {
			return err
		}
	}
	if err := d.applyResources(); err != nil {
		return err
	}
	if err := d.place(false); err != nil {
		return err
	}
	return d.removeOld()
}

// stopStrays stops containers that run outside the pod's sandbox, and, after a lost journal, those that the manifest
// does not have.
func (d *step) stopStrays() error {
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
		if err := d.stop(c, reason); err != nil {
			return err
		}
	}
	return nil
}

// setUp requests the sandbox and the volumes that the pod lacks.
func (d *step) setUp() error {
	if err := d.setUpVolumes(); err != nil {
		return err
	}
	if err := d.allocateDevices(); err != nil {
		return err
	}
	if err := d.prepareClaims(); err != nil {
		return err
	}
	if d.state.GetSandboxId() != "" && d.unfit() == "" || d.calling(sandboxCall) || d.AnyAlive() {
		return nil
	}
	if d.unfit() != "" && d.anyStarting() {
		return nil // its grace period comes first
	}
	// A dead sandbox holds its address and the pod's host ports until it is stopped.
	if over, err := d.stopSandboxes(d.holdsNetwork); err != nil || !over {
		return err
	}
	if !d.claimsReady() {
		return nil // a driver of network devices wants to know of them before the sandbox is there
	}
	if wait := d.sandboxWait(); wait > 0 {
		return d.timer(sandboxTimer, wait)
	}
	return d.requestCall(&journaletv1.RunSandbox{
		Attempt: d.state.GetNextSandboxAttempt(), Digest: d.state.GetPod().GetDigest(),
		HostNetwork: d.manifest.Spec.HostNetwork, AllocatedDigest: d.state.GetAllocatedDigest(),
		UserNamespace: d.state.GetUserNamespace(), ExclusiveCpus: d.exclusiveCPUs(), Given: d.given(),
	})
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

// container brings one container to what its manifest desires.
func (d *step) container(c *corev1.Container) error {
	r := d.record(c.Name)
	if d.calling(forContainer(c.Name)) {
		return nil
	}
	cur := r.GetCurrent()
	switch {
	case alive(cur) && d.wasStopped(cur):
		return nil
	case cur.GetState() == journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN:
		return d.stop(cur, d.unknownReason(c))
	case running(cur) && cur.GetHash() != "" && cur.GetHash() != ContainerHash(c) && !d.runsToCompletion(c):
		// A running init container keeps running to its end, as with the kubelet.
		return d.stop(cur, reasonChanged)
	case running(cur) && r.GetRestartRequested():
		return d.stop(cur, reasonRestart)
	case running(cur) && d.restartsToResize(c):
		return d.stop(cur, reasonResize)
	case running(cur):
		if err := d.postStart(c); err != nil {
			return err
		}
		return d.probe(c)
	case !d.volumesReady(c) || !d.devicesReady(c.Name) || !d.claimsReady():
		return nil
	case d.created(r) != nil:
		return d.startCreated(c, d.created(r))
	case cur != nil && !d.restarts(c, r):
		return nil
	}
	return d.start(c, r)
}

// start starts a container once its back-off has passed, its image is there, and so is what its environment refers to.
func (d *step) start(c *corev1.Container, r *journaletv1.ContainerRecord) error {
	if wait := d.left(r.GetStartFailedAt(), startDelay(r.GetStartFailures(), d.maxStartDelay(r))); wait > 0 {
		return d.timer(startTimer+c.Name, wait)
	}
	if d.otherAlive(r) {
		// The older instance is being stopped: two instances of a container never run at once.
		return nil
	}
	if d.missesImage(c, r) {
		// The wait of the back-off was over before the start that found no image.
		return d.requestImages(c, r)
	}
	delay, wait := d.backOff(c, r)
	if wait > 0 {
		return d.timer(backOffTimer+c.Name, wait)
	}
	if d.needsImages(c, r) {
		return d.requestImages(c, r)
	}
	if err := d.clearDelays(c.Name); err != nil {
		return err
	}
	if held, _ := d.lacking(references.OfContainer(c)); held || d.targetProblem(c.Name) != "" {
		return nil
	}
	if prepared, err := d.preStart(c, r); !prepared || err != nil {
		return err
	}
	if delay != nil {
		if err := d.decide(delay); err != nil {
			return err
		}
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
	return d.requestCall(start)
}

// clearDelays clears the timers of a container's delays. One that is no longer needed must not cut the next wait short.
func (d *step) clearDelays(container string) error {
	for _, timer := range []string{startTimer, backOffTimer} {
		if err := d.clearTimer(timer + container); err != nil {
			return err
		}
	}
	return nil
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
func (d *step) startCreated(c *corev1.Container, m *journaletv1.CreatedContainer) error {
	return d.requestCall(&journaletv1.StartContainer{
		Container: c.Name, Attempt: m.GetAttempt(), Digest: d.state.GetPod().GetDigest(), SandboxId: m.GetSandboxId(),
		Part: journaletv1.StartPart_START_PART_START, ContainerId: m.GetContainerId(), Init: d.isInit(c.Name),
		UserNamespace: d.state.GetUserNamespace(), Ephemeral: d.isEphemeral(c.Name),
	})
}

// initialize brings the init containers to where they should be, and reports whether the main ones may start.
func (d *step) initialize() (bool, error) {
	inits, current := d.initContainers(), d.currentInit()
	for i := range inits {
		if i > current || i < current && !isSidecar(&inits[i]) {
			continue
		}
		if err := d.container(&inits[i]); err != nil {
			return false, err
		}
	}
	return current == len(inits), nil
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
func (d *step) conclude() error {
	if d.anyUnderWay() || d.usesClaims() {
		return d.decide(new(journaletv1.PodTerminating))
	}
	if d.AnyAlive() {
		return nil // a container that is not in the manifest is being stopped; until then it has the pod's resources
	}
	return d.reportTerminated()
}

// anyUnderWay reports whether something of the pod runs or was requested. A pod with main containers alone has nothing
// left by then.
func (d *step) anyUnderWay() bool {
	if len(d.initContainers()) == 0 && len(d.manifest.Spec.EphemeralContainers) == 0 {
		return false
	}
	for c := range containers.All(d.manifest) {
		r := d.record(c.Name)
		if alive(r.GetCurrent()) || awaitsImages(r) || d.calling(forContainer(c.Name)) {
			return true
		}
	}
	return d.calling(func(r *journaletv1.CallRequested) bool {
		return r.GetRunSandbox() != nil || r.GetSetUpVolumes() != nil
	})
}
