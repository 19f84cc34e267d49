package events

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
)

// maxCalls bounds the calls under way that are remembered.
const maxCalls = 10_000

func (d *deriver) callRequested(id, uid string, c *journaletv1.CallRequested) {
	if len(d.calls) < maxCalls {
		d.calls[id] = c
	}
	kill := func(container, reason string) {
		d.add(uid, container, corev1.EventTypeNormal, "Killing", "%s", killing(container, reason))
	}
	if stop := c.GetStopContainer(); stop != nil {
		if !d.killing[stop.GetContainerId()] {
			kill(stop.GetContainer(), stop.GetReason())
		}
		delete(d.killing, stop.GetContainerId())
	}
	if hook := c.GetRunHook(); hook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
		if len(d.killing) < maxCalls {
			d.killing[hook.GetContainerId()] = true
		}
		kill(hook.GetContainer(), hook.GetReason())
	}
	if run := c.GetRunSandbox(); run != nil && !run.GetHostNetwork() {
		d.networkNotReady(uid)
	}
	if c.GetRunSandbox().GetAttempt() > 0 {
		d.add(uid, "", corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
}

// killing returns the message of a stop by its reason.
func killing(container, reason string) string {
	switch {
	case strings.Contains(reason, " failed ") && strings.Contains(reason, " probe"):
		return reason
	case reason == "container definition changed":
		return fmt.Sprintf("Container %s definition changed, will be restarted", container)
	}
	return "Stopping container " + container
}

func (d *deriver) callFinished(f *journaletv1.CallFinished) {
	c := d.calls[f.GetIntentId()]
	delete(d.calls, f.GetIntentId())
	if c == nil {
		return
	}
	if c.GetRemoveImage() != nil {
		d.imageRemoved(f)
		return
	}
	uid := c.GetPodUid()
	if c.GetSetUpVolumes().GetCsi() { // no other volume is a block device
		d.mapped(uid, f)
	}
	if f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
		d.started(uid, c.GetStartContainer())
		return
	}
	warn := func(container, reason, format string, args ...any) {
		d.add(uid, container, corev1.EventTypeWarning, reason, format, args...)
	}
	hook := c.GetRunHook()
	switch {
	case hook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP:
		warn(hook.GetContainer(), "FailedPreStopHook", "PreStopHook failed")
	case hook == nil && !kind.Failed(f.GetError()), f.GetError() == journaletv1.CallError_CALL_ERROR_WITHDRAWN:
	case hook != nil:
		warn(hook.GetContainer(), "FailedPostStartHook", "PostStartHook failed")
	case c.GetRunSandbox() != nil:
		warn("", "FailedCreatePodSandBox", "Failed to create pod sandbox: %s", f.GetMessage())
	case c.GetSetUpVolumes() != nil:
		d.volumes(uid, f)
	case c.GetReadClaims() != nil, c.GetPrepareClaims() != nil:
		warn("", "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: %s", f.GetMessage())
	case c.GetRemoveContainer() != nil:
		d.node(corev1.EventTypeWarning, "ContainerGCFailed", f.GetMessage())
	case c.GetStopContainer() != nil, c.GetStopSandbox() != nil, c.GetRemoveSandbox() != nil:
		warn("", "FailedKillPod", "error killing pod: %s", f.GetMessage())
	case c.GetPreStartContainer() != nil:
		warn(c.GetPreStartContainer().GetContainer(), reasonFailed, "Error: %s", f.GetMessage())
	case c.GetStartContainer() != nil:
		warn(c.GetStartContainer().GetContainer(), reasonFailed, "Error: %s", f.GetMessage())
	}
}

// started derives the events of a container that was created, started or both, and of its image if it was there.
func (d *deriver) started(uid string, s *journaletv1.StartContainer) {
	if s == nil {
		return
	}
	add := func(reason, format string, args ...any) {
		d.add(uid, s.GetContainer(), corev1.EventTypeNormal, reason, format, args...)
	}
	if s.GetPart() != journaletv1.StartPart_START_PART_START {
		if image := d.imageOf(uid, s.GetContainer()); image != "" && !s.GetPulledForStart() {
			add("Pulled", present, image)
		}
		add("Created", "Container created")
	}
	if s.GetPart() != journaletv1.StartPart_START_PART_CREATE {
		add("Started", "Container started")
	}
}

// failedSetUp begins the message of a volume that is not set up, failedMap the message of a block device.
const (
	failedSetUp = "MountVolume.SetUp failed for volume "
	failedMap   = "MapVolume."
)

// notMounted derives the event of a volume that is not set up. A status that begins to say the same adds none.
func (d *deriver) notMounted(uid, message string) {
	d.mounts[uid] = message
	d.add(uid, "", corev1.EventTypeWarning, "FailedMount", "%s", message)
}

// volumes derives an event for each volume that failed.
func (d *deriver) volumes(uid string, f *journaletv1.CallFinished) {
	for _, v := range f.GetVolumes() {
		switch message := v.GetMessage(); {
		case message == "":
		case strings.HasPrefix(message, failedMap):
			d.add(uid, "", corev1.EventTypeWarning, "FailedMapVolume", "%s", message)
		case strings.HasPrefix(message, failedSetUp):
			d.notMounted(uid, message)
		default:
			d.notMounted(uid, fmt.Sprintf(failedSetUp+"%q : %s", v.GetName(), message))
		}
	}
	if len(f.GetVolumes()) == 0 {
		d.add(uid, "", corev1.EventTypeWarning, "FailedMount", "Unable to attach or mount volumes: %s", f.GetMessage())
	}
}

// mapped derives an event for each block device that is set up. The kubelet has two, which name the paths of its links
// to the device: here is one path, which no record has.
func (d *deriver) mapped(uid string, f *journaletv1.CallFinished) {
	p := d.podOf(uid)
	for _, v := range f.GetVolumes() {
		if v.GetMessage() == "" && containers.HasDevice(p, v.GetName()) {
			d.add(uid, "", corev1.EventTypeNormal, "SuccessfulMountVolume",
				"MapVolume.MapPodDevice succeeded for volume %q", v.GetName())
		}
	}
}

// resizeConditions derives events of resizes that wait, or that failed.
func (d *deriver) resizeConditions(uid string, c *journaletv1.PodStatusChanged) {
	for _, cond := range c.GetConditions() {
		reason, message := cond.GetReason(), cond.GetMessage()
		switch t := corev1.PodConditionType(cond.GetType()); {
		case t == corev1.PodResizePending && reason != "":
			d.resize(uid, corev1.EventTypeWarning, "Resize"+reason, "Pod resize "+reason, message)
		case t == corev1.PodResizeInProgress && reason == corev1.PodReasonError:
			d.resize(uid, corev1.EventTypeWarning, "ResizeError", "Pod resize error", message)
		}
	}
}

// resize adds an event with the resources of a pod's containers, in the kubelet's JSON.
func (d *deriver) resize(uid, kind, reason, prefix, message string) {
	type container struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	p := d.podOf(uid)
	resourcesOf := func(list []corev1.Container) (out []container) {
		for _, c := range list {
			out = append(out, container{c.Name, c.Resources})
		}
		return out
	}
	summary, err := json.Marshal(struct {
		InitContainers []container `json:"initContainers,omitempty"`
		Containers     []container `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}{resourcesOf(p.Spec.InitContainers), resourcesOf(p.Spec.Containers), p.Generation, message})
	if err != nil {
		return
	}
	d.add(uid, "", kind, reason, "%s: %s", prefix, summary)
}
