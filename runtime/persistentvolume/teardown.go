package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/redact"
)

// maxTearDowns bounds how many volumes of a pod are torn down at once.
const maxTearDowns = 8

// Outcome is how the tear-down of a volume ended.
type Outcome struct {
	// Volumes has spec.volumes[].name, of each volume of the pod that is this one; the name of its directory if that is
	// not known.
	Volumes []string
	// Err is nil if nothing of it is left, but for a staged volume that its driver does not unstage.
	Err error
}

// TearDown has all volumes of a pod unpublished, and unstages the volumes that no other pod claims, once: Run repeats
// what fails. It returns an outcome for each volume that had a directory. It is idempotent.
func (v *Volumes) TearDown(ctx context.Context, uid string) ([]Outcome, error) {
	var dirs []string
	for e, err := range v.opts.Files.Entries(v.podDir(uid)) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list the CSI volumes of a pod: %w", err)
		}
		dirs = append(dirs, e.Name())
	}
	out := make([]Outcome, len(dirs))
	g := clock.NewGroup(v.opts.Clock, maxTearDowns)
	for i, dir := range dirs {
		g.Go(func() { out[i] = v.tearDown(ctx, uid, dir) })
	}
	g.Wait()
	v.tokens.forget(uid)
	v.mu.Lock()
	delete(v.waiting, uid)
	v.mu.Unlock()
	v.reportInUse()
	return out, nil
}

// tearDown has one volume of a pod unpublished.
func (v *Volumes) tearDown(ctx context.Context, uid, dir string) Outcome {
	path := v.claimDir(uid, dir)
	r, err := v.readRecord(path)
	o := Outcome{Volumes: []string{dir}, Err: err}
	if r != nil && r.Volumes != "" {
		o.Volumes = r.volumes()
	}
	if err != nil {
		return o
	}
	if r == nil {
		if o.Err = v.removeTarget(filepath.Join(path, podMount)); o.Err == nil {
			o.Err = v.removeRecord(path)
		}
		return o
	}
	release, err := v.locks.lock(ctx, lockOf(uid, r.key()))
	if err != nil {
		o.Err = err
		return o
	}
	defer release()
	began := v.opts.Clock.Now()
	o.Err = v.unpublish(ctx, path, r)
	v.observeOf(ctx, r, opUnmap, OpUnmount, began, o.Err)
	if o.Err == nil && !v.claims(r.key(), uid, dir) {
		o.Err = v.release(ctx, r)
		v.mu.Lock()
		delete(v.attempts, r.key())
		v.mu.Unlock()
	}
	if o.Err == nil {
		o.Err = v.removeRecord(path)
	}
	if o.Err == nil {
		v.index(uid, dir, nil)
	}
	return o
}

// unpublish undoes a publication. One of another boot is unmounted, and the driver still has to forget it.
func (v *Volumes) unpublish(ctx context.Context, path string, r *record) error {
	target := filepath.Join(path, podMount)
	switch r.Driver {
	case localDriver:
		return v.unbind(target)
	case hostPathDriver:
		return nil
	case nfsDriver:
		if err := v.opts.NFS.Unmount(ctx, target); err != nil {
			return err
		}
		return v.removeTarget(target)
	}
	if r.Stage != claimed {
		if err := v.call(ctx, r.Driver, "NodeUnpublishVolume", func(ctx context.Context, c csi.NodeClient) error {
			_, err := c.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: r.Handle, TargetPath: target})
			return err
		}); err != nil {
			return err
		}
	}
	return v.removeTarget(target)
}

// unstage undoes the staging of a volume; nothing if it is not staged. Whatever the driver answers, a pod that comes
// before it has succeeded has the volume staged again.
func (v *Volumes) unstage(ctx context.Context, k key) error {
	if k.driver == localDriver {
		return v.unmountDisk(ctx, k)
	}
	dir := v.stageDir(k)
	r, err := v.readRecord(dir)
	if err != nil || r == nil {
		return err
	}
	began := v.opts.Clock.Now()
	err = v.unstageAt(ctx, k, dir, r)
	v.observeOf(ctx, r, opUnmapDevice, opUnmountDevice, began, err)
	return err
}

// unstageAt undoes the staging of a volume with its record.
func (v *Volumes) unstageAt(ctx context.Context, k key, dir string, r *record) error {
	if r.key() != k {
		return fmt.Errorf("%s is of another volume, %.64q of driver %s", dir, r.Handle, r.Driver)
	}
	if r.Stage != staging {
		r.Stage = staging
		if err := v.writeRecord(dir, r); err != nil {
			return err
		}
	}
	target := filepath.Join(dir, globalMount)
	if err := v.call(ctx, k.driver, "NodeUnstageVolume", func(ctx context.Context, c csi.NodeClient) error {
		_, err := c.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: k.handle, StagingTargetPath: target})
		return err
	}); err != nil {
		return err
	}
	if err := v.removeTarget(target); err != nil {
		return err
	}
	return v.removeRecord(dir)
}

func (v *Volumes) call(
	ctx context.Context, name, what string, f func(context.Context, csi.NodeClient) error,
) error {
	d, err := v.opts.Drivers.Caller(name)
	if err == nil {
		err = d.Call(ctx, what, f)
	}
	if err != nil {
		return fmt.Errorf("%s%.0w", redact.URLs(err.Error()), err)
	}
	return nil
}

// removeTarget removes what is left of a directory at which a driver has mounted. It has to be empty, and no mount:
// nothing of a volume is ever removed.
func (v *Volumes) removeTarget(target string) error {
	mounted, err := v.opts.Files.Mounted(target)
	if err != nil {
		return err
	}
	if mounted {
		return fmt.Errorf("%s is still mounted, although its driver has said that it is not; unmount it", target)
	}
	if err := v.opts.Files.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the directory of a volume: %w", err)
	}
	return nil
}
