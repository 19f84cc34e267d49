package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/persistentvolume"
)

// subpathsDir has the mounts of each subPath, <volume>/<container>/<index> (runtime/pod/subpath).
const subpathsDir = "volume-subpaths"

// maxNamedMounts bounds how many leftover mounts an error names.
const maxNamedMounts = 5

// TearDown unmounts the pod's volumes, the newest mount first, and removes them with their contents. It does nothing
// for a pod without a directory. It unmounts only what the agent mounts, and what shows files of that (ownFiles). It
// removes nothing through a mount of others, such as a mount that a container propagated to the host: that volume
// stays, and its outcome names the mounts. The same holds for a mount in use. It removes the other volumes. It returns
// an outcome for each volume that had a directory, sorted by name. The error is what failed beside them.
func (d *Driver) TearDown(ctx context.Context, uid string) ([]*journaletv1.VolumeOutcome, error) {
	root, err := d.openPod(uid, false)
	if errors.Is(err, errNoPod) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	t := tearDown{Driver: d, ctx: ctx, root: root, uid: uid, failed: map[string]error{}}
	t.took = map[string]time.Duration{}
	if err := t.unmount(); err != nil {
		return nil, err
	}
	if err := t.unpublish(); err != nil {
		return nil, err
	}
	outcomes, err := t.removeAll()
	if err := ctx.Err(); err != nil {
		return outcomes, err // what failed may have failed for this reason
	}
	if err != nil {
		return outcomes, fmt.Errorf("remove the volumes of pod %s: %w", uid, err)
	}
	return outcomes, nil
}

// tearDown is the tear-down of one pod.
type tearDown struct {
	*Driver
	ctx  context.Context
	root *os.Root // the pod's directory
	uid  string
	// failed has the volumes that stay, by name.
	failed map[string]error
	// took is how long their mounts have taken to go, by name. Those of NFS volumes go at once, and count as one.
	took map[string]time.Duration
	// unpublished has the volumes of CSI drivers that had a directory.
	unpublished []string
}

// unmount unmounts what the agent has mounted below the pod's directory. It fails only if the table cannot be read.
func (t *tearDown) unmount() error {
	points, err := t.mounts.below(t.PodDir(t.uid))
	if err != nil {
		return err
	}
	files, err := t.ownFiles(points)
	if err != nil {
		return err
	}
	foreign := map[string][]string{}
	var own, exports []mountPoint
	for _, p := range points {
		name, ours := t.volumeOf(p)
		switch {
		case ours || name != "" && files.show(p):
			own = append(own, p)
		case name != "":
			foreign[name] = append(foreign[name], p.path)
		}
	}
	for name, paths := range foreign {
		t.failed[name] = leftMounts(filepath.Join(t.PodDir(t.uid), volumesDir), paths)
	}
	slices.Reverse(own)
	for _, p := range own {
		name, _ := t.volumeOf(p)
		if t.failed[name] != nil {
			continue
		}
		if t.isNFS(p) {
			exports = append(exports, p)
			continue
		}
		began, err := time.Now(), t.ctx.Err()
		if err == nil {
			err = t.release(p)
		}
		if err != nil {
			t.failed[name] = err
		}
		t.took[name] += time.Since(began)
	}
	t.unmountNFS(exports) // after all subpaths in them
	return t.unmountElsewhere(files)
}

// release unmounts one mount. It may be gone by now: an unmount is propagated, too.
func (t *tearDown) release(p mountPoint) error {
	err := t.mounts.unmount(p.path)
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		err = fmt.Errorf("%s is in use%s: %w", p.path, holdersOf(t.ctx, p), err)
	}
	if err != nil {
		return fmt.Errorf("unmount: %w", err)
	}
	return nil
}

// unpublish tears down the volumes of CSI drivers, after the mounts of their subpaths. Their directories go with them.
func (t *tearDown) unpublish() error {
	if t.opts.CSI == nil {
		left, err := t.list(filepath.Join(volumesDir, csiPlugin))
		for _, name := range left {
			t.unpublished = append(t.unpublished, name)
			t.failed[name] = errors.New("a CSI driver has to unpublish it: start the agent with its kubeconfig")
		}
		return err
	}
	all, err := t.opts.CSI.TearDown(t.ctx, t.uid)
	for _, o := range all {
		t.unpublished = append(t.unpublished, o.Volumes...)
		for _, name := range o.Volumes {
			if o.Err != nil {
				t.failed[name] = o.Err
			}
		}
	}
	return err
}

