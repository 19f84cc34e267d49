package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sighting is when a watch has shown what for the first time of a pod; created is when its creation was requested.
type sighting struct {
	created, bound, running, ready, exited, gone time.Time
}

// sightings are what a watch of a namespace has shown. Methods may be called concurrently.
type sightings struct {
	mu   sync.Mutex
	pods map[string]*sighting
	// changed is closed with the next change.
	changed chan struct{}
	err     error
}

func newSightings() *sightings {
	return &sightings{pods: map[string]*sighting{}, changed: make(chan struct{})}
}

// pod returns the sighting of a pod. The lock is held.
func (s *sightings) pod(name string) *sighting {
	if s.pods[name] == nil {
		s.pods[name] = &sighting{}
	}
	return s.pods[name]
}

// create notes that a pod's creation is requested.
func (s *sightings) create(name string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pod(name).created = at
}

// see takes over an event that came at a time.
func (s *sightings) see(e watch.Event, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := e.Object.(*core.Pod)
	if !ok {
		s.fail(fmt.Errorf("the watch of pods sent %v", e.Object))
		return
	}
	is := s.pod(p.Name)
	first := func(t *time.Time, yes bool) {
		if yes && t.IsZero() {
			*t = at
		}
	}
	first(&is.bound, p.Spec.NodeName != "")
	first(&is.running, p.Status.Phase == core.PodRunning)
	first(&is.ready, slices.ContainsFunc(p.Status.Conditions, func(c core.PodCondition) bool {
		return c.Type == core.PodReady && c.Status == core.ConditionTrue
	}))
	first(&is.exited, slices.ContainsFunc(p.Status.ContainerStatuses, func(c core.ContainerStatus) bool {
		return c.State.Terminated != nil
	}))
	first(&is.gone, e.Type == watch.Deleted)
	s.signal()
}

// fail ends all waits with an error. The lock is held.
func (s *sightings) fail(err error) {
	s.err = errors.Join(s.err, err)
	s.signal()
}

func (s *sightings) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// follow takes over a watch until it ends.
func (s *sightings) follow(w watch.Interface) {
	for e := range w.ResultChan() {
		s.see(e, time.Now())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(errors.New("the watch of pods has ended"))
}

// named returns copies of the sightings of pods, in their order.
func (s *sightings) named(names []string) []sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []sighting
	for _, name := range names {
		out = append(out, *s.pod(name))
	}
	return out
}

// await waits until what was seen of each of the pods, and reports whether it was before ctx ended.
func (s *sightings) await(ctx context.Context, names []string, what func(*sighting) time.Time) (bool, error) {
	for {
		s.mu.Lock()
		missing := slices.ContainsFunc(names, func(name string) bool { return what(s.pod(name)).IsZero() })
		changed, err := s.changed, s.err
		s.mu.Unlock()
		switch {
		case !missing:
			return true, nil
		case err != nil:
			return false, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, nil
		}
	}
}

// spread returns the seconds from one time to another of each pod that has both, smallest first.
func spread(pods []sighting, from, to func(*sighting) time.Time) []float64 {
	var out []float64
	for i := range pods {
		if a, b := from(&pods[i]), to(&pods[i]); !a.IsZero() && !b.IsZero() {
			out = append(out, b.Sub(a).Seconds())
		}
	}
	slices.Sort(out)
	return out
}

// quantile returns a quantile of sorted values, 0 of none.
func quantile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(p*float64(len(sorted)-1)+0.5)]
}
