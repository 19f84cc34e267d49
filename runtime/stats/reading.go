package stats

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/journalet/journalet/runtime/stats/usage"
)

// reading is what one pass over the cgroups found. It is not changed afterwards.
type reading struct {
	at    time.Time
	scope Scope
	node  nodeReading
	pods  []podReading
}

type podReading struct {
	Pod
	sandbox    usage.Place
	own        cgroupReading
	containers []containerReading
	network    []Interface
	networkAt  time.Time
}

type containerReading struct {
	*Container
	cgroupReading
	files usage.Descriptors
}

// cgroupReading is one cgroup, and the CPU time that it used a second of late, in nanoseconds. nil: not known.
type cgroupReading struct {
	place usage.Place
	used  *usage.Cgroup
	nanos *uint64
}

// Keys of rates that are no container's id.
const (
	nodeKey     = "node"
	podKey      = "pod/"
	agentKey    = "system/kubelet"
	runtimeKey  = "system/runtime"
	allPodsKey  = "system/pods"
	rootCgroup  = "/"
	noContainer = ""
)

// target is a cgroup that a reading reads.
type target struct {
	key   string
	place usage.Place
	into  *cgroupReading
	want  usage.Want
}

// read returns a reading of at least this scope, that is not older than Fresh.
func (s *Stats) read(ctx context.Context, scope Scope) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	if s.last != nil && now.Sub(s.last.at) < Fresh && s.last.scope.has(scope) {
		return s.last
	}
	r := &reading{scope: scope}
	if scope.has(Containers) {
		s.listPods(ctx, r)
	}
	if scope.has(Cgroups) {
		s.findSystem(ctx, &r.node)
	}
	all := s.targets(r, scope, s.nodeMemory(r, scope))
	s.prime(ctx, all)
	for _, t := range all {
		s.readOne(t)
	}
	for i := range r.pods {
		s.readNetwork(&r.pods[i], scope)
	}
	s.readDescriptors(r)
	r.at = s.opts.Now()
	s.rates.drop(r.at)
	s.last = r
	return r
}

// listPods lists the pods, by namespace and name, and finds their cgroups.
func (s *Stats) listPods(ctx context.Context, r *reading) {
	pods := s.opts.Pods()
	sortPods(pods)
	r.pods = make([]podReading, len(pods))
	ids := map[string]bool{}
	var missing []string
	for i := range pods {
		p := &r.pods[i]
		p.Pod = pods[i]
		if p.Pod.Cgroup != "" {
			p.own.place = usage.At(p.Pod.Cgroup)
		}
		p.containers = make([]containerReading, len(p.Pod.Containers))
		ids[p.Sandbox.ID] = true
		for j := range p.containers {
			c := &p.containers[j]
			c.Container = &p.Pod.Containers[j]
			ids[c.ID] = true
			if s.opts.Reader == nil {
				continue
			}
			at, ok := s.places.find(s.opts.Reader, p.Pod.Cgroup, c.ID)
			if c.place = at; !ok {
				missing = append(missing, c.ID)
			}
		}
	}
	if len(missing) > 0 {
		s.locate(ctx, missing)
		s.placeMissing(r)
	}
	s.places.keep(ids)
}

// sortPods sorts pods by namespace and name.
func sortPods(pods []Pod) {
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Manifest.Namespace, b.Manifest.Namespace), cmp.Compare(a.Manifest.Name, b.Manifest.Name),
			cmp.Compare(a.Manifest.UID, b.Manifest.UID))
	})
}

// placeMissing sets the cgroups that the runtime has named meanwhile.
func (s *Stats) placeMissing(r *reading) {
	for i := range r.pods {
		for j := range r.pods[i].containers {
			c := &r.pods[i].containers[j]
			if c.place.Path() == "" {
				c.place, _ = s.places.find(s.opts.Reader, r.pods[i].Cgroup, c.ID)
			}
		}
	}
}

// targets lists the cgroups to read.
func (s *Stats) targets(r *reading, scope Scope, swap bool) []target {
	if s.opts.Reader == nil {
		return nil
	}
	want := scope.want(swap)
	var out []target
	if scope.has(Cgroups) {
		for key, into := range r.node.cgroups() {
			w := want
			if key == nodeKey { // its pressure and its limits are elsewhere
				w &^= usage.WantPressure | usage.WantLimits
			}
			if into.place.Path() != "" {
				out = append(out, target{key, into.place, into, w})
			}
		}
	}
	for i := range r.pods {
		p := &r.pods[i]
		if scope.has(Cgroups) && p.own.place.Path() != "" {
			out = append(out, target{podKey + string(p.Manifest.UID), p.own.place, &p.own, want &^ usage.WantProcesses})
		}
		for j := range p.containers {
			if c := &p.containers[j]; c.place.Path() != "" {
				out = append(out, target{c.ID, c.place, &c.cgroupReading, want})
			}
		}
	}
	return out
}

// prime reads the CPU time of cgroups that have nothing to compare with, and then waits a little.
func (s *Stats) prime(ctx context.Context, all []target) {
	now, primed := s.opts.Now(), false
	for _, t := range all {
		if s.rates.known(t.key, now) {
			continue
		}
		if used, at, err := s.opts.Reader.CPU(t.place); err == nil {
			s.rates[t.key] = rate{used: used, at: at}
			primed = true
		}
	}
	if !primed {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(FirstPause):
	}
}

func (s *Stats) readOne(t target) {
	c, err := s.opts.Reader.Read(t.place, t.want)
	if err != nil {
		return // it has ended, as the next observation of its pod shows
	}
	t.into.used = c
	if c.CPU != nil {
		t.into.nanos = s.rates.add(t.key, c.CPU.Usage, c.At)
	}
}

// readDescriptors counts what containers have open, all together: what that may cost is bounded for all of them.
func (s *Stats) readDescriptors(r *reading) {
	if !r.scope.has(Details) || s.opts.Reader == nil {
		return
	}
	var containers []*containerReading
	var places []usage.Place
	for i := range r.pods {
		for j := range r.pods[i].containers {
			c := &r.pods[i].containers[j]
			containers, places = append(containers, c), append(places, c.place)
		}
	}
	for i, found := range s.opts.Reader.Descriptors(places) {
		containers[i].files = found
	}
}
