package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// newPrefix begins the name of a volume that is being created. No volume has such a name: theirs are DNS labels.
const newPrefix = ".new-"

// MemorySize returns the size of a memory volume in bytes, as the kubelet does: the smallest of its size limit, the
// memory limit of its pod and the memory that is allocatable to all pods; 0 if none of these is set.
func MemorySize(pod *corev1.Pod, source *corev1.EmptyDirVolumeSource, allocatable int64) int64 {
	least := max(0, allocatable)
	limits := []int64{cgroup.OfPod(pod, cgroup.CPUQuota{}).MemoryBytes}
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

// setUpEmptyDir creates an emptyDir volume at rel, its path below the pod's directory. What is there stays as it is,
// also its mode: it may be the containers' doing.
func (d *Driver) setUpEmptyDir(
	root *os.Root, pod *corev1.Pod, source *corev1.EmptyDirVolumeSource, rel string,
) error {
	path := filepath.Join(d.PodDir(string(pod.UID)), rel)
	if source.Medium == corev1.StorageMediumDefault {
		return createVolumeDir(root, rel, fsGroupOf(pod), func(created string) {
			if d.opts.Prepare != nil {
				d.opts.Prepare(pod, filepath.Base(rel), filepath.Join(d.PodDir(string(pod.UID)), created))
			}
		})
	}
	f := fileSystem{kind: tmpfs, fsGroup: fsGroupOf(pod)}
	if source.Medium == corev1.StorageMediumMemory {
		f.sizeBytes = MemorySize(pod, source, d.opts.AllocatableMemory)
	} else {
		size, err := pageSize(source.Medium, pod)
		if err != nil {
			return permanent{err}
		}
		f.kind, f.pageSize = hugetlbfs, size
	}
	if err := createVolumeDir(root, rel, nil, func(string) {}); err != nil {
		return err
	}
	return d.mountOnce(path, f)
}

// createVolumeDir creates the directory of a volume, which everyone may write, and the files of fsGroup's if there is
// one. It appears with all of that, and with what prepare does.
func createVolumeDir(root *os.Root, rel string, fsGroup *int64, prepare func(rel string)) error {
	if info, err := root.Lstat(rel); err == nil && info.IsDir() {
		return nil
	}
	parent, name := filepath.Split(rel)
	if err := createDir(root, filepath.Clean(parent), podDirMode); err != nil {
		return err
	}
	tmp := filepath.Join(parent, newPrefix+name)
	if err := root.Remove(tmp); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove what a crash has left of the volume's directory: %w", err)
	}
	if err := root.Mkdir(tmp, podDirMode); err != nil {
		return fmt.Errorf("create the volume's directory: %w", err)
	}
	mode := os.FileMode(emptyDirMode)
	if fsGroup != nil {
		mode |= os.ModeSetgid
		if err := root.Lchown(tmp, -1, int(*fsGroup)); err != nil {
			return fmt.Errorf("give the volume's directory to the fsGroup: %w", err)
		}
	}
	if err := root.Chmod(tmp, mode); err != nil {
		return fmt.Errorf("set the mode of the volume's directory: %w", err)
	}
	prepare(tmp)
	if err := root.Rename(tmp, rel); err != nil {
		return fmt.Errorf("create the volume's directory: %w", err)
	}
	return nil
}

// mountOnce mounts a file system at path unless it is there.
func (d *Driver) mountOnce(path string, f fileSystem) error {
	kind, err := d.mounts.kindAt(path)
	if err != nil || kind == f.kind {
		return err
	}
	if kind != "" {
		return fmt.Errorf("%s is a mount of another kind (%s); unmount it", path, kind)
	}
	err = d.mounts.mount(path, f)
	switch {
	case err == nil && f.kind == hugetlbfs && f.fsGroup != nil:
		err = d.giveTo(path, *f.fsGroup)
	case err != nil && f.kind == hugetlbfs:
		err = fmt.Errorf("mount huge pages of %s at %s: %w; the node must have pages of this size (/sys/kernel/mm/hugepages)",
			f.pageSize, path, err)
	case err != nil:
		err = fmt.Errorf("mount a %s at %s: %w", f.kind, path, err)
	}
	return err
}

// giveTo gives the root of a new mount to a group. If that fails it unmounts, since an existing mount counts as
// complete.
func (d *Driver) giveTo(path string, group int64) error {
	root, err := os.OpenRoot(path)
	if err == nil {
		defer root.Close()
		err = root.Lchown(".", -1, int(group))
	}
	if err == nil {
		err = root.Chmod(".", emptyDirMode|os.ModeSetgid)
	}
	if err != nil {
		_ = d.mounts.unmount(path) // the next try finds it otherwise
		return fmt.Errorf("give the volume's directory to the fsGroup: %w", err)
	}
	return nil
}

// pageSize returns the size of the huge pages of a medium, such as 2Mi. HugePages is the size that the pod requests.
func pageSize(medium corev1.StorageMedium, pod *corev1.Pod) (string, error) {
	var wanted resource.Quantity
	if medium != corev1.StorageMediumHugePages {
		size, ok := strings.CutPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix))
		var err error
		if wanted, err = resource.ParseQuantity(size); !ok || err != nil {
			return "", fmt.Errorf("unknown storage medium %q", medium)
		}
	}
	var found resource.Quantity
	for _, list := range requests(pod) {
		for name := range list {
			size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
			q, err := resource.ParseQuantity(size)
			switch {
			case !ok || !wanted.IsZero() && q.Cmp(wanted) != 0:
			case err != nil:
				return "", fmt.Errorf("%s is not the name of a resource: %w", name, err)
			case !found.IsZero() && found.Cmp(q) != 0:
				return "", fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
			default:
				found = q
			}
		}
	}
	if found.IsZero() {
		return "", fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages",
			medium)
	}
	return found.String(), nil
}

func requests(pod *corev1.Pod) []corev1.ResourceList {
	var out []corev1.ResourceList
	if pod.Spec.Resources != nil {
		out = append(out, pod.Spec.Resources.Requests)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			out = append(out, containers[i].Resources.Requests)
		}
	}
	return out
}

// fsGroupOf returns the group that owns the files of the pod's volumes; nil if it has none.
func fsGroupOf(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}
