package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// mounter is the kernel's mount table.
type mounter interface {
	// tmpfs mounts a tmpfs at path that is never swapped out, where the kernel can promise that (6.4 and newer). With
	// sizeBytes 0 it has the kernel's default size, half of the memory.
	tmpfs(path string, sizeBytes int64) error
	unmount(path string) error
	// below lists the mount points at and below path with the type of their file system.
	below(path string) ([]mountPoint, error)
}

type mountPoint struct{ path, fsType string }

type kernelMounter struct{}

func (kernelMounter) tmpfs(path string, sizeBytes int64) error {
	var size []string
	if sizeBytes > 0 {
		size = []string{fmt.Sprintf("size=%d", sizeBytes)}
	}
	err := unix.Mount("tmpfs", path, "tmpfs", 0, strings.Join(append(size, "noswap"), ","))
	if errors.Is(err, unix.EINVAL) { // an older kernel, or a user namespace
		err = unix.Mount("tmpfs", path, "tmpfs", 0, strings.Join(size, ","))
	}
	return err
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

// MemorySize returns the size of a memory volume in bytes, as the kubelet does: the smallest of its size limit, the
// memory limit of its pod and the memory that is allocatable to all pods; 0 if there is none of them.
func MemorySize(pod *corev1.Pod, source *corev1.EmptyDirVolumeSource, allocatable int64) int64 {
	least := max(0, allocatable)
	limits := []int64{cgroup.OfPod(pod).MemoryBytes}
	if source.SizeLimit != nil {
		limits = append(limits, source.SizeLimit.Value())
	}
	for _, limit := range limits {
		if limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}

func (d *Driver) setUpEmptyDir(pod *corev1.Pod, v *corev1.Volume) error {
	uid := string(pod.UID)
	if err := checkNames(v.Name); err != nil {
		return permanent{err}
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
	rel := volumePath(emptyDirPlugin, v.Name)
	if _, err := root.Lstat(rel); os.IsNotExist(err) {
		if err := root.Mkdir(rel, podDirMode); err != nil {
			return fmt.Errorf("create the volume's directory: %w", err)
		}
	}
	switch v.EmptyDir.Medium {
	case corev1.StorageMediumDefault:
	case corev1.StorageMediumMemory:
		size := MemorySize(pod, v.EmptyDir, d.opts.AllocatableMemory)
		if err := d.mountMemory(filepath.Join(d.PodDir(uid), rel), size); err != nil {
			return err
		}
	default:
		return permanent{fmt.Errorf("medium %q is not supported; use \"\" or Memory", v.EmptyDir.Medium)}
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

func (d *Driver) mountMemory(path string, sizeBytes int64) error {
	points, err := d.mounts.below(path)
	if err != nil {
		return err
	}
	for _, p := range points {
		if p.fsType == "tmpfs" {
			return nil
		}
	}
	if err := d.mounts.tmpfs(path, sizeBytes); err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", path, err)
	}
	return nil
}
