package events

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/describe"
)

// agent derives events of the Node.
func (d *deriver) agent(e *journaletv1.Event) {
	eventType := describe.EventType(e)
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		d.node(corev1.EventTypeNormal, "Starting", "Starting kubelet.")
		if boot := k.AgentStarted.GetBootId(); d.bootID != "" && boot != "" && boot != d.bootID {
			d.node(corev1.EventTypeWarning, "Rebooted", fmt.Sprintf(
				"Node %s has been rebooted, boot id: %s", k.AgentStarted.GetConfig().GetNodeName(), boot))
		}
		d.bootID = k.AgentStarted.GetBootId()
	case *journaletv1.Event_ShutdownSignaled:
		message := "Shutdown manager detected shutdown event"
		if !k.ShutdownSignaled.GetActive() {
			message = "Shutdown manager detected shutdown cancellation"
		}
		d.node(eventType, "Shutdown", message)
	case *journaletv1.Event_OomKillObserved:
		d.outOfMemory(eventType, k.OomKillObserved)
	case *journaletv1.Event_RuntimeHealthChanged:
		d.health = k.RuntimeHealthChanged
		waiting := map[string]bool{}
		for _, c := range d.calls {
			if run := c.GetRunSandbox(); run != nil && !run.GetHostNetwork() {
				waiting[c.GetPodUid()] = true
			}
		}
		for _, uid := range slices.Sorted(maps.Keys(waiting)) {
			d.networkNotReady(uid)
		}
	case *journaletv1.Event_ImageFilesystemFull:
		d.images.full = k.ImageFilesystemFull
	case *journaletv1.Event_NodeRegistered:
		if o := k.NodeRegistered.GetOtherMachine(); o != nil {
			d.node(eventType, "NodeTakenOver", fmt.Sprintf(
				"This Node was of another machine (machine ID %s, address %s)", o.GetMachineId(), o.GetAddress()))
		}
	case *journaletv1.Event_NodeObserved:
		o := k.NodeObserved.GetOtherMachine()
		if o != nil && !proto.Equal(o, d.other) {
			d.node(eventType, "NodeNameConflict", fmt.Sprintf(
				"Another machine (machine ID %s, boot ID %s, address %s) reports itself as this Node, too: its pods run twice. "+
					"Stop its agent, or give one of the two another name with --hostname-override",
				o.GetMachineId(), o.GetBootId(), o.GetAddress()))
		}
		d.other = o
		d.familiesOf(k.NodeObserved)
	}
}

// familiesOf derives the event of a Node whose first address has another IP family than the machine's first address,
// which orders the addresses of pods. The kubelet emits the event with each status of each pod; an event of the Node
// says it once.
func (d *deriver) familiesOf(o *journaletv1.NodeObserved) {
	ips, _ := node.HostIPs(o)
	before := d.families
	d.families = ""
	if len(ips) == 0 || d.hostIP == "" || netutils.IsIPv6String(ips[0]) == netutils.IsIPv6String(d.hostIP) {
		return
	}
	d.families = fmt.Sprintf("Kubelet detected an IPv%s node IP (%s), but the cloud provider selected an IPv%s node IP "+
		"(%s); pass an explicit `--node-ip` to kubelet to fix this.",
		netutils.IPFamilyOfString(d.hostIP), d.hostIP, netutils.IPFamilyOfString(ips[0]), ips[0])
	if d.families != before {
		d.node(corev1.EventTypeWarning, "HostIPsIPFamilyMismatch", d.families)
	}
}

// node adds an event of the Node.
func (d *deriver) node(kind, reason, message string) {
	d.append(draft{kind: kind, reason: reason, message: message})
}

// evictionProgressed derives the event of each cycle of the defence against pressure.
func (d *deriver) evictionProgressed(p *journaletv1.EvictionProgressed) {
	before := d.eviction
	d.eviction = p.GetStage()
	if p.GetSignal() == "" || before == journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMED {
		return
	}
	d.node(corev1.EventTypeWarning, "EvictionThresholdMet",
		fmt.Sprintf("Attempting to reclaim %s", pressure.Signal(p.GetSignal()).Resource()))
}

