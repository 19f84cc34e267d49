package fakecsi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/journalet/journalet/test/must"
)

// Driver is a CSI driver. Its fields may be changed before Start, and within Lock.
type Driver struct {
	csi.UnimplementedNodeServer
	sync.Mutex
	// Dir holds what volumes contain, a directory each.
	Dir string
	// Capabilities are the capabilities of its node service.
	Capabilities []csi.NodeServiceCapability_RPC_Type
	// Info is the answer of NodeGetInfo.
	Info *csi.NodeGetInfoResponse
	// Usage is what it measures of each volume.
	Usage []*csi.VolumeUsage
	// Before is called before each RPC that changes something, with its name and request. An error is its answer, and
	// nothing is done; ErrNothingDone is answered with success. After is called when it is done; an error is its answer
	// nevertheless.
	Before, After func(ctx context.Context, rpc string, req any) error
	// calls are the RPCs that came, as "NodePublishVolume v1".
	calls []string
}

// ErrNothingDone has a driver answer that it has done what it has not.
var ErrNothingDone = errors.New("nothing was done")

// Stage, Stats and Expand are the capabilities of staging, measuring and expanding volumes.
const (
	Stage = csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME
	Stats = csi.NodeServiceCapability_RPC_GET_VOLUME_STATS

	Expand = csi.NodeServiceCapability_RPC_EXPAND_VOLUME
)

// Measured is what a Process measures of each volume.
var Measured = []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: 1000, Used: 300, Available: 700}}

// Start serves the driver on a socket below a directory until the test ends, and returns the socket's path and what
// stops it before.
func Start(t testing.TB, d *Driver, dir string) (socket string, stop func()) {
	t.Helper()
	socket = filepath.Join(dir, "csi.sock")
	l, err := listen(socket)
	must.OK(t, err)
	s := grpc.NewServer()
	csi.RegisterNodeServer(s, d)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	stop = sync.OnceFunc(func() {
		s.Stop()
		<-done
	})
	t.Cleanup(stop)
	return socket, stop
}

// Calls returns the RPCs that came and changed or failed to change something, and forgets them.
func (d *Driver) Calls() []string {
	d.Lock()
	defer d.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

func (d *Driver) around(ctx context.Context, rpc, volume string, req any, do func() error) error {
	d.Lock()
	d.calls = append(d.calls, rpc+" "+volume)
	before, after := d.Before, d.After
	d.Unlock()
	if before != nil {
		if err := before(ctx, rpc, req); errors.Is(err, ErrNothingDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if after != nil {
		return after(ctx, rpc, req)
	}
	return nil
}

// NodeGetInfo answers Info.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	d.Lock()
	defer d.Unlock()
	if d.Info == nil {
		return &csi.NodeGetInfoResponse{NodeId: "node"}, nil
	}
	return d.Info, nil
}

// NodeGetCapabilities answers Capabilities.
func (d *Driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	d.Lock()
	defer d.Unlock()
	out := new(csi.NodeGetCapabilitiesResponse)
	for _, c := range d.Capabilities {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
	}
	return out, nil
}

// NodeStageVolume mounts the volume's directory at the staging path, or attaches its image to a loop device.
func (d *Driver) NodeStageVolume(
	ctx context.Context, r *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	return &csi.NodeStageVolumeResponse{}, d.around(ctx, "NodeStageVolume", r.GetVolumeId(), r, func() error {
		if r.GetVolumeCapability().GetBlock() != nil {
			_, err := attach(d.Image(r.GetVolumeId()))
			return err
		}
		return bind(d.volume(r.GetVolumeId()), r.GetStagingTargetPath())
	})
}

// NodeUnstageVolume unmounts the staging path, and detaches the loop device.
func (d *Driver) NodeUnstageVolume(
	ctx context.Context, r *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, d.around(ctx, "NodeUnstageVolume", r.GetVolumeId(), r, func() error {
		return errors.Join(unmount(r.GetStagingTargetPath()), detach(d.Image(r.GetVolumeId())))
	})
}

// NodePublishVolume mounts the staged volume, the volume's directory, or its loop device at the target.
func (d *Driver) NodePublishVolume(
	ctx context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	return &csi.NodePublishVolumeResponse{}, d.around(ctx, "NodePublishVolume", r.GetVolumeId(), r, func() error {
		if r.GetVolumeCapability().GetBlock() != nil {
			return bindDevice(d.Image(r.GetVolumeId()), r.GetTargetPath())
		}
		from := r.GetStagingTargetPath()
		if from == "" {
			from = d.volume(r.GetVolumeId())
		}
		return bind(from, r.GetTargetPath())
	})
}

// NodeUnpublishVolume unmounts the target and removes it.
func (d *Driver) NodeUnpublishVolume(
	ctx context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, d.around(ctx, "NodeUnpublishVolume", r.GetVolumeId(), r, func() error {
		if err := unmount(r.GetTargetPath()); err != nil {
			return err
		}
		if err := os.Remove(r.GetTargetPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if slices.Contains(d.Capabilities, Stage) {
			return nil
		}
		return detach(d.Image(r.GetVolumeId()))
	})
}

// NodeGetVolumeStats answers Usage.
func (d *Driver) NodeGetVolumeStats(
	ctx context.Context, r *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	d.Lock()
	usage := d.Usage
	d.Unlock()
	what := r.GetVolumeId() + " " + filepath.Base(r.GetVolumePath())
	return &csi.NodeGetVolumeStatsResponse{Usage: usage},
		d.around(ctx, "NodeGetVolumeStats", what, r, func() error { return nil })
}

// NodeExpandVolume answers that the volume has the size: its directory has none.
func (d *Driver) NodeExpandVolume(
	ctx context.Context, r *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	size := r.GetCapacityRange().GetRequiredBytes()
	what := fmt.Sprintf("%s to %d", r.GetVolumeId(), size)
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size},
		d.around(ctx, "NodeExpandVolume", what, r, func() error {
			_, err := os.Lstat(r.GetVolumePath())
			return err
		})
}

// Image returns the file that a block device shows.
func (d *Driver) Image(id string) string { return filepath.Join(d.Dir, id+".img") }

// volume returns the directory of a volume, which is created.
func (d *Driver) volume(id string) string { return filepath.Join(d.Dir, id) }

// bindDevice mounts the loop device of an image at a path, as a file.
func bindDevice(image, to string) error {
	device, err := attach(image)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), mount(device, to))
}

func bind(from, to string) error {
	for _, dir := range []string{from, to} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as drivers do
			return err
		}
	}
	return mount(from, to)
}

// mount mounts a path at another one, once.
func mount(from, to string) error {
	if slices.Contains(Mounts(to), to) {
		return nil // RPCs are idempotent
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", from, to, err)
	}
	return nil
}

// unmount unmounts the newest mount at a path; nothing without one.
func unmount(path string) error {
	if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) &&
		!errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}
