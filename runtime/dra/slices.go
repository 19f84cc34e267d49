package dra

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/redact"
)

const (
	// goneFor is how long a driver is away until its ResourceSlices are deleted. kubelet: 30 s.
	goneFor = 30 * time.Second
	// firstSliceDelay and maxSliceDelay bound the pause after a deletion that failed; it doubles. kubelet: 1 s and 5 min.
	firstSliceDelay = time.Second
	maxSliceDelay   = 5 * time.Minute
	// anyDriver is the one request for the drivers of all ResourceSlices of the node.
	anyDriver = ""
)

// SliceStore is what the API server has of a node's ResourceSlices. Its methods return errors of apimachinery's package
// api/errors, or of the transport.
type SliceStore interface {
	// Drivers returns the drivers of the node's ResourceSlices, each once.
	Drivers(ctx context.Context) ([]string, error)
	// Delete deletes the ResourceSlices of a driver on the node.
	Delete(ctx context.Context, driver string) error
}

// SlicesOptions configure Slices; Store and Connected must be set.
type SlicesOptions struct {
	Store SliceStore
	// Connected reports whether a driver can be called.
	Connected func(driver string) bool
	// Now and After are the clock. Default: the machine's.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// Slices deletes the ResourceSlices of drivers that are away, so that no pod is bound to this node for their devices. A
// driver that comes back publishes them again.
type Slices struct {
	opts SlicesOptions
	wake chan struct{}

	mu sync.Mutex
	// due is when the slices of a driver are deleted, unless it comes back.
	due map[string]*deletion
}

// deletion is a due deletion.
type deletion struct {
	at    time.Time
	delay time.Duration // after the last failure
}

// NewSlices returns Slices that delete nothing until Run.
func NewSlices(o SlicesOptions) *Slices {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Slices{opts: o, wake: make(chan struct{}, 1), due: map[string]*deletion{
		// The slices of drivers that left while no agent ran. Those of all others have registered by then.
		anyDriver: {at: o.Now().Add(goneFor)},
	}}
}

// gone notes that a driver cannot be called from now on.
func (s *Slices) gone(driver string) { s.set(driver, s.opts.Now().Add(goneFor)) }

func (s *Slices) set(driver string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due[driver] == nil {
		s.due[driver] = &deletion{at: at}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// come notes that a driver can be called.
func (s *Slices) come(driver string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.due, driver)
}

// Run deletes what is due until ctx ends.
func (s *Slices) Run(ctx context.Context) error {
	for {
		driver, at, ok := s.next()
		var later <-chan time.Time
		if ok {
			wait := at.Sub(s.opts.Now())
			if wait <= 0 {
				s.perform(ctx, driver)
				continue
			}
			later = s.opts.After(wait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		case <-later:
		}
	}
}

// next returns the deletion that is due first.
func (s *Slices) next() (driver string, at time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.due)) {
		if d := s.due[name]; !ok || d.at.Before(at) {
			driver, at, ok = name, d.at, true
		}
	}
	return driver, at, ok
}

// perform performs a deletion that is due. One that fails is due again.
func (s *Slices) perform(ctx context.Context, driver string) {
	var err error
	if driver == anyDriver {
		var all []string
		all, err = s.opts.Store.Drivers(ctx)
		for _, name := range all {
			if !s.opts.Connected(name) {
				s.set(name, s.opts.Now())
			}
		}
	} else {
		err = s.opts.Store.Delete(ctx, driver)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.due[driver]
	switch {
	case d == nil: // it has come back
	case err == nil || apierrors.IsNotFound(err): // an API server without ResourceSlices has none
		delete(s.due, driver)
		if driver != anyDriver {
			s.opts.Log.Info("deleted the ResourceSlices of a DRA driver that is away", "driver", driver)
		}
	default:
		d.delay = min(max(2*d.delay, firstSliceDelay), maxSliceDelay)
		d.at = s.opts.Now().Add(d.delay)
		s.opts.Log.Debug("the ResourceSlices of DRA drivers were not deleted", "driver", driver,
			"again", d.delay, "error", redact.URLs(err.Error()))
	}
}

// SlicesOf returns what an API server has of a node's ResourceSlices.
func SlicesOf(c *client.Client, node string) SliceStore { return apiSlices{c, node} }

type apiSlices struct {
	client *client.Client
	node   string
}

// Drivers lists the node's ResourceSlices.
func (a apiSlices) Drivers(ctx context.Context) ([]string, error) {
	list, err := client.List(ctx, a.client, client.ResourceSlices, "", metav1.ListOptions{FieldSelector: a.selector("")})
	if err != nil {
		return nil, err
	}
	sliceList, ok := list.(*resourcev1.ResourceSliceList)
	if !ok {
		return nil, fmt.Errorf("the API server has answered with %T", list)
	}
	names := map[string]bool{}
	for i := range sliceList.Items {
		names[sliceList.Items[i].Spec.Driver] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names)), nil
}

// Delete deletes the ResourceSlices of a driver.
func (a apiSlices) Delete(ctx context.Context, driver string) error {
	return client.DeleteCollection(ctx, a.client, client.ResourceSlices, "", a.selector(driver))
}

// selector selects the node's slices, or only a driver's slices if driver is not empty.
func (a apiSlices) selector(driver string) string {
	set := fields.Set{resourcev1.ResourceSliceSelectorNodeName: a.node}
	if driver != "" {
		set[resourcev1.ResourceSliceSelectorDriver] = driver
	}
	return set.String()
}
