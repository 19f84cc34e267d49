package dra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/fakedra"
	"github.com/journalet/journalet/test/must"
)

// fakeSlices is an API server with ResourceSlices of drivers, and a clock that passes as Slices waits.
type fakeSlices struct {
	sync.Mutex
	start, now time.Time
	there      map[string]bool
	connected  map[string]bool
	// fails are how many requests fail, with err.
	fails int
	err   error
	// requests are the received requests, with the seconds since the start.
	requests []string
}

func (f *fakeSlices) request(text string) error {
	f.Lock()
	defer f.Unlock()
	f.requests = append(f.requests, f.now.Sub(f.start).String()+" "+text)
	if f.fails > 0 {
		f.fails--
		return f.err
	}
	return nil
}

func (f *fakeSlices) Drivers(context.Context) ([]string, error) {
	err := f.request("list")
	return slices.Sorted(maps.Keys(f.there)), err
}

func (f *fakeSlices) Delete(_ context.Context, driver string) error {
	err := f.request("delete " + driver)
	if err == nil {
		delete(f.there, driver)
	}
	return err
}

// run runs Slices for so long, with what happens before.
func (f *fakeSlices) run(t *testing.T, before func(*Slices), until time.Duration) {
	t.Helper()
	f.start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	f.now = f.start
	ctx, stop := context.WithCancel(t.Context())
	s := NewSlices(SlicesOptions{
		Store: f, Connected: func(name string) bool { return f.connected[name] },
		Now: func() time.Time {
			f.Lock()
			defer f.Unlock()
			return f.now
		},
		After: func(d time.Duration) <-chan time.Time {
			f.Lock()
			defer f.Unlock()
			if f.now.Add(d).Sub(f.start) > until {
				stop()
				return nil
			}
			f.now = f.now.Add(d)
			passed := make(chan time.Time, 1)
			passed <- f.now
			return passed
		},
	})
	before(s)
	go func() { // one without anything due waits for good
		<-time.After(30 * time.Second)
		stop()
	}()
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func (f *fakeSlices) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(f.requests, want) {
		t.Errorf("the API server had %q, want %q", f.requests, want)
	}
}

// endless has something due after all else.
func endless(s *Slices) { s.set("later", s.opts.Now().Add(time.Hour)) }

func TestSlicesOfDriversThatAreAwayAreDeleted(t *testing.T) {
	f := &fakeSlices{there: map[string]bool{gpu: true, nic: true}, connected: map[string]bool{nic: true}}
	f.run(t, endless, 10*time.Minute)
	f.want(t, "30s list", "30s delete "+gpu)

	f = &fakeSlices{}
	f.run(t, func(s *Slices) {
		endless(s)
		s.come(anyDriver) // it was listed
		s.gone(gpu)
		s.gone(nic)
		s.come(nic)
	}, 10*time.Minute)
	f.want(t, "30s delete "+gpu)
}

func TestDeletionOfSlicesIsTriedAgain(t *testing.T) {
	f := &fakeSlices{there: map[string]bool{}, fails: 12, err: errors.New("connection refused")}
	f.run(t, endless, 26*time.Minute)
	f.want(t, "30s list", "31s list", "33s list", "37s list", "45s list", "1m1s list", "1m33s list", "2m37s list",
		"4m45s list", "9m1s list", "14m1s list", "19m1s list", "24m1s list")

	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "resourceslices"}, "")
	f = &fakeSlices{there: map[string]bool{}, fails: 9, err: missing}
	f.run(t, endless, 26*time.Minute)
	f.want(t, "30s list")
}

func TestADriverIsAwayWhileItCannotBeCalled(t *testing.T) {
	s := NewSlices(SlicesOptions{Store: &fakeSlices{}})
	s.come(anyDriver)
	drivers := NewDrivers(DriverOptions{NewConn: plugins.NewConn, Slices: s})
	d := &fakedra.Driver{Name: gpu}
	socket, end := fakedra.Start(t, d, t.TempDir())
	must.OK(t, drivers.Register(gpu, socket, d.Services()))
	due := func(want bool) {
		t.Helper()
		must.Eventually(t, time.Minute, "its slices are to be deleted", func() (string, bool) {
			s.mu.Lock()
			is := s.due[gpu] != nil
			s.mu.Unlock()
			return fmt.Sprint(is), is == want && drivers.Connected(gpu) != want
		})
	}
	due(false)
	end()
	due(true)
	other, _ := fakedra.Start(t, d, t.TempDir())
	must.OK(t, drivers.Register(gpu, other, d.Services()))
	due(false)
	drivers.Deregister(gpu, socket)
	due(false)
	drivers.Deregister(gpu, other)
	due(true)
	drivers.running.Wait()
}
