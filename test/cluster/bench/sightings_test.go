package main

import (
	"context"
	"slices"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/journalet/journalet/test/must"
)

func pod(name string, phase core.PodPhase, ready bool) *core.Pod {
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name}, Status: core.PodStatus{Phase: phase}}
	if ready {
		p.Status.Conditions = []core.PodCondition{{Type: core.PodReady, Status: core.ConditionTrue}}
	}
	return p
}

func TestFirstSightCounts(t *testing.T) {
	s, begin := newSightings(), time.Now()
	at := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
	for i, name := range []string{"a", "b"} {
		s.create(name, at(0))
		s.see(watch.Event{Type: watch.Added, Object: pod(name, core.PodPending, false)}, at(1))
		s.see(watch.Event{Type: watch.Modified, Object: pod(name, core.PodRunning, false)}, at(2+i))
		s.see(watch.Event{Type: watch.Modified, Object: pod(name, core.PodRunning, true)}, at(5))
		s.see(watch.Event{Type: watch.Modified, Object: pod(name, core.PodRunning, true)}, at(6))
	}
	s.see(watch.Event{Type: watch.Deleted, Object: pod("a", core.PodRunning, true)}, at(9))
	both := s.named([]string{"a", "b"})
	for _, c := range []struct {
		what string
		to   func(*sighting) time.Time
		want []float64
	}{
		{"running", runningAt, []float64{2, 3}}, {"ready", readyAt, []float64{5, 5}}, {"gone", goneAt, []float64{9}},
		{"exited", exitedAt, nil},
	} {
		if got := spread(both, createdAt, c.to); !slices.Equal(got, c.want) {
			t.Errorf("%s after %v s, want %v", c.what, got, c.want)
		}
	}
}

func TestAwaitEndsWithTheLastPodOrTheWatch(t *testing.T) {
	s := newSightings()
	names := []string{"a", "b"}
	events := watch.NewFake()
	go s.follow(events)
	go func() {
		for _, name := range names {
			events.Modify(pod(name, core.PodRunning, true))
		}
	}()
	if ok, err := s.await(t.Context(), names, readyAt); !ok {
		t.Errorf("both are ready: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ok, err := s.await(ended, names, goneAt)
	if must.OK(t, err); ok {
		t.Error("pods that are there are gone")
	}
	events.Stop()
	if ok, err = s.await(t.Context(), names, goneAt); ok || err == nil {
		t.Errorf("the watch has ended: %v, %v", ok, err)
	}
}

func TestQuantileOfFewValues(t *testing.T) {
	values := []float64{1, 2, 3, 4, 100}
	for p, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 100, 1: 100} {
		if got := quantile(values, p); got != want {
			t.Errorf("quantile %v is %v, want %v", p, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing is %v", got)
	}
}
