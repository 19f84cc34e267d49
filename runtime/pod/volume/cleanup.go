package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
)

// maxNamedMounts bounds how many leftover mounts an error names.
const maxNamedMounts = 5

// TearDown unmounts the pod's volumes and removes them with their contents. It does nothing for a pod without a
// directory. It fails rather than remove anything through a mount of others, such as one that a container propagated to
// the host. It returns an outcome for each volume that had a directory, sorted by name. The error is what failed beside
// them.
func (d *Driver) TearDown(ctx context.Context, uid string) ([]*journaletv1.VolumeOutcome, error) {
	root, err := d.openPod(uid, false)
	if errors.Is(err, errNoPod) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := d.unmountAll(ctx, filepath.Join(d.PodDir(uid), volumesDir)); err != nil {
		return nil, err
	}
	if err := bounded.RemoveTree(ctx, root, volumesDir); err != nil {
		return nil, fmt.Errorf("remove the volumes of pod %s: %w", uid, err)
	}
	return nil, nil
}

// Clean is TearDown that then removes the pod's directory, its log directory and the links to its logs. Without a name,
// as for an orphan, it finds the log directory by the UID. It removes nothing but volumes if one of these fails.
func (d *Driver) Clean(ctx context.Context, uid, namespace, name string) ([]*journaletv1.VolumeOutcome, error) {
	outcomes, err := d.TearDown(ctx, uid)
	if err != nil || failed(outcomes) {
		return outcomes, err
	}
	if err := d.removePodDir(ctx, uid); err != nil {
		return outcomes, err
	}
	if name != "" {
		return outcomes, d.cleanLogs(ctx, uid, namespace, name)
	}
	for e, err := range bounded.Entries(d.opts.PodLogDir) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return outcomes, fmt.Errorf("list the logs of pod %s: %w", uid, err)
		}
		full, found := strings.CutSuffix(e.Name(), "_"+uid)
		namespace, name, named := strings.Cut(full, "_")
		if found && named {
			if err := d.cleanLogs(ctx, uid, namespace, name); err != nil {
				return outcomes, err
			}
		}
	}
	return outcomes, nil
}

func failed(outcomes []*journaletv1.VolumeOutcome) bool {
	return slices.ContainsFunc(outcomes, func(o *journaletv1.VolumeOutcome) bool { return o.GetMessage() != "" })
}

// cleanLogs removes a pod's log directory and the links into it.
func (d *Driver) cleanLogs(ctx context.Context, uid, namespace, name string) error {
	logs := namespace + "_" + name + "_" + uid
	if err := checkNames(logs); err != nil {
		return err
	}
	if err := d.removeLinks(namespace, name, logs); err != nil {
		return err
	}
	root, err := os.OpenRoot(d.opts.PodLogDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the log directory: %w", err)
	}
	defer root.Close()
	if err := bounded.RemoveTree(ctx, root, logs); err != nil {
		return fmt.Errorf("remove the logs of pod %s/%s: %w", namespace, name, err)
	}
	return nil
}

func (d *Driver) removePodDir(ctx context.Context, uid string) error {
	pods, err := os.OpenRoot(filepath.Join(d.opts.RootDir, "pods"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the directory of pods: %w", err)
	}
	defer pods.Close()
	if err := d.refuseMounts(d.PodDir(uid)); err != nil {
		return err
	}
	if err := bounded.RemoveTree(ctx, pods, uid); err != nil {
		return fmt.Errorf("remove the directory of pod %s: %w", uid, err)
	}
	return nil
}

// unmountAll unmounts the tmpfs volumes below dir, the newest first, and fails if any mount is left.
func (d *Driver) unmountAll(ctx context.Context, dir string) error {
	points, err := d.mounts.below(dir)
	if err != nil {
		return err
	}
	slices.Reverse(points)
	for _, p := range points {
		if err := ctx.Err(); err != nil {
			return err
		}
		ours := p.fsType == "tmpfs" && filepath.Base(filepath.Dir(p.path)) == emptyDirPlugin
		if !ours {
			continue
		}
		if err := d.mounts.unmount(p.path); err != nil {
			return fmt.Errorf("unmount the volume at %s: %w", p.path, err)
		}
	}
	return d.refuseMounts(dir)
}

func (d *Driver) refuseMounts(dir string) error {
	points, err := d.mounts.below(dir)
	if err != nil {
		return err
	}
	if len(points) == 0 {
		return nil
	}
	names := make([]string, 0, maxNamedMounts)
	for _, p := range points[:min(len(points), maxNamedMounts)] {
		names = append(names, p.path)
	}
	return fmt.Errorf("%d mounts are left below %s (%s); unmount them: nothing is removed through a mount",
		len(points), dir, strings.Join(names, ", "))
}

// removeLinks removes the links in the container log directory that point into the pod's log directory. The name alone
// is ambiguous: another pod's links may begin with it.
func (d *Driver) removeLinks(namespace, name, logs string) error {
	target := filepath.Join(d.opts.PodLogDir, logs) + "/"
	for e, err := range bounded.Entries(d.opts.ContainerLogDir) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the directory of container log links: %w", err)
		}
		if e.Type()&fs.ModeSymlink == 0 || !strings.HasPrefix(e.Name(), name+"_"+namespace+"_") {
			continue
		}
		link := filepath.Join(d.opts.ContainerLogDir, e.Name())
		to, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(to, target) {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a container log link: %w", err)
		}
	}
	return nil
}
