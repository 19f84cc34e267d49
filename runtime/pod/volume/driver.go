package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Options configure a Driver; RootDir must be set.
type Options struct {
	// RootDir is the agent's data folder; pods stand in RootDir/pods/<uid>.
	RootDir string
	// PodLogDir and ContainerLogDir default to /var/log/pods and /var/log/containers.
	PodLogDir, ContainerLogDir string
}

// Driver sets volumes up and takes them down. It holds no state: the disk and the mount table tell where things stand,
// so every method may be called again, at any time, after any crash. Calls for one pod must not overlap.
type Driver struct {
	opts   Options
	mounts mounter
}

// Modes of the kubelet's folders and files.
const (
	podDirMode         = 0o750
	logDirMode         = 0o755
	emptyDirMode       = 0o777
	hostsFileMode      = 0o644
	terminationMode    = 0o666
	hostPathDirMode    = 0o755
	hostPathFileMode   = 0o644
	volumesDir         = "volumes"
	emptyDirPlugin     = "kubernetes.io~empty-dir"
	containersDir      = "containers"
	hostsFile          = "etc-hosts"
	defaultPodLogs     = "/var/log/pods"
	defaultContainerLg = "/var/log/containers"
)

// New makes a driver and touches nothing yet.
func New(opts Options) *Driver {
	if opts.RootDir == "" {
		panic("volume: Options needs RootDir")
	}
	if opts.PodLogDir == "" {
		opts.PodLogDir = defaultPodLogs
	}
	if opts.ContainerLogDir == "" {
		opts.ContainerLogDir = defaultContainerLg
	}
	return &Driver{opts: opts, mounts: kernelMounter{}}
}

// PodDir is the pod's folder, whether it exists or not.
func (d *Driver) PodDir(uid string) string { return filepath.Join(d.opts.RootDir, "pods", uid) }

// PodLogDir is the pod's log folder, <namespace>_<name>_<uid> as the kubelet names it, whether it exists or not.
func (d *Driver) PodLogDir(namespace, name, uid string) string {
	return filepath.Join(d.opts.PodLogDir, namespace+"_"+name+"_"+uid)
}

// CreatePodDirs makes the pod's folder with the subfolders that tools expect of a kubelet.
func (d *Driver) CreatePodDirs(uid string) error {
	root, err := d.openPod(uid, true)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, dir := range []string{volumesDir, "plugins", containersDir} {
		if err := createDir(root, dir, podDirMode); err != nil {
			return err
		}
	}
	return nil
}

// CreateLogDir makes a container's log folder below the pod's, or the pod's own with an empty container, and returns it.
func (d *Driver) CreateLogDir(namespace, name, uid, container string) (string, error) {
	pod := namespace + "_" + name + "_" + uid
	if err := checkNames(pod); err != nil {
		return "", err
	}
	if err := os.MkdirAll(d.opts.PodLogDir, logDirMode); err != nil {
		return "", fmt.Errorf("make the log folder: %w", err)
	}
	root, err := os.OpenRoot(d.opts.PodLogDir)
	if err != nil {
		return "", fmt.Errorf("open the log folder: %w", err)
	}
	defer root.Close()
	rel := pod
	if container != "" {
		if err := checkNames(container); err != nil {
			return "", err
		}
		rel = filepath.Join(pod, container)
	}
	if err := createDir(root, rel, logDirMode); err != nil {
		return "", err
	}
	return filepath.Join(d.opts.PodLogDir, rel), nil
}

// WriteHosts writes the pod's hosts file and returns its path. The file is replaced in place, because containers have
// it mounted.
func (d *Driver) WriteHosts(uid string, content []byte) (string, error) {
	root, err := d.openPod(uid, true)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if old, err := root.ReadFile(hostsFile); err == nil && string(old) == string(content) {
		return filepath.Join(d.PodDir(uid), hostsFile), nil
	}
	if err := root.WriteFile(hostsFile, content, hostsFileMode); err != nil {
		return "", fmt.Errorf("write the pod's hosts file: %w", err)
	}
	// The umask must not keep containers of other users from reading it.
	if err := root.Chmod(hostsFile, hostsFileMode); err != nil {
		return "", fmt.Errorf("set the mode of the pod's hosts file: %w", err)
	}
	return filepath.Join(d.PodDir(uid), hostsFile), nil
}

