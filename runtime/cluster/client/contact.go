package client

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/withhold"
)

const (
	// lostAfter is how many requests fail in a row, and lostFor how long they do, before the API server counts as not
	// reachable: the end of one connection fails every request on it at once.
	lostAfter = 3
	lostFor   = 2 * time.Second
	// maxContactMessage bounds ApiServerContact.message, in bytes.
	maxContactMessage = 256
)

// Contact finds out whether the API server answers, from the outcomes of all requests. The first outcome of a run is
// reported, and then each change. A nil Contact reports nothing.
type Contact struct {
	sink func(context.Context, *journaletv1.ApiServerContact) error
	now  func() time.Time
	wake chan struct{}

	mu       sync.Mutex
	failures int
	since    time.Time // of the first failure in a row
	current  *journaletv1.ApiServerContact
}

// NewContact returns a Contact that reports to sink while it runs.
func NewContact(sink func(context.Context, *journaletv1.ApiServerContact) error, now func() time.Time) *Contact {
	return &Contact{sink: sink, now: now, wake: make(chan struct{}, 1)}
}

// Run reports until ctx ends. What changes while a report is under way is reported once, as it is then.
func (c *Contact) Run(ctx context.Context) error {
	var reported *journaletv1.ApiServerContact
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		c.mu.Lock()
		now := c.current
		c.mu.Unlock()
		if reported != nil && reported.GetReachable() == now.GetReachable() {
			continue
		}
		if err := c.sink(ctx, now); err != nil {
			return err
		}
		reported = now
	}
}

// Reachable reports whether the API server answers, as far as is known: true before the first outcome.
func (c *Contact) Reachable() bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current == nil || c.current.GetReachable()
}

// answered registers an answer, be it an error.
func (c *Contact) answered() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = 0
	if c.current == nil || !c.current.GetReachable() {
		c.set(&journaletv1.ApiServerContact{Reachable: true})
	}
}

// failed registers a request without an answer.
func (c *Contact) failed(err error) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures++; c.failures == 1 {
		c.since = c.now()
	}
	if c.failures < lostAfter || c.now().Sub(c.since) < lostFor || c.current != nil && !c.current.GetReachable() {
		return
	}
	c.set(&journaletv1.ApiServerContact{Message: Message(err)})
}

// set stores a change. c.mu is held.
func (c *Contact) set(to *journaletv1.ApiServerContact) {
	c.current = to
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Message returns the text of an error of a request, bounded, without the URL of the request and without credentials.
func Message(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	text := withhold.URLs(err.Error())
	if len(text) > maxContactMessage {
		text = text[:maxContactMessage]
	}
	return text
}