// volumeOf returns the volume that a mount belongs to; "" if none. ours is whether the agent mounted it.
func (t *tearDown) volumeOf(p mountPoint) (name string, ours bool) {
	rel, err := filepath.Rel(t.PodDir(t.uid), p.path)
	if err != nil {
		return "", false
	}
	parts := strings.Split(rel, "/")
	switch {
	case len(parts) > len([]string{volumesDir, csiPlugin, "name", "mount"}) && parts[1] == csiPlugin:
		return parts[2], false
	case len(parts) >= 2 && parts[0] == volumesDir && parts[1] == csiPlugin: // it has its own outcome
	case len(parts) >= 3 && parts[0] == volumesDir:
		if is, below := t.exportOf(p); below {
			return "", false
		} else if is {
			return parts[2], true
		}
		memory := !p.bound && (p.fsType == tmpfs || p.fsType == hugetlbfs)
		return parts[2], len(parts) == 3 && memory && slices.Contains(plugins, parts[1])
	case len(parts) >= 2 && parts[0] == subpathsDir:
		return parts[1], len(parts) == 4
	}
	return "", false
}

func leftMounts(dir string, paths []string) error {
	return fmt.Errorf("%d mounts are left below %s (%s); unmount them: nothing is removed through a mount",
		len(paths), dir, strings.Join(paths[:min(len(paths), maxNamedMounts)], ", "))
}

// removeAll removes the directories of the volumes that do not stay.
func (t *tearDown) removeAll() ([]*journaletv1.VolumeOutcome, error) {
	at := map[string][]string{} // the directories of each volume
	kindOf := map[string]string{}
	kinds, err := t.list(volumesDir)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		if kind == csiPlugin {
			continue
		}
		names, err := t.list(filepath.Join(volumesDir, kind))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			volume := strings.TrimPrefix(name, newPrefix)
			at[volume] = append(at[volume], filepath.Join(volumesDir, kind, name))
			kindOf[volume] = kind
		}
	}
	subpaths, err := t.list(subpathsDir)
	if err != nil {
		return nil, err
	}
	for _, name := range subpaths {
		at[name] = append(at[name], filepath.Join(subpathsDir, name))
	}
	for _, name := range t.unpublished {
		at[name] = slices.Clone(at[name]) // also without a directory of a subpath
	}
	var outcomes []*journaletv1.VolumeOutcome
	for _, name := range slices.Sorted(maps.Keys(at)) {
		began, err := time.Now(), t.failed[name]
		for _, dir := range at[name] {
			if err == nil {
				err = removeTree(t.ctx, t.root, dir)
			}
		}
		if kind := kindOf[name]; kind == nfsPlugin || slices.Contains(plugins, kind) {
			t.observe(t.ctx, persistentvolume.PluginName(kind), string(persistentvolume.OpUnmount),
				t.took[name]+time.Since(began), err)
		}
		outcomes = append(outcomes, outcome(name, "UnmountVolume.TearDown failed for volume %q : %v", err))
	}
	if failed(outcomes) {
		return outcomes, nil
	}
	return outcomes, errors.Join(bounded.RemoveTree(t.ctx, t.root, volumesDir),
		bounded.RemoveTree(t.ctx, t.root, subpathsDir))
}

// list returns the names in a directory of the agent's; none if there is no such directory.
func (t *tearDown) list(dir string) ([]string, error) {
	var names []string
	for e, err := range bounded.EntriesIn(t.root, dir) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if !e.IsDir() {
			continue
		}
		names = append(names, e.Name())
	}
	return names, nil
}

func failed(outcomes []*journaletv1.VolumeOutcome) bool {
	return slices.ContainsFunc(outcomes, func(o *journaletv1.VolumeOutcome) bool { return o.GetMessage() != "" })
}