// networkNotReady adds the event of a pod that waits for the network of pods.
func (d *deriver) networkNotReady(uid string) {
	if d.health == nil || d.health.GetNetworkReady() || !d.health.GetRuntimeReady() {
		return
	}
	_, why, _ := strings.Cut(d.health.GetMessage(), "NetworkReady=")
	d.add(uid, "", corev1.EventTypeWarning, "NetworkNotReady",
		"network is not ready: container runtime network not ready: NetworkReady=%s", why)
}

// The kubelet reports a pod that it ends as late after 1.5 grace periods, 10 s at least.
const (
	leastEnd = 10 * time.Second
	// defaultGrace is the API's, of a pod whose manifest is not known.
	defaultGrace = 30 * time.Second
)

// ends registers that the node ends a pod, with a grace period; nil: the pod's own.
func (d *deriver) ends(uid string, grace *durationpb.Duration) {
	ref := d.pods[uid]
	if _, known := d.ending[uid]; known || ref == nil {
		return
	}
	wait := defaultGrace
	if own := d.podOf(uid).Spec.TerminationGracePeriodSeconds; own != nil {
		wait = time.Duration(*own) * time.Second
	}
	if grace != nil {
		wait = min(wait, grace.AsDuration())
	}
	d.ending[uid] = d.rec.GetTime().AsTime().Add(max(wait+wait/2, leastEnd))
}

// ended derives the event of a pod that the node has ended too late. The kubelet emits it when the time is over, before
// it knows the end.
func (d *deriver) ended(uid string) {
	until, ok := d.ending[uid]
	delete(d.ending, uid)
	if ok && d.rec.GetTime().AsTime().After(until) {
		d.add(uid, "", corev1.EventTypeWarning, "ExceededGracePeriod",
			"Container runtime did not kill the pod within specified grace period.")
	}
}

// missingSecrets adds the event of a failed pull, if Secrets with credentials could not be read. message is the pull's.
func (d *deriver) missingSecrets(uid, message string) {
	var missing []string
	for _, s := range d.podOf(uid).Spec.ImagePullSecrets {
		for _, why := range []string{"not found", "cannot be read"} {
			if strings.Contains(message, fmt.Sprintf("%q %s", s.Name, why)) && !slices.Contains(missing, s.Name) {
				missing = append(missing, s.Name)
			}
		}
	}
	if len(missing) > 0 {
		d.add(uid, "", corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull "+
			"secrets (%s); attempting to pull the image may not succeed.", strings.Join(missing, ", "))
	}
}

// imageCollection is what is remembered of the collection of images.
type imageCollection struct {
	full   *journaletv1.ImageFilesystemFull
	failed int // removals in a row
}

// collected derives the event of a collection that frees too little.
func (d *deriver) collected(c *journaletv1.ImagesCollected) {
	full := d.images.full
	if c.GetFreedBytes() >= c.GetWantedBytes() || full.GetCapacityBytes() <= 0 {
		return
	}
	used := 100 - float64(full.GetAvailableBytes())/float64(full.GetCapacityBytes())*100
	d.node(corev1.EventTypeWarning, "FreeDiskSpaceFailed", fmt.Sprintf(
		"Insufficient free disk space on the node's image filesystem (%.0f%% of %s used). Failed to free sufficient space "+
			"by deleting unused images (freed %d bytes). Investigate disk usage, as it could be used by active images, logs, "+
			"volumes, or other data.", used, describe.Size(full.GetCapacityBytes()), c.GetFreedBytes()))
}

// imageRemoved derives the event of a removal that failed. As in the kubelet, one failure alone has none.
func (d *deriver) imageRemoved(f *journaletv1.CallFinished) {
	if f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED || f.GetImageInUse() {
		d.images.failed = 0
		return
	}
	if d.images.failed++; d.images.failed > 1 {
		d.node(corev1.EventTypeWarning, "ImageGCFailed", f.GetMessage())
	}
}
