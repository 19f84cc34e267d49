package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/persistentvolume"
)

// CSI volumes of pods (ADR 068), and CSI drivers that come and go, hang and refuse. runtime/persistentvolume is real;
// the drivers are models at their RPCs, and the control plane attaches volumes.

// Attached returns the plan of a seed with an API server whose pods have volumes of CSI drivers.
func Attached(seed uint64) *Plan {
	p := Clustered(seed)
	p.config.attached = true
	r := stream(seed, "plan of CSI volumes")
	p.apiWorkload(r)
	for range 3 {
		p.disturb(r, volumeOps)
	}
	p.inOrder()
	return p
}

// volumeOps is what happens to CSI drivers, by kind.
var volumeOps = processOps("a CSI driver",
	func(s *sim, o Op) *pluginProcess { return &s.world.storage.drivers[o.pick%2].pluginProcess },
	map[string]func(*sim, Op){
		"the attacher is slow": func(s *sim, o Op) { s.api.attacher.slowUntil = s.clock.uptime + o.lasts },
	})

// The CSI drivers. One stages volumes, which the control plane attaches; the other publishes its volumes at once, and
// again and again.
const (
	blockDriver = "block.example.com"
	filesDriver = "files.example.com"
)

// volumeDriver is a CSI driver as it is.
type volumeDriver struct {
	name string
	pluginProcess
}

func (d *volumeDriver) stages() bool { return d.name == blockDriver }

// claimsOfPlan are the PersistentVolumeClaims of a plan with the driver of each.
var claimsOfPlan = map[string]string{
	"data0": blockDriver, "data1": blockDriver, "data2": blockDriver, "data3": blockDriver, "shared": filesDriver,
}

// The driver that publishes again and again gets a token of the pod each time, under this key of the attributes.
const tokenAudience, tokensKey = "storage", "csi.storage.k8s.io/serviceAccount.tokens"

// handleOf returns the handle of the volume of a claim.
func handleOf(claim string) string { return "handle-" + claim }

const (
	// inlineVolume is the name of a pod's inline volume.
	inlineVolume = "inline"
	// claimPrefix begins the name of a pod's volume that has a claim; the name of the claim follows.
	claimPrefix = "claimed-"
)

// ofDriver reports whether a volume is one of a CSI driver.
func ofDriver(v *corev1.Volume) bool { return v.CSI != nil || v.PersistentVolumeClaim != nil }

// withVolumes gives some of the pods that a client creates volumes of CSI drivers, which some of their containers
// mount.
func (s *sim) withVolumes(p *corev1.Pod, o Op) {
	if !s.config.attached {
		return
	}
	r := stream(s.seed, "volumes of a pod", fmt.Sprint(o.pick))
	var all []corev1.Volume
	for _, name := range slices.Sorted(maps.Keys(claimsOfPlan)) {
		if chance(r, 3) {
			all = append(all, corev1.Volume{Name: claimPrefix + name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
		}
	}
	if chance(r, 2) {
		all = append(all, corev1.Volume{Name: inlineVolume, VolumeSource: corev1.VolumeSource{
			CSI: &corev1.CSIVolumeSource{Driver: filesDriver}}})
	}
	p.Spec.Volumes = append(p.Spec.Volumes, all...)
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			for _, v := range all {
				if chance(r, 2) {
					list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
				}
			}
		}
	}
}

// newStorage returns what sets up the volumes of CSI drivers; nil without them.
func newStorage(r *run) *persistentvolume.Volumes {
	if !r.config.attached {
		return nil
	}
	noise := stream(r.seed, "storage", r.name())
	v, err := persistentvolume.New(persistentvolume.Options{
		RootDir: storageRoot, NodeName: nodeName, BootID: r.bootID(), Drivers: volumeCallers{r}, Objects: volumeObjects{r},
		Node: attachedNode{r.cluster}, Clock: newSteadyClock(r), Files: r.world.storage, Jitter: noise.Int64N,
		Pod: func(uid string) *corev1.Pod { return r.api.byUID(uid) },
	})
	if err != nil {
		panic(err) // the disk of the simulation has no faults
	}
	return v
}

// byUID returns the pod that has a UID; nil: no pod has the UID.
func (a *apiServer) byUID(uid string) *corev1.Pod {
	for _, p := range a.pods {
		if string(p.UID) == uid {
			return p
		}
	}
	return nil
}

// attachedNode is the Node, for volumes. It implements persistentvolume.Node.
type attachedNode struct{ *member }

// Node returns the Node as it was shown last.
func (n attachedNode) Node() *corev1.Node { return n.node.Node() }

// SetVolumesInUse sets the volumes in use, and has them written at once.
func (n attachedNode) SetVolumesInUse(names []string) {
	n.node.SetVolumesInUse(names)
	n.keeper.wake()
}

// tearDownStorage tears down a pod's volumes of CSI drivers, and returns the outcome of each volume.
func (d disk) tearDownStorage(ctx context.Context, uid string) (all []*journaletv1.VolumeOutcome, err error) {
	if d.run.storage == nil {
		return nil, nil
	}
	found, err := d.run.storage.TearDown(ctx, uid)
	for _, outcome := range found {
		for _, name := range outcome.Volumes {
			o := &journaletv1.VolumeOutcome{Name: name}
			if outcome.Err != nil {
				o.Message, o.Retryable = outcome.Err.Error(), true
			}
			all = append(all, o)
		}
	}
	return all, err
}

// volumeCallers are the drivers that have registered. It implements persistentvolume.Callers.
type volumeCallers struct{ run *run }