// CreateTerminationFile makes the empty file that one attempt of a container gets at its terminationMessagePath.
func (d *Driver) CreateTerminationFile(uid, container string, attempt uint32) (string, error) {
	if err := checkNames(container); err != nil {
		return "", err
	}
	root, err := d.openPod(uid, true)
	if err != nil {
		return "", err
	}
	defer root.Close()
	dir := filepath.Join(containersDir, container)
	if err := createDir(root, dir, podDirMode); err != nil {
		return "", err
	}
	file := filepath.Join(dir, fmt.Sprint(attempt))
	if err := root.WriteFile(file, nil, terminationMode); err != nil {
		return "", fmt.Errorf("make the termination message file of container %s: %w", container, err)
	}
	if err := root.Chmod(file, terminationMode); err != nil {
		return "", fmt.Errorf("set the mode of the termination message file of container %s: %w", container, err)
	}
	return filepath.Join(d.PodDir(uid), file), nil
}

// SetUp makes every volume of the pod ready to be mounted. It is idempotent; what is there already is left as it is.
func (d *Driver) SetUp(ctx context.Context, pod *corev1.Pod) error {
	if err := d.CreatePodDirs(string(pod.UID)); err != nil {
		return err
	}
	for i := range pod.Spec.Volumes {
		if err := ctx.Err(); err != nil {
			return err
		}
		v := &pod.Spec.Volumes[i]
		var err error
		switch {
		case v.EmptyDir != nil:
			err = d.setUpEmptyDir(string(pod.UID), v)
		case v.HostPath != nil:
			err = setUpHostPath(v.HostPath)
		default:
			err = errors.New("this kind of volume is not supported; use emptyDir or hostPath")
		}
		if err != nil {
			return fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
		}
	}
	return nil
}

// Path is where the named volume of a pod stands on the host. It does not check that SetUp was called.
func (d *Driver) Path(pod *corev1.Pod, volumeName string) (string, error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.Name != volumeName:
		case v.HostPath != nil:
			return v.HostPath.Path, nil
		case v.EmptyDir != nil:
			return filepath.Join(d.PodDir(string(pod.UID)), emptyDirPath(v.Name)), nil
		default:
			return "", fmt.Errorf("volume %q is of a kind that is not supported; use emptyDir or hostPath", volumeName)
		}
	}
	return "", fmt.Errorf("the pod has no volume %q", volumeName)
}

// errNoPod tells that the pod's folder is not there.
var errNoPod = errors.New("the pod has no folder")

// openPod opens the pod's folder as a root that no link leads out of.
func (d *Driver) openPod(uid string, create bool) (*os.Root, error) {
	if err := checkNames(uid); err != nil {
		return nil, err
	}
	pods := filepath.Join(d.opts.RootDir, "pods")
	if create {
		if err := os.MkdirAll(pods, podDirMode); err != nil {
			return nil, fmt.Errorf("make the folder of pods: %w", err)
		}
	}
	all, err := os.OpenRoot(pods)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoPod
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of pods: %w", err)
	}
	defer all.Close()
	if create {
		if err := createDir(all, uid, podDirMode); err != nil {
			return nil, err
		}
	}
	root, err := all.OpenRoot(uid)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoPod
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of pod %s: %w", uid, err)
	}
	return root, nil
}

// createDir makes a folder and those above it. Its mode is set whatever the umask says; that of one which was there stays.
func createDir(root *os.Root, dir string, mode fs.FileMode) error {
	if info, err := root.Lstat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := root.MkdirAll(dir, mode); err != nil {
		return fmt.Errorf("make the folder %s: %w", dir, err)
	}
	for ; dir != "."; dir = filepath.Dir(dir) {
		if err := root.Chmod(dir, mode); err != nil {
			return fmt.Errorf("set the mode of the folder %s: %w", dir, err)
		}
	}
	return nil
}

// checkNames refuses what is no single path element, so that no name walks out of its folder.
func checkNames(names ...string) error {
	for _, n := range names {
		if n == "" || n == "." || n == ".." || strings.ContainsAny(n, "/\x00") {
			return fmt.Errorf("%q cannot be the name of a file; a pod's UID and the names of its containers and volumes must be plain names", n)
		}
	}
	return nil
}
