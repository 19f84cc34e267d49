package pod

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// The kinds of hooks, short.
const (
	postStartHook = journaletv1.HookKind_HOOK_KIND_POST_START
	preStopHook   = journaletv1.HookKind_HOOK_KIND_PRE_STOP
)

const (
	// reasonPostStart is the stop reason of a container whose postStart hook failed, as the kubelet words it.
	reasonPostStart = "FailedPostStartHook"
	// reasonHookError is why such a container waits for its next start (kubelet: ErrPostStartHook).
	reasonHookError = "PostStartHookError"
)

// preStopTimer, followed by the container's name, ends the wait for the preStop hook of a container that ends while its
// pod keeps running: such a hook may never get its slot.
const preStopTimer = "pre-stop "

// postStart runs the postStart hook of a container that has begun to run, and ends an instance whose hook failed. A
// termination that has begun with a preStop hook is completed whatever became of its reason.
func (d *step) postStart(c *corev1.Container) {
	r := d.record(c.Name)
	cur := r.GetCurrent()
	switch e := r.GetTermination(); {
	case e != nil && e.GetContainerId() == cur.GetId():
		d.terminateContainer(cur, e.GetReason(), e.GetGrace().AsDuration())
	case r.GetStoppedAsUnhealthy() && r.GetStartError().GetReason() == reasonHookError:
		d.stop(cur, reasonPostStart)
	case postStarted(c, r) || d.hook(cur.GetId(), postStartHook) != "":
		return
	default:
		d.runHook(cur, &journaletv1.RunHook{Kind: postStartHook})
	}
}

// reconcileInOrder brings a sidecar or a main container to what its manifest desires, after the containers before it. A
// container starts once the postStart hooks of those have ended (ADR 117; kubelet: SyncPod starts one container after
// the other, and startContainer runs the hook).
func (d *step) reconcileInOrder(c *corev1.Container) {
	d.reconcileContainer(c)
	if d.hookAwaited == "" && d.hookIsDue(c) {
		d.hookAwaited = c.Name
	}
}

// hookIsDue reports whether a container is about to run its postStart hook, or runs it. A container whose last start or
// hook failed holds up no other until it is tried again, nor does one that has ended and is not started now.
func (d *step) hookIsDue(c *corev1.Container) bool {
	r := d.record(c.Name)
	cur, failed := r.GetCurrent(), r.GetStartError().GetReason()
	switch {
	case handler(c, postStartHook) == nil:
		return false
	case alive(cur):
		return !postStarted(c, r) && failed != reasonHookError
	case d.calling(startOf(c.Name)):
		return true
	case failed != "" && failed != reasonCreating:
		return false
	case exited(cur) && !d.restarts(c, r), d.state.GetTimers().GetSet()[backOffTimer+c.Name] != nil:
		return false
	}
	return d.configProblem(c) == ""
}

// preStop runs the preStop hook of an instance that is to end within what is left. over reports that its stop need not
// wait for the hook, or no longer. A hook that is late ends with its container, as with the kubelet: it has the least
// time of a stop, too.
func (d *step) preStop(c *journaletv1.ContainerObservation, reason string, left time.Duration) (over bool) {
	id := d.hook(c.GetId(), preStopHook)
	if d.record(c.GetName()).GetPreStoppedId() == c.GetId() || !running(c) {
		d.withdrawCall(id)
		return true
	}
	if left <= 0 {
		return true
	}
	if id != "" {
		return false
	}
	if spec := d.spec(c.GetName()); spec == nil || handler(spec, preStopHook) == nil {
		return true
	}
	d.runHook(c, &journaletv1.RunHook{Kind: preStopHook, Timeout: durationpb.New(left), Reason: reason})
	return false
}

func (d *step) runHook(c *journaletv1.ContainerObservation, hook *journaletv1.RunHook) {
	hook.Container, hook.ContainerId, hook.Digest = c.GetName(), c.GetId(), d.state.GetPod().GetDigest()
	if spec := d.spec(c.GetName()); handler(spec, hook.Kind).HTTPGet != nil {
		hook.PodIps = d.podIPs()
	}
	d.requestCall(hook)
}

// hook returns the id of the call under way that runs a hook of an instance, empty if no such call is under way.
func (d *step) hook(containerID string, kind journaletv1.HookKind) string {
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		h := d.state.Calls[id].GetRequest().GetRunHook()
		if h.GetContainerId() == containerID && h.GetKind() == kind {
			return id
		}
	}
	return ""
}

// withdrawHooks withdraws the hooks of instances that have ended: nothing waits for them.
func (d *step) withdrawHooks() {
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		h := d.state.Calls[id].GetRequest().GetRunHook()
		if h == nil || d.maybeRunning(h.GetContainer(), h.GetContainerId()) {
			continue
		}
		d.withdrawCall(id)
		d.clearTimer(preStopTimer + h.GetContainer())
	}
}

// withdrawCall withdraws a call, once.
func (d *step) withdrawCall(id string) {
	if c := d.state.Calls[id]; c == nil || c.GetWithdrawn() {
		return
	}
	d.decide(&journaletv1.CallWithdrawn{IntentId: id})
}
