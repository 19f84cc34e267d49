package stats

import (
	"context"
	"maps"
	"path"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/stats/usage"
)

const (
	// retryPlace is the pause before the runtime is asked again for a container whose cgroup was not found.
	retryPlace = 10 * time.Second
	// maxPlaceWait bounds how long a reading waits for the runtime to name processes of containers.
	maxPlaceWait = 200 * time.Millisecond
	// maxInfoBytes bounds what a runtime reports of a container beyond its status. containerd's has some 20 KiB.
	maxInfoBytes = 1 << 20
)

// places are the cgroups of sandboxes and containers, by id.
type places struct {
	mu    sync.Mutex
	known map[string]found
	// pending is set while a request to the runtime is under way.
	pending chan struct{}
}

// found is where a cgroup is; the zero place: it was not found at that time.
type found struct {
	place usage.Place
	at    time.Time
}

// criNamespace is containerd's namespace of objects that CRI created, and the cgroup of containers without a parent.
const criNamespace = "k8s.io"

// Candidates are the paths where runtimes put the cgroup of an object: containerd and CRI-O, with cgroupfs and with
// systemd, below the pod's cgroup, or without one (parent is empty).
func Candidates(parent, id string) []string {
	if parent == "" {
		return []string{path.Join("/", criNamespace, id)}
	}
	return []string{
		path.Join(parent, id), path.Join(parent, "cri-containerd-"+id+".scope"),
		path.Join(parent, "crio-"+id+".scope"), path.Join(parent, "crio-"+id), path.Join("/", criNamespace, id),
	}
}

// find returns the cgroup of an object, without asking the runtime.
func (p *places) find(r *usage.Reader, parent, id string) (usage.Place, bool) {
	p.mu.Lock()
	last, ok := p.known[id]
	p.mu.Unlock()
	if ok && last.place.Path() != "" {
		return last.place, true
	}
	for _, at := range Candidates(parent, id) {
		if place := usage.At(at); r.Exists(place) {
			p.set(id, place)
			return place, true
		}
	}
	return usage.Place{}, false
}

func (p *places) set(id string, place usage.Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[id] = found{place, time.Now()}
}

// keep forgets all but these ids.
func (p *places) keep(ids map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.known, func(id string, _ found) bool { return !ids[id] })
}

// locate finds the cgroups of containers by their processes, for a runtime that puts cgroups elsewhere: the runtime
// knows the processes. It requests each container once, beside the reading, which waits only so long.
func (s *Stats) locate(ctx context.Context, ids []string) {
	p := &s.places
	p.mu.Lock()
	var due []string
	for _, id := range ids {
		if time.Since(p.known[id].at) > retryPlace {
			p.known[id] = found{at: time.Now()}
			due = append(due, id)
		}
	}
	if len(due) > 0 && p.pending == nil {
		p.pending = make(chan struct{})
		go s.locateAll(due, p.pending)
	}
	done := p.pending
	p.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(maxPlaceWait):
	}
}

func (s *Stats) locateAll(ids []string, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), runtimeTimeout)
	defer cancel()
	for _, id := range ids {
		pid := s.pid(ctx, id)
		if pid <= 0 {
			continue
		}
		if place, err := s.opts.Reader.OfProcess(pid); err == nil && !place.Root() {
			s.places.set(id, place)
		}
	}
	s.places.mu.Lock()
	defer s.places.mu.Unlock()
	s.places.pending = nil
	close(done)
}

// pid returns the first process of a container; 0 if the runtime does not report one.
func (s *Stats) pid(ctx context.Context, id string) int {
	st, err := s.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return 0
	}
	var info struct {
		PID int `json:"pid"`
	}
	if bounded.JSON([]byte(st.GetInfo()["info"]), maxInfoBytes, &info) != nil {
		return 0
	}
	return info.PID
}
