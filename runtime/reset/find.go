package reset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/pod/volume"
)

// listTimeout bounds one request of all objects of the runtime.
const listTimeout = 10 * time.Second

// Calls performs calls on the runtime and in pods' directories. calls.Works implements it.
type Calls interface {
	Perform(ctx context.Context, intent, requester string, req *journaletv1.CallRequested, inDoubt bool,
	) *journaletv1.CallFinished
}

// Cgroups are the cgroups above the pods'. cgroup.Tree implements it.
type Cgroups interface {
	// RemoveTop removes the cgroups above the pods' that are empty.
	RemoveTop() error
}

// Options say what there is to reset.
type Options struct {
	// Owner knows the agent's objects on the runtime.
	Owner   cri.Owner
	RootDir string
	// Socket is the path of the API's socket; empty: no socket.
	Socket string
	// Runtime is nil for a simulated runtime, which leaves nothing.
	Runtime runtimeapi.RuntimeServiceClient
	Calls   Calls
	Volumes *volume.Driver
	Cgroups Cgroups // nil: none are removed
	// Outside are files outside of the root directory that this agent has written, and are removed with it. Removed is
	// called after that; what it returns prevents no reset.
	Outside []string
	Removed func(context.Context) error
	// Recorded returns what the journal has of pods, by UID. What it lacks is taken from the runtime.
	Recorded func(context.Context) (map[string]Recorded, error)
	// MaxGrace bounds the grace period of each pod.
	MaxGrace time.Duration
	// KeepJournal leaves the bus directory with the journal.
	KeepJournal bool
	// Progress receives a line for each pod, one after the other. May be nil.
	Progress func(string)
}

// Recorded is what the journal has of a pod.
type Recorded struct {
	Namespace, Name string
	Priority        int32
}

// Pod is a pod of the agent that is to be removed.
type Pod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Priority  int32  `json:"priority"`
	// Running counts the containers that run, GraceSeconds is the longest grace period of them.
	Running      int   `json:"running"`
	GraceSeconds int64 `json:"graceSeconds,omitempty"`
	Containers   int   `json:"containers"`
	Sandboxes    int   `json:"sandboxes"`
	// Directory is whether the pod has one.
	Directory bool `json:"directory"`

	sandboxes  []string
	containers []instance
}

// String returns namespace/name, or the UID of a pod without a name.
func (p *Pod) String() string {
	if p.Name == "" {
		return p.UID
	}
	return p.Namespace + "/" + p.Name
}

type instance struct {
	id, name, sandbox string
	runs              bool
	grace             time.Duration
}

// Found is everything of the agent on the node.
type Found struct {
	// Pods are in the order of their removal.
	Pods []*Pod `json:"pods"`
	// Files are paths that are removed after the pods.
	Files []string `json:"files"`
	// Others are files in the root directory that the agent did not create. They stay, and so does the directory.
	Others []string `json:"others,omitempty"`
	// Unread says why the journal could not be read: the priorities of pods are then unknown.
	Unread string `json:"unread,omitempty"`
}

// Empty reports whether nothing of the agent is on the node.
func (f *Found) Empty() bool { return len(f.Pods) == 0 && len(f.Files) == 0 }

// ErrRuntime means that the runtime does not respond: what is on it is not known.
var ErrRuntime = errors.New("the container runtime does not respond")

// Find returns everything of the agent on the node, and changes nothing. It is for a root directory whose agent does
// not run. Errors wrap ErrRuntime where the runtime does not respond.
func Find(ctx context.Context, o Options) (*Found, error) {
	f := &Found{Pods: []*Pod{}}
	pods := map[string]*Pod{}
	if err := findOnRuntime(ctx, o, pods); err != nil {
		return nil, err
	}
	used, err := o.findFiles(f)
	if err != nil {
		return nil, err
	}
	if !used && len(pods) == 0 {
		return f, nil // a directory of others may hold what pods' directories hold
	}
	dirs, err := o.Volumes.Reconcile(nil, "")
	if err != nil {
		return nil, err
	}
	for _, uid := range dirs.Unknown {
		podOf(pods, uid).Directory = true
	}
	recorded, err := o.Recorded(ctx)
	if err != nil {
		f.Unread = err.Error()
	}
	for uid, p := range pods {
		if r, ok := recorded[uid]; ok {
			p.Namespace, p.Name, p.Priority = r.Namespace, r.Name, r.Priority
		}
		for _, c := range p.containers {
			if c.runs {
				p.Running++
				p.GraceSeconds = max(p.GraceSeconds, int64(min(c.grace, o.MaxGrace)/time.Second))
			}
		}
		p.Containers, p.Sandboxes = len(p.containers), len(p.sandboxes)
	}
	f.Pods = slices.SortedFunc(maps.Values(pods), func(x, y *Pod) int {
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(x.String(), y.String()))
	})
	return f, nil
}

