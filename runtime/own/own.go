package own

import (
	"path"
	"slices"
	"strings"
)

// Names of what the agent creates in its root directory.
const (
	Bus             = "bus"
	Certificates    = "pki"
	Checkpoints     = "checkpoints"
	DevicePlugins   = "device-plugins"
	EventsCursor    = "events.cursor"
	HandedBack      = "bus.handed-back"
	Kubeconfig      = "kubeconfig"
	LocalDisks      = "plugins/kubernetes.io/local-volume/mounts"
	Logs            = "logs"
	ObjectsKey      = "objects.key"
	Offline         = "offline"
	PluginsRegistry = "plugins_registry"
	PodResources    = "pod-resources"
	PodsAPI         = "pods-api"
	Pods            = "pods"
	SandboxSeccomp  = "sandbox-seccomp.json"
	Socket          = "kubelet.sock"
	Staged          = "plugins/kubernetes.io/csi"
	StaticPods      = "static-pods.json"
	VolumesBoot     = "volumes.boot"
	// Probe is a pattern of os.CreateTemp.
	Probe = ".writable-*"
)

// PodLogs returns the name of a pod's log directory, as in the kubelet.
func PodLogs(namespace, name, uid string) string { return namespace + "_" + name + "_" + uid }

// Reset is what `journalet reset` does with a path.
type Reset string

const (
	// Removed is for a path that is removed with all that is in it.
	Removed Reset = "removed"
	// ByPod is for what is removed with its pod.
	ByPod Reset = "removed with the pods"
	// Left is for a path that stays, since it may be somebody else's, and is reported.
	Left Reset = "stays, and is reported"
)

// Entry is a path that the agent creates.
type Entry struct {
	// Path is relative to the root directory; the path of a directory ends in "/". "*" stands for any text without "/".
	Path string
	What string
	// Secret: who reads it can act as the node, or knows what pods keep secret.
	Secret bool
	Reset  Reset
}

// All are the paths that the agent creates below its root directory.
var All = []Entry{
	{Bus + "/", "the journal, the manifests, the snapshots and the keys of clients", true, Removed},
	{HandedBack + "/", "the same of an agent that has handed the node back to a kubelet", true, Removed},
	{Pods + "/", "a directory a pod: volumes, hosts file, what the pod was given", true, ByPod},
	{Certificates + "/kubelet-client*", "the node's certificate for the API server with its key", true, Removed},
	{Certificates + "/kubelet-server*", "the node's serving certificate with its key", true, Removed},
	{Kubeconfig, "how to reach the API server; written by a bootstrap, else the operator's", true, Left},
	{Offline + "/", "copies of objects for a start without the API server, Secrets sealed", true, Removed},
	{ObjectsKey, "the key of digests of Secrets and ConfigMaps", true, Removed},
	{Checkpoints + "/", "checkpoints of containers, with their memory", true, Removed},
	{Staged + "/", "volumes of CSI drivers that are staged; their drivers unstage them", true, Left},
	{LocalDisks + "/", "file systems of local volumes on block devices, mounted while pods have them", true, Left},
	{EventsCursor, "the last record whose events the API server has", false, Removed},
	{StaticPods, "the UIDs of static pods that were taken over from a kubelet", false, Removed},
	{VolumesBoot, "the boot of the last run that reported lost volumes", false, Removed},
	{SandboxSeccomp, "the seccomp profile of pause processes", false, Removed},
	{Socket, "the socket of the kubelet's paths, unless `--api-socket` names another", false, Removed},
	{DevicePlugins + "/", "the socket on which device plugins register, and theirs", false, Removed},
	{PluginsRegistry + "/", "sockets of plugins that want to be found", false, Removed},
	{PodResources + "/", "the socket for monitors of devices", false, Removed},
	{PodsAPI + "/", "the socket on which agents of the node read and watch its pods", false, Removed},
	{Logs + "/pods/", "logs of the containers of a simulated runtime", false, Removed},
	{Logs + "/containers/", "links to these logs", false, Removed},
	{Probe, "an attempt to write, by a start that was killed", false, Removed},
}

// asides are what a name ends in while a file is written, and after it was found damaged.
var asides = []string{".part", ".new", ".damaged"}

// Find returns the entry of a path relative to the root directory, nil if the agent does not create it. What is in a
// directory of the agent is the directory's.
func Find(name string) *Entry {
	for i := range All {
		if All[i].has(name) {
			return &All[i]
		}
	}
	return nil
}

func (e *Entry) has(name string) bool {
	if dir, ok := strings.CutSuffix(e.Path, "/"); ok {
		return name == dir || strings.HasPrefix(name, e.Path)
	}
	if ok, err := path.Match(e.Path, name); ok && err == nil {
		return true
	}
	for _, aside := range asides {
		if name == e.Path+aside {
			return true
		}
	}
	return false
}

// Shares reports whether a directory has paths of the agent and may have others'.
func Shares(dir string) bool {
	for _, e := range All {
		if strings.HasPrefix(e.Path, dir+"/") && e.Path != dir+"/" {
			return true
		}
	}
	return false
}

// SecretDirs returns the directories that hold secrets of the agent and of pods, which nobody else may change.
func SecretDirs() (dirs []string) {
	for _, e := range All {
		if dir := path.Dir(e.Path); e.Secret && dir != "." && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir) // "bus/" is in "bus"
		}
	}
	return dirs
}
