package pod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// startMade starts the instance that was made.
func (d *step) startMade(c *corev1.Container, m *journaletv1.CreatedContainer) error {
	return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_StartContainer{StartContainer: &journaletv1.StartContainer{
		Container: c.Name, Attempt: m.GetAttempt(), Digest: d.state.GetPod().GetDigest(), SandboxId: m.GetSandboxId(),
		Part: journaletv1.StartPart_START_PART_START, ContainerId: m.GetContainerId(), Init: d.isInit(c.Name),
	}}})
}

// initialize brings the init containers to where they should be, and tells whether the main ones may start.
func (d *step) initialize() (bool, error) {
	inits, turn := d.initContainers(), d.turn()
	for i := range inits {
		if i > turn || i < turn && !isSidecar(&inits[i]) {
			continue
		}
		if err := d.container(&inits[i]); err != nil {
			return false, err
		}
	}
	return turn == len(inits), nil
}

// done tells whether every main container has ended and none is to start again. Sidecars keep no pod alive.
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

// conclude ends a pod that nothing is left to do for. What still runs, or was begun, is ended first.
func (d *step) conclude() error {
	if d.anyAtWork() {
		return d.beginEnd(new(journaletv1.PodTerminating))
	}
	if d.anyAlive() {
		return nil // it is no longer in the manifest, and is being stopped; until then it has the pod's share
	}
	return d.tellTerminated()
}

// anyAtWork tells whether something of the pod runs or was begun. A pod without init containers has nothing left by then.
func (d *step) anyAtWork() bool {
	if len(d.initContainers()) == 0 {
		return false
	}
	for c := range d.all() {
		r := d.record(c.Name)
		if alive(r.GetCurrent()) || r.GetImageRequested() || d.calling(forContainer(c.Name)) {
			return true
		}
	}
	return d.calling(func(r *journaletv1.CallRequested) bool {
		return r.GetRunSandbox() != nil || r.GetSetUpVolumes() != nil
	})
}

func (d *step) beginEnd(e *journaletv1.PodTerminating) error {
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_PodTerminating{PodTerminating: e}})
}

// run brings an admitted pod to what its manifest says: volumes and sandbox first, then the init containers in their order,
// then every main container. It corresponds to what the kubelet computes in computePodActions.
func (d *step) run() error {
	if d.manifest == nil {
		return nil
	}
	if err := d.stopStrays(); err != nil {
		return err
	}
	if under, err := d.restartAll(); under || err != nil {
		return err
	}
	if d.done() || d.failedToInitialize() {
		return d.conclude()
	}
	if passed, err := d.deadline(); passed || err != nil {
		return err
	}
	if err := d.askResize(); err != nil {
		return err
	}
	if err := d.setUp(); err != nil {
		return err
	}
	if d.state.GetSandboxId() == "" || !d.volumesReady() {
		return nil
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
	if err := d.actuate(); err != nil {
		return err
	}
	return d.removeOld()
}

// stopStrays stops containers that run outside the sandbox that the pod is to run in, and those that an agent which has lost
// its journal finds and the manifest does not have.
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

// setUp asks for the sandbox and the volumes that the pod lacks.
func (d *step) setUp() error {
	if !d.volumesReady() && !d.calling(volumesCall) {
		wait := d.left(d.state.GetVolumeFailedAt(), setUpDelay(d.state.GetVolumeFailures()))
		if wait > 0 {
			if err := d.timer(volumesTimer, wait); err != nil {
				return err
			}
		} else if err := d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_SetUpVolumes{
			SetUpVolumes: &journaletv1.SetUpVolumes{Digest: d.state.GetPod().GetDigest()},
		}}); err != nil {
			return err
		}
	}
	if d.state.GetSandboxId() != "" || d.calling(sandboxCall) || d.anyAlive() {
		return nil
	}
	// What is dead holds its address and the pod's host ports until it is stopped.
	if over, err := d.stopSandboxes(d.holds); err != nil || !over {
		return err
	}
	if wait := d.sandboxWait(); wait > 0 {
		return d.timer(sandboxTimer, wait)
	}
	return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_RunSandbox{RunSandbox: &journaletv1.RunSandbox{
		Attempt: d.state.GetNextSandboxAttempt(), Digest: d.state.GetPod().GetDigest(),
		HostNetwork: d.manifest.Spec.HostNetwork, AllocatedDigest: d.state.GetAllocatedDigest(),
	}}})
}