// Caller returns a driver.
func (c volumeCallers) Caller(name string) (persistentvolume.Caller, error) {
	for _, d := range c.run.world.storage.drivers {
		if d.name == name && d.registered(c.run, "CSI driver", name) {
			return volumeCaller{nil, c.run, d, d.runs}, nil
		}
	}
	return nil, fmt.Errorf("driver name %s not found in the list of registered CSI drivers", name)
}

// Usage measures nothing.
func (volumeCallers) Usage(context.Context, string, string, string) ([]*csi.VolumeUsage, error) {
	return nil, nil
}

// Recount does nothing: no driver has a limit.
func (volumeCallers) Recount(context.Context, string) {}

// volumeCaller calls one run of a driver. It implements persistentvolume.Caller, and the RPCs that are used.
type volumeCaller struct {
	csi.NodeClient
	run    *run
	driver *volumeDriver
	runs   int
}

// volumeTimeout bounds an RPC of a driver (runtime/persistentvolume: callTimeout).
const volumeTimeout = 2 * time.Minute

// Call performs an RPC. A driver that refuses with Internal may have done the work.
func (c volumeCaller) Call(ctx context.Context, what string, f func(context.Context, csi.NodeClient) error) error {
	err := c.driver.call(ctx, c.run, "CSI driver "+c.driver.name, c.runs, volumeTimeout, func() error {
		w := c.run.world
		if !c.driver.refuses(w) {
			return f(ctx, c)
		}
		if chance(w.noise, 2) {
			return status.Error(codes.FailedPrecondition, "the driver refuses"+wildText)
		}
		if chance(w.noise, 2) {
			_ = f(ctx, c) // its answer is lost
		}
		return status.Error(codes.Internal, "the driver fails"+wildText)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// NodeGetCapabilities implements csi.NodeClient, as do the methods below.
func (c volumeCaller) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest, ...grpc.CallOption,
) (*csi.NodeGetCapabilitiesResponse, error) {
	out := &csi.NodeGetCapabilitiesResponse{}
	if c.driver.stages() {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}}})
	}
	return out, nil
}

// NodeStageVolume stages a volume that is attached.
func (c volumeCaller) NodeStageVolume(_ context.Context, q *csi.NodeStageVolumeRequest, _ ...grpc.CallOption,
) (*csi.NodeStageVolumeResponse, error) {
	n, j := c.run.world.storage, c.run.judge
	if !c.run.api.attacher.devices[q.GetVolumeId()] {
		j.broken(storageAttached, "", "%s is staged, and it is not attached", q.GetVolumeId())
	}
	for _, path := range n.mountsOf(q.GetVolumeId(), true) {
		if path != q.GetStagingTargetPath() {
			j.broken(storageFirst, "", "%s is staged at %s and %s", q.GetVolumeId(), path, q.GetStagingTargetPath())
		}
	}
	return &csi.NodeStageVolumeResponse{}, n.mount(q.GetStagingTargetPath(), &storageMount{handle: q.GetVolumeId()})
}

// NodeUnstageVolume undoes NodeStageVolume.
func (c volumeCaller) NodeUnstageVolume(_ context.Context, q *csi.NodeUnstageVolumeRequest, _ ...grpc.CallOption,
) (*csi.NodeUnstageVolumeResponse, error) {
	n := c.run.world.storage
	if all := n.mountsOf(q.GetVolumeId(), false); len(all) > 0 {
		c.run.judge.broken(storageKept, "", "%s is unstaged, and it is published at %v", q.GetVolumeId(), all)
	}
	n.unmount(q.GetStagingTargetPath())
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume mounts a volume for a pod. The driver creates its directory.
func (c volumeCaller) NodePublishVolume(_ context.Context, q *csi.NodePublishVolumeRequest, _ ...grpc.CallOption,
) (*csi.NodePublishVolumeResponse, error) {
	n := c.run.world.storage
	if m := n.mounts[q.GetStagingTargetPath()]; c.driver.stages() && (m == nil || m.handle != q.GetVolumeId()) {
		c.run.judge.broken(storageFirst, "", "%s is published, and what is staged at %s is %v", q.GetVolumeId(),
			q.GetStagingTargetPath(), m)
	}
	if !c.driver.stages() {
		c.run.judge.tokenGiven(uidIn(q.GetTargetPath()), q.GetVolumeContext()[tokensKey])
	}
	if c.run.world.mishap() {
		return nil, status.Errorf(codes.Internal, "cannot mount with %v", q.GetVolumeContext())
	}
	if err := n.MkdirAll(q.GetTargetPath()); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, n.mount(q.GetTargetPath(), &storageMount{handle: q.GetVolumeId(),
		uid: uidIn(q.GetTargetPath()), publishedAt: c.run.clock.uptime})
}

// NodeUnpublishVolume undoes NodePublishVolume.
func (c volumeCaller) NodeUnpublishVolume(_ context.Context, q *csi.NodeUnpublishVolumeRequest, _ ...grpc.CallOption,
) (*csi.NodeUnpublishVolumeResponse, error) {
	c.run.judge.storageUnpublished(q.GetTargetPath())
	n := c.run.world.storage
	n.unmount(q.GetTargetPath())
	return &csi.NodeUnpublishVolumeResponse{}, n.removeIfThere(q.GetTargetPath())
}

// uidIn returns the UID of the pod in the path of one of its volumes.
func uidIn(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, storageRoot+"/"), "/")
	if i := slices.Index(parts, "pods"); i >= 0 && i+1 < len(parts) {
		return parts[i+1]
	}
	return ""
}
