package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
	criobjects "github.com/journalet/journalet/runtime/cri"
)

// maxInfoBytes bounds what a runtime reports of a container beyond its status: the longest message of CRI. It has the
// container's variables and arguments in it, twice.
const maxInfoBytes = 16 << 20

// Provided is what a pod takes of what the runtime has provided for it on the disk and mounted into its containers,
// besides their writable layers. CRI reports the use of none of it.
type Provided struct {
	// Containers has the volumes that the image of a container declares, by the container's name, of its newest instance.
	Containers map[string]bounded.Usage
	// Pod is what its containers share: the files with its hostname and its resolvers.
	Pod bounded.Usage
}

// providedPlace is one file or directory that the runtime has provided and that a container may write.
type providedPlace struct {
	path string
	// shared means that it is the sandbox's.
	shared bool
}

// Provided measures what the runtime has provided for a pod. Of each place, it measures little more than atMost bytes,
// unless that is 0. An error comes with what was found.
func (d *Driver) Provided(ctx context.Context, uid string, atMost int64) (Provided, error) {
	m := Provided{Containers: map[string]bounded.Usage{}}
	places, err := d.providedPlaces(ctx, uid)
	failed := []error{err}
	for name, all := range places {
		for _, p := range all {
			u, err := d.tree(ctx, p.path, atMost)
			failed = append(failed, err)
			if p.shared {
				m.Pod.Add(u)
				continue
			}
			usage := m.Containers[name]
			usage.Add(u)
			m.Containers[name] = usage
		}
	}
	return m, errors.Join(failed...)
}

// providedPlaces returns the places of the newest instance of each container, by its name; each place once.
func (d *Driver) providedPlaces(ctx context.Context, uid string) (map[string][]providedPlace, error) {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	list, err := d.runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		LabelSelector: map[string]string{criobjects.LabelPodUID: uid},
	}})
	if err != nil {
		return nil, fmt.Errorf("list the pod's containers: %w", err)
	}
	newest := map[string]*cri.Container{}
	for _, c := range list.GetContainers() {
		name := c.GetMetadata().GetName()
		if last := newest[name]; last == nil || c.GetMetadata().GetAttempt() >= last.GetMetadata().GetAttempt() {
			newest[name] = c
		}
	}
	var failed []error
	known, out, seen := map[string][]providedPlace{}, map[string][]providedPlace{}, map[string]bool{}
	for name, c := range newest {
		places, err := d.providedFor(ctx, uid, c)
		failed = append(failed, err)
		if err != nil {
			continue
		}
		known[c.GetId()] = places
		for _, p := range places {
			if !seen[p.path] {
				seen[p.path] = true
				out[name] = append(out[name], p)
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.provided[uid] = known; len(known) == 0 {
		delete(d.provided, uid)
	}
	return out, errors.Join(failed...)
}

// providedFor returns the places of one container. The runtime is asked once a container, since they stay the same.
func (d *Driver) providedFor(ctx context.Context, uid string, c *cri.Container) ([]providedPlace, error) {
	d.mu.Lock()
	places, known := d.provided[uid][c.GetId()]
	d.mu.Unlock()
	if known {
		return places, nil
	}
	st, err := d.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: c.GetId(), Verbose: true})
	if status.Code(err) == codes.NotFound {
		return nil, nil // removed since
	}
	if err != nil {
		return nil, fmt.Errorf("mounts of container %s: %w", c.GetMetadata().GetName(), err)
	}
	return providedIn(st.GetInfo()["info"], c.GetId(), c.GetPodSandboxId())
}

// providedIn returns the places that a container's OCI specification names; none if the runtime reports none. Both
// containerd and CRI-O keep what they make for a container or a sandbox in directories of its id. Other mounts are
// volumes, which count as such, and what plugins give it of the node.
func providedIn(info, container, sandbox string) ([]providedPlace, error) {
	if info == "" {
		return nil, nil
	}
	var verbose struct {
		RuntimeSpec struct {
			Mounts []struct {
				Type, Source string
				Options      []string
			} `json:"mounts"`
		} `json:"runtimeSpec"`
	}
	if err := bounded.JSON([]byte(info), maxInfoBytes, &verbose); err != nil {
		return nil, fmt.Errorf("mounts of a container, as the runtime reports them: %w", err)
	}
	var out []providedPlace
	for _, m := range verbose.RuntimeSpec.Mounts {
		if m.Type != "bind" || slices.Contains(m.Options, "ro") {
			continue
		}
		in := strings.Split(m.Source, "/")
		own, shared := slices.Contains(in, container), slices.Contains(in, sandbox)
		if (own || shared) && !inMemory(m.Source) {
			out = append(out, providedPlace{path: m.Source, shared: !own})
		}
	}
	return out, nil
}

// inMemory reports whether a path is on a file system in memory, as /dev/shm is: the cgroup of who writes bounds it.
func inMemory(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}
