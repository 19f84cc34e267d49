package volume

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// mounter is the kernel's mount table.
type mounter interface {
	// tmpfs mounts a tmpfs at path. With sizeBytes 0 it has the kernel's default size, half of the memory.
	tmpfs(path string, sizeBytes int64) error
	unmount(path string) error
	// below lists the mount points at and below path with the type of their file system.
	below(path string) ([]mountPoint, error)
}

type mountPoint struct{ path, fsType string }

type kernelMounter struct{}

func (kernelMounter) tmpfs(path string, sizeBytes int64) error {
	opts := ""
	if sizeBytes > 0 {
		opts = fmt.Sprintf("size=%d", sizeBytes)
	}
	return unix.Mount("tmpfs", path, "tmpfs", 0, opts)
}

func (kernelMounter) unmount(path string) error {
	return unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
}

func (kernelMounter) below(path string) ([]mountPoint, error) {
	// The mount table has real paths, and the path of the root directory may have links.
	resolved, err := filepath.EvalSymlinks(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(resolved))
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	points := make([]mountPoint, 0, len(infos))
	for _, i := range infos {
		points = append(points, mountPoint{i.Mountpoint, i.FSType})
	}
	return points, nil
}

func emptyDirPath(name string) string { return filepath.Join(volumesDir, emptyDirPlugin, name) }

func (d *Driver) setUpEmptyDir(uid string, v *corev1.Volume) error {
	if err := checkNames(v.Name); err != nil {
		return err
	}
	root, err := d.openPod(uid, true)
	if err != nil {
		return err
	}
	defer root.Close()
	parent := filepath.Join(volumesDir, emptyDirPlugin)
	if err := createDir(root, parent, podDirMode); err != nil {
		return err
	}
	rel := emptyDirPath(v.Name)
	if _, err := root.Lstat(rel); os.IsNotExist(err) {
		if err := root.Mkdir(rel, podDirMode); err != nil {
			return fmt.Errorf("create the volume's directory: %w", err)
		}
	}
	switch v.EmptyDir.Medium {
	case corev1.StorageMediumDefault:
	case corev1.StorageMediumMemory:
		if err := d.mountMemory(filepath.Join(d.PodDir(uid), rel), v.EmptyDir); err != nil {
			return err
		}
	default:
		return fmt.Errorf("medium %q is not supported; use \"\" or Memory", v.EmptyDir.Medium)
	}
	info, err := root.Lstat(rel)
	if err != nil {
		return fmt.Errorf("read the mode of the volume's directory: %w", err)
	}
	if info.Mode().Perm() != emptyDirMode {
		if err := root.Chmod(rel, emptyDirMode); err != nil {
			return fmt.Errorf("set the mode of the volume's directory: %w", err)
		}
	}
	return nil
}

func (d *Driver) mountMemory(path string, source *corev1.EmptyDirVolumeSource) error {
	points, err := d.mounts.below(path)
	if err != nil {
		return err
	}
	for _, p := range points {
		if p.fsType == "tmpfs" {
			return nil
		}
	}
	size := int64(0)
	if source.SizeLimit != nil {
		size = source.SizeLimit.Value()
	}
	if err := d.mounts.tmpfs(path, size); err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", path, err)
	}
	return nil
}