func podOf(pods map[string]*Pod, uid string) *Pod {
	p := pods[uid]
	if p == nil {
		p = &Pod{UID: uid}
		pods[uid] = p
	}
	return p
}

// findOnRuntime adds the pods that have objects with the agent's mark.
func findOnRuntime(ctx context.Context, o Options, pods map[string]*Pod) error {
	if o.Runtime == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	boxes, err := o.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("%w: list its sandboxes: %w", ErrRuntime, err)
	}
	all, err := o.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return fmt.Errorf("%w: list its containers: %w", ErrRuntime, err)
	}
	for _, s := range boxes.GetItems() {
		if o.Owner.Owns(s) {
			p := podOf(pods, s.GetLabels()[cri.LabelPodUID])
			p.Namespace, p.Name = s.GetLabels()[cri.LabelPodNamespace], s.GetLabels()[cri.LabelPodName]
			p.sandboxes = append(p.sandboxes, s.GetId())
		}
	}
	for _, c := range all.GetContainers() {
		if !o.Owner.Owns(c) {
			continue
		}
		p := podOf(pods, c.GetLabels()[cri.LabelPodUID])
		p.Namespace, p.Name = c.GetLabels()[cri.LabelPodNamespace], c.GetLabels()[cri.LabelPodName]
		state := c.GetState()
		// Without a number that can be read the grace period is 0.
		seconds, _ := strconv.ParseInt(c.GetAnnotations()[cri.AnnotationTerminationGracePeriod], 10, 32)
		p.containers = append(p.containers, instance{
			id: c.GetId(), name: c.GetMetadata().GetName(), sandbox: c.GetPodSandboxId(),
			runs: state == runtimeapi.ContainerState_CONTAINER_RUNNING ||
				state == runtimeapi.ContainerState_CONTAINER_UNKNOWN,
			grace: time.Duration(max(seconds, 0)) * time.Second,
		})
	}
	return nil
}

// findFiles adds the agent's files in the root directory, and returns whether an agent has used it: it has a bus.
func (o Options) findFiles(f *Found) (used bool, err error) {
	dirs := map[string]bool{} // by name, whether it is a directory
	for e, err := range bounded.Entries(o.RootDir) {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("list the root directory: %w", err)
		}
		dirs[e.Name()] = e.IsDir()
	}
	if !dirs[own.Bus] {
		return false, nil
	}
	f.Files = append(f.Files, o.Outside...)
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		path := filepath.Join(o.RootDir, name)
		switch e := own.Find(name); {
		case name == own.Bus && o.KeepJournal, name == own.Pods, path == o.Socket:
		case dirs[name] && own.Shares(name):
			if err := o.findShared(f, name); err != nil {
				return false, err
			}
		case e != nil && e.Reset == own.Removed && name != own.Socket:
			f.Files = append(f.Files, path)
		default:
			f.Others = append(f.Others, path)
		}
	}
	if o.Socket != "" {
		if info, err := os.Lstat(o.Socket); err == nil && info.Mode()&fs.ModeSocket != 0 {
			f.Files = append(f.Files, o.Socket)
		}
	}
	return true, nil
}

// findShared adds the agent's files in a directory that may have others', and the directory if it has none.
func (o Options) findShared(f *Found, dir string) error {
	var ours, others []string
	path := filepath.Join(o.RootDir, dir)
	for e, err := range bounded.Entries(path) {
		if err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		if at := own.Find(dir + "/" + e.Name()); at != nil && at.Reset == own.Removed {
			ours = append(ours, filepath.Join(path, e.Name()))
		} else {
			others = append(others, filepath.Join(path, e.Name()))
		}
	}
	if len(others) == 0 {
		ours = []string{path}
	}
	f.Files = append(f.Files, slices.Sorted(slices.Values(ours))...)
	f.Others = append(f.Others, slices.Sorted(slices.Values(others))...)
	return nil
}