func sandboxCall(r *journaletv1.CallRequested) bool {
	return r.GetRunSandbox() != nil || r.GetStopSandbox() != nil || r.GetRemoveSandbox() != nil
}

// volumesCall matches the call that sets up volumes: what takes them down waits for it.
func volumesCall(r *journaletv1.CallRequested) bool { return r.GetSetUpVolumes() != nil }

// anyAlive tells whether something still runs: a new sandbox waits for it, since two instances of a
// container must never run at once.
func (d *step) anyAlive() bool {
	for _, c := range d.state.GetObserved().GetContainers() {
		if alive(c) {
			return true
		}
	}
	return false
}

// volumesReady is true at once for a pod without volumes.
func (d *step) volumesReady() bool {
	return d.state.GetVolumesReady() || len(d.manifest.Spec.Volumes) == 0
}

// container brings one container to what its manifest says.
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
	case running(cur) && cur.GetHash() != "" && cur.GetHash() != ContainerHash(c) && !d.runsOnce(c):
		// A running init container goes on to its end, as with the kubelet.
		return d.stop(cur, reasonChanged)
	case running(cur) && d.restartsToResize(c):
		return d.stop(cur, reasonResize)
	case running(cur):
		if err := d.postStart(c); err != nil {
			return err
		}
		return d.probe(c)
	case d.made(r) != nil:
		return d.startMade(c, d.made(r))
	case cur != nil && !d.restarts(c, r):
		return nil
	}
	return d.start(c, r)
}

// start starts a container whose back-off has passed and whose image is there.
func (d *step) start(c *corev1.Container, r *journaletv1.ContainerRecord) error {
	if wait := d.left(r.GetStartFailedAt(), startDelay(r.GetStartFailures(), d.maxBackOff())); wait > 0 {
		return d.timer(startTimer+c.Name, wait)
	}
	if d.otherAlive(r) {
		// It is being stopped: two instances of a container never run at once.
		return nil
	}
	if r.GetImageMissing() && d.needsImage(c, r) {
		// The back-off was waited out before the start that found no image.
		return d.askImage(c, r)
	}
	delay, wait := d.backOff(c, r)
	if wait > 0 {
		return d.timer(backOffTimer+c.Name, wait)
	}
	if d.needsImage(c, r) {
		return d.askImage(c, r)
	}
	for _, timer := range []string{startTimer, backOffTimer} {
		// One that was overtaken must not cut the next wait short.
		if err := d.clearTimer(timer + c.Name); err != nil {
			return err
		}
	}
	if delay != nil {
		if err := d.emit(&journaletv1.Event{Kind: &journaletv1.Event_BackOffStarted{BackOffStarted: delay}}); err != nil {
			return err
		}
	}
	start := &journaletv1.StartContainer{
		Container: c.Name, Attempt: r.GetNextAttempt(), Digest: d.state.GetPod().GetDigest(),
		SandboxId: d.state.GetSandboxId(), PodIps: d.podIPs(), PulledForStart: r.GetImageReady(),
		Init: d.isInit(c.Name), AllocatedDigest: d.state.GetAllocatedDigest(),
	}
	if d.onlyOnce(c) {
		start.Part = journaletv1.StartPart_START_PART_CREATE
	} else {
		start.AtLeastOnce = d.never(c)
	}
	return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_StartContainer{StartContainer: start}})
}

// askImage has the image pulled, unless that is under way.
func (d *step) askImage(c *corev1.Container, r *journaletv1.ContainerRecord) error {
	if r.GetImageRequested() {
		return nil
	}
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_ImagePullRequested{
		ImagePullRequested: &journaletv1.ImagePullRequested{Uid: d.self.ID, Image: c.Image},
	}})
}

// otherAlive tells whether another instance of a container than its newest one runs.
func (d *step) otherAlive(r *journaletv1.ContainerRecord) bool {
	for _, c := range d.state.GetObserved().GetContainers() {
		if c.GetName() == r.GetName() && c.GetId() != r.GetCurrent().GetId() && alive(c) {
			return true
		}
	}
	return false
}

// needsImage tells whether the image has to be pulled before the next start. With Always it is
// pulled for each start; otherwise only where the last start found none.
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
