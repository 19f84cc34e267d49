package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/storage/quota"
)

// Measured is what a volume, or a file of a pod, takes, and what its file system has, at one time.
type Measured struct {
	// Bytes and Inodes are what it takes itself.
	Bytes, Inodes int64
	FS            FileSystem
}

// FileSystem is what a file system has, in bytes and inodes.
type FileSystem struct {
	Capacity, Available, Used uint64
	Inodes, InodesFree        uint64
}

// ErrNotMeasured means that a volume is of a kind that is the node's or the runtime's, hostPath and image, or of a CSI
// driver that measures none.
var ErrNotMeasured = errors.New("the volume is not the pod's own")

// FileSystemAt measures the file system of a path.
func FileSystemAt(path string) (FileSystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return FileSystem{}, fmt.Errorf("measure the file system of %s: %w", path, err)
	}
	size := uint64(max(0, st.Bsize))
	return FileSystem{
		Capacity: st.Blocks * size, Available: st.Bavail * size, Used: (st.Blocks - min(st.Blocks, st.Bfree)) * size,
		Inodes: st.Files, InodesFree: st.Ffree,
	}, nil
}

// Export measures the file system of an NFS export, within bounded.AnswerTimeout: its server may be away. Nothing is
// walked. kubelet: the same, without a bound.
func Export(ctx context.Context, answers *bounded.Answers, path string) (m Measured, err error) {
	m.FS, err = bounded.Within(ctx, answers, path, bounded.AnswerTimeout, func() (FileSystem, error) {
		return FileSystemAt(path)
	})
	m.Bytes, m.Inodes = int64(m.FS.Used), int64(m.FS.Inodes-min(m.FS.Inodes, m.FS.InodesFree))
	return m, err
}

// Local reports whether a volume takes space of the node's file system that goes with its pod (kubelet:
// IsLocalEphemeralVolume). One in memory or of huge pages takes none; a hostPath stays.
func Local(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
}

// Volume measures one volume of a pod for statistics, within the share of walks of all measurements. It is measured to
// its end, other than for limits. A volume of a CSI driver is measured by that.
func (d *Driver) Volume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (Measured, error) {
	if v.HostPath != nil || v.Image != nil {
		return Measured{}, ErrNotMeasured
	}
	if references.IsCSI(v) {
		if d.opts.CSI == nil {
			return Measured{}, ErrNotMeasured
		}
		return d.opts.CSI(ctx, string(pod.UID), v.Name)
	}
	path, err := d.opts.Path(pod, v.Name)
	if err != nil {
		return Measured{}, err
	}
	if v.NFS != nil {
		return Export(ctx, &d.answers, path)
	}
	var m Measured
	if m.FS, err = FileSystemAt(path); err != nil {
		return Measured{}, err
	}
	if v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumDefault {
		m.Bytes, err = memory(path)
		m.Inodes = int64(m.FS.Inodes - min(m.FS.Inodes, m.FS.InodesFree))
		return m, err
	}
	u, err := d.tree(ctx, path, 0)
	m.Bytes, m.Inodes = u.Bytes(), u.Inodes
	if used, ok := quota.Used(path); ok && mapped(pod) {
		m.Bytes = used
	}
	return m, err
}

// Logs measures what one container, or the whole pod if the name is empty, has logged: its log files, with those
// rotated, and the files of its termination messages, of all instances. Directories do not count. kubelet: the messages
// count nowhere, so that a container can fill the disk through them.
func (d *Driver) Logs(ctx context.Context, pod *corev1.Pod, container string) (bounded.Usage, error) {
	dir := d.opts.PodLogDir(pod.Namespace, pod.Name, string(pod.UID))
	u, err := d.tree(ctx, filepath.Join(dir, container), 0)
	messages, failed := d.tree(ctx, filepath.Join(d.opts.PodDir(string(pod.UID)), messagesDir, container), 0)
	u.Add(messages)
	return u, errors.Join(err, failed)
}

// Hosts measures the hosts file of a pod and the hosts files that it replaced: containers may still have these mounted.
func (d *Driver) Hosts(ctx context.Context, pod *corev1.Pod) (bounded.Usage, error) {
	var u bounded.Usage
	dir := d.opts.PodDir(string(pod.UID))
	var failed []error
	for e, err := range bounded.Entries(dir) {
		if errors.Is(err, fs.ErrNotExist) {
			return u, nil
		}
		if err != nil {
			return u, fmt.Errorf("hosts files of a pod: %w", err)
		}
		if strings.HasPrefix(e.Name(), hostsFile) {
			one, err := d.tree(ctx, filepath.Join(dir, e.Name()), 0)
			failed = append(failed, err)
			u.Add(one)
		}
	}
	return u, errors.Join(failed...)
}
