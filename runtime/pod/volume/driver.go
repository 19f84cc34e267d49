package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/keymutex"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/persistentvolume"
	"github.com/journalet/journalet/runtime/pod/nfs"
)

// Options configure a Driver; RootDir must be set.
type Options struct {
	// RootDir is the agent's root directory; a pod's directory is RootDir/pods/<uid>.
	RootDir string
	// PodLogDir and ContainerLogDir default to /var/log/pods and /var/log/containers.
	PodLogDir, ContainerLogDir string
	// AllocatableMemory bounds each memory volume, in bytes; 0: only its pod and its size limit bound it.
	AllocatableMemory int64
	// Objects has the contents of ConfigMaps, Secrets and what else is projected; nil: no volume can have any.
	Objects objects.Getter
	// Prepare is called with the new directory of an emptyDir on disk, before a container can see it. May be nil.
	Prepare func(pod *corev1.Pod, volume, dir string)
	// CSI sets up volumes of CSI drivers; nil: this node has none.
	CSI CSI
	// NFS mounts exports of NFS servers. Default: by the node's mount(8).
	NFS *nfs.Mounter
	// Allocatable replaces limits that a container does not set, in a downward API. May be nil.
	Allocatable func() corev1.ResourceList
	// Observe receives each operation on a volume, with the kubelet's names of its plugin and of the operation: set-ups
	// and tear-downs, but for CSI volumes. May be nil.
	Observe func(plugin, operation string, took time.Duration, err error)
	// BootID is the machine's: after a reboot, files that were not synced count as lost.
	BootID string
	Log    *slog.Logger
}

// CSI sets up and tears down volumes of CSI drivers. It is implemented by persistentvolume.Volumes, which
// documents the methods.
type CSI interface {
	SetUp(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error
	TearDown(ctx context.Context, uid string) ([]persistentvolume.Outcome, error)
	Path(uid, volume string) (string, error)
	Check(uid, volume string) error
	Lost(uid, volume string) bool
	Relabels(uid, volume string) bool
}

// Driver sets up and tears down volumes. Its only state is the disk and the mount table, so every method may be
// repeated, also after a crash. Calls for one pod must not overlap, but for SetUp and MountSubPath.
type Driver struct {
	opts   Options
	mounts mounter
	// answers are what is done in volumes whose servers may be away.
	answers bounded.Answers
	hosts   sync.Mutex // held while a hosts file is written
	// contents is held, by the pod's UID, while files of a volume are replaced or mounted by a subPath.
	contents keymutex.KeyMutex
	// given is the number of the last pod that got exclusive resources.
	given atomic.Uint64
	// found is what Recover has found.
	found Found
}

// Names and modes of the kubelet's directories and files.
const (
	podDirMode         = 0o750
	logDirMode         = 0o755
	emptyDirMode       = 0o777
	terminationMode    = 0o666
	volumesDir         = "volumes"
	containersDir      = "containers"
	pluginsDir         = "plugins"
	defaultPodLogs     = "/var/log/pods"
	defaultContainerLg = "/var/log/containers"
)

// contentLocks is among how many locks the pods are spread.
const contentLocks = 64

// New returns a driver and changes nothing yet.
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
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.NFS == nil {
		opts.NFS = nfs.New(nfs.Options{})
	}
	return &Driver{opts: opts, mounts: kernelMounter{}, contents: keymutex.NewHashed(contentLocks)}
}

// PodDir returns the pod's directory, whether it exists or not.
func (d *Driver) PodDir(uid string) string { return filepath.Join(d.opts.RootDir, own.Pods, uid) }

// PodLogDir returns the pod's log directory, <namespace>_<name>_<uid> as in the kubelet, whether it exists or not.
func (d *Driver) PodLogDir(namespace, name, uid string) string {
	return filepath.Join(d.opts.PodLogDir, own.PodLogs(namespace, name, uid))
}

// CreatePodDirs creates the pod's directory, with the subdirectories that tools expect of a kubelet.
func (d *Driver) CreatePodDirs(uid string) error {
	root, err := d.openPod(uid, true)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, dir := range []string{volumesDir, pluginsDir, containersDir} {
		if err := createDir(root, dir, podDirMode); err != nil {
			return err
		}
	}
	return nil
}

// CreateLogDir creates a container's log directory, or the pod's if container is "", and returns its path. The pod's
// own directory exists before, because the logs of an unknown pod are found by it.
func (d *Driver) CreateLogDir(namespace, name, uid, container string) (string, error) {
	pod := own.PodLogs(namespace, name, uid)
	if err := checkNames(pod); err != nil {
		return "", err
	}
	if err := d.CreatePodDirs(uid); err != nil {
		return "", err
	}
	if err := os.MkdirAll(d.opts.PodLogDir, logDirMode); err != nil {
		return "", fmt.Errorf("create the log directory: %w", err)
	}
	root, err := os.OpenRoot(d.opts.PodLogDir)
	if err != nil {
		return "", fmt.Errorf("open the log directory: %w", err)
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

// CreateTerminationFile creates the empty file that is mounted at the terminationMessagePath of one attempt of a
// container, and returns its path.
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
		return "", fmt.Errorf("create the termination message file of container %s: %w", container, err)
	}
	if err := root.Chmod(file, terminationMode); err != nil {
		return "", fmt.Errorf("set the mode of the termination message file of container %s: %w", container, err)
	}
	return filepath.Join(d.PodDir(uid), file), nil
}

// errNoPod means that the pod's directory does not exist.
var errNoPod = errors.New("the pod has no directory")

// openPod opens the pod's directory as a root, so that no link leads out of it.
func (d *Driver) openPod(uid string, create bool) (*os.Root, error) {
	if err := checkNames(uid); err != nil {
		return nil, err
	}
	pods := filepath.Join(d.opts.RootDir, own.Pods)
	if create {
		if err := os.MkdirAll(pods, podDirMode); err != nil {
			return nil, fmt.Errorf("create the directory of pods: %w", err)
		}
	}
	all, err := os.OpenRoot(pods)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoPod
	}
	if err != nil {
		return nil, fmt.Errorf("open the directory of pods: %w", err)
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
		return nil, fmt.Errorf("open the directory of pod %s: %w", uid, err)
	}
	return root, nil
}

// createDir creates a directory and those above it, with this mode independent of the umask. The mode of an existing
// directory stays.
func createDir(root *os.Root, dir string, mode fs.FileMode) error {
	if info, err := root.Lstat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := root.MkdirAll(dir, mode); err != nil {
		return fmt.Errorf("create the directory %s: %w", dir, err)
	}
	for ; dir != "."; dir = filepath.Dir(dir) {
		if err := root.Chmod(dir, mode); err != nil {
			return fmt.Errorf("set the mode of the directory %s: %w", dir, err)
		}
	}
	return nil
}

// checkNames refuses names that are not a single path element, so that no name leads out of its directory.
func checkNames(names ...string) error {
	for _, n := range names {
		if n == "" || n == "." || n == ".." || strings.ContainsAny(n, "/\x00") {
			return fmt.Errorf("%q cannot be the name of a file; "+
				"a pod's UID and the names of its containers and volumes must be plain names", n)
		}
	}
	return nil
}
