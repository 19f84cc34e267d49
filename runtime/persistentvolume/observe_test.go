package persistentvolume

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

// operations has what was observed, as "plugin operation", with "failed" if it did.
func (r *rig) operations() func() []string {
	var all []string
	r.opts.Observe = func(plugin, operation string, migrated bool, _ time.Duration, err error) {
		entry := plugin + " " + operation
		if migrated {
			entry += " migrated"
		}
		if err != nil {
			entry += " failed"
		}
		all = append(all, entry)
	}
	return func() []string {
		out := all
		all = nil
		return out
	}
}

// The driver mounts nothing: it refuses, or answers that it has done what it has not.
func TestOperationsOnVolumesAreObserved(t *testing.T) {
	const disk = "kubernetes.io/csi:" + driverName
	r := newRig(t, fakecsi.Stage)
	observed := r.operations()
	answer := map[string]error{
		"NodeStageVolume": fakecsi.ErrNothingDone, "NodeUnpublishVolume": fakecsi.ErrNothingDone,
		"NodeUnstageVolume": status.Error(codes.Internal, "busy"),
		"NodePublishVolume": status.Error(codes.Internal, "no"),
	}
	r.fake.Before = func(_ context.Context, rpc string, _ any) error { return answer[rpc] }
	p := r.pod("u1", r.claimed("a"))
	if err := r.setUp(p); err == nil {
		t.Error("set up, although the driver has refused")
	}
	if got, want := observed(), []string{disk + " volume_mount failed"}; !slices.Equal(got, want) {
		t.Errorf("set-up: %v, want %v", got, want)
	}
	_, err := r.TearDown(t.Context(), "u1")
	must.OK(t, err)
	want := []string{disk + " volume_unmount", disk + " unmount_device failed"}
	if got := observed(); !slices.Equal(got, want) {
		t.Errorf("tear-down: %v, want %v", got, want)
	}

	// A block device, which is refused before it is staged.
	answer["NodeStageVolume"] = status.Error(codes.InvalidArgument, "no block")
	raw := r.claimed("raw")
	r.volumes["pv-raw"].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	if err := r.setUp(r.pod("u2", raw)); err == nil {
		t.Error("set up, although the driver has refused")
	}
	_, err = r.TearDown(t.Context(), "u2")
	must.OK(t, err)
	if got, want := observed(), []string{disk + " map_volume failed", disk + " unmap_volume"}; !slices.Equal(got, want) {
		t.Errorf("block device: %v, want %v", got, want)
	}

	// One of the node's, and one whose driver is not there: that adds no time series.
	host := r.claimed("host")
	r.volumes["pv-host"].Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: t.TempDir()}}
	must.OK(t, r.setUp(r.pod("u3", host)))
	gone := r.claimed("gone")
	r.volumes["pv-gone"].Spec.CSI.Driver = "gone.example.com"
	if err := r.setUp(r.pod("u4", gone)); err == nil {
		t.Error("set up without its driver")
	}
	if got, want := observed(), []string{"kubernetes.io/host-path volume_mount"}; !slices.Equal(got, want) {
		t.Errorf("hostPath: %v, want %v", got, want)
	}
}

// Whatever is done with a volume that the driver has taken over says so, also after a restart.
func TestOperationsOnMigratedVolumesAreObservedAsSuch(t *testing.T) {
	const disk = "kubernetes.io/csi:" + ebs
	r := newRig(t, fakecsi.Stage)
	must.OK(t, r.drivers.Register(t.Context(), ebs, r.socket))
	observed := r.operations()
	r.fake.Before = func(_ context.Context, rpc string, _ any) error {
		return map[string]error{"NodeStageVolume": fakecsi.ErrNothingDone, "NodeUnpublishVolume": fakecsi.ErrNothingDone,
			"NodeUnstageVolume": status.Error(codes.Internal, "busy"),
			"NodePublishVolume": status.Error(codes.Internal, "no")}[rpc]
	}
	old := r.claimed("old")
	r.volumes["pv-old"].Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-0123456789abcdef0"}}
	if err := r.setUp(r.pod("u1", old)); err == nil {
		t.Error("set up, although the driver has refused")
	}
	if got, want := observed(), []string{disk + " volume_mount migrated failed"}; !slices.Equal(got, want) {
		t.Errorf("set-up: %v, want %v", got, want)
	}
	r.restart("boot-1")
	must.OK(t, r.drivers.Register(t.Context(), ebs, r.socket))
	observed = r.operations()
	_, err := r.TearDown(t.Context(), "u1")
	must.OK(t, err)
	want := []string{disk + " volume_unmount migrated", disk + " unmount_device migrated failed"}
	if got := observed(); !slices.Equal(got, want) {
		t.Errorf("tear-down: %v, want %v", got, want)
	}
}

func TestTheWaitForAnAttachmentIsNoMount(t *testing.T) {
	r := newRig(t)
	observed := r.operations()
	r.driver.Spec.AttachRequired = nil
	r.attachInUse = true
	p := r.pod("u1", r.claimed("a"))
	if err := r.setUp(p); err == nil || !strings.Contains(err.Error(), "VolumeAttachment") {
		t.Errorf("set up without a VolumeAttachment: %v", err)
	}
	const want = "kubernetes.io/csi:" + driverName + " verify_controller_attached_volume failed"
	if got := observed(); !slices.Equal(got, []string{want}) {
		t.Errorf("%v, want %v", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.SetUp(ctx, p, &p.Spec.Volumes[0]); err == nil {
		t.Errorf("set up after the end: %v", err)
	}
	if got := observed(); len(got) > 0 {
		t.Errorf("what was cut short is observed: %v", got)
	}
}
