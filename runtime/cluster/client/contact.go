package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/redact"
)

const (
	// lostAfter is how many requests fail in a row, and lostFor how long they do, before the API server counts as not
	// reachable: the end of one connection fails every request on it at once.
	lostAfter = 3
	lostFor   = 2 * time.Second
	// refusedFor is how long the API server must refuse this node before the refusal counts: an API server that has
	// just started refuses nodes for a moment, since its cache is still empty.
	refusedFor = 5 * time.Second
	// clockOff is how far this machine's clock is from the API server's before that counts. Certificates and tokens last
	// for hours, so that less harms nothing.
	clockOff = 2 * time.Minute
	// maxContactMessage bounds ApiServerContact.message, in bytes, beside what Explain adds.
	maxContactMessage = 256
)

// Contact finds out from the outcomes of all requests whether the API server answers, whether it refuses this node, and
// whether the clocks agree. The first outcome of a run is reported, and then each change. A nil Contact reports
// nothing.
type Contact struct {
	sink func(context.Context, *journaletv1.ApiServerContact) error
	now  func() time.Time
	wake chan struct{}
	// explain returns why the API server may refuse this node, and what to do; empty: nothing is known.
	explain func() string

	mu       sync.Mutex
	failures int
	since    time.Time // of the first failure in a row
	// current is what is known, nil before the first outcome.
	current *standing
	// refusals are when the API server began to refuse this node's own objects, by resource.
	refusals map[string]time.Time
	// returned is closed with the next answer after a failure.
	returned chan struct{}
	// reported is what was reported last. Only Report uses it.
	reported *standing
}

// standing is how the API server stands to this node.
type standing struct {
	reachable bool
	message   string // why it is not reachable
	// refused is the status code that the API server refuses this node with; 0: it does not refuse.
	refused int
	// ahead is how far this machine's clock is ahead of its clock; 0: less than clockOff.
	ahead time.Duration
}

// same reports whether nothing is to be reported after other.
func (s *standing) same(other *standing) bool {
	return s.reachable == other.reachable && s.refused == other.refused && (s.ahead == 0) == (other.ahead == 0)
}

// NewContact returns a Contact that reports to sink while it runs.
func NewContact(sink func(context.Context, *journaletv1.ApiServerContact) error, now func() time.Time) *Contact {
	return &Contact{
		sink: sink, now: now, wake: make(chan struct{}, 1), returned: make(chan struct{}),
		refusals: map[string]time.Time{}, explain: func() string { return "" },
	}
}

// Explain sets what explains a refusal, with what to do. It is for before the first request.
func (c *Contact) Explain(why func() string) { c.explain = why }

// Run reports until ctx ends. What changes while a report is under way is reported once, as it is then.
func (c *Contact) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		if err := c.Report(ctx); err != nil {
			return err
		}
	}
}

// Report reports what is known, unless that was reported last. Run calls it; a simulation calls it instead of Run.
func (c *Contact) Report(ctx context.Context) error {
	now := c.standing()
	if now == nil || c.reported != nil && c.reported.same(now) {
		return nil
	}
	r := &journaletv1.ApiServerContact{Reachable: now.reachable, Message: now.message}
	if now.reachable {
		r.Message = c.problem(now)
	}
	if err := c.sink(ctx, r); err != nil {
		return err
	}
	c.reported = now
	return nil
}

func (c *Contact) standing() *standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return nil
	}
	now := *c.current
	return &now
}

// problem returns what is wrong with an API server that answers, and what to do; empty: nothing.
func (c *Contact) problem(s *standing) string {
	var all []string
	if s.refused != 0 {
		text := fmt.Sprintf("it refuses this node: %d %s", s.refused, http.StatusText(s.refused))
		if why := c.explain(); why != "" {
			text += ": " + why
		}
		all = append(all, text)
	}
	if s.ahead != 0 {
		off, where := s.ahead, "ahead of"
		if off < 0 {
			off, where = -off, "behind"
		}
		all = append(all, fmt.Sprintf("this machine's clock is %v %s the API server's; set the clock that is wrong",
			off.Round(time.Second), where))
	}
	return strings.Join(all, "; ")
}

// Refused returns an error that says why the API server refuses this node, and what to do; nil: it does not, as far as
// is known. One that does not answer refuses nothing.
func (c *Contact) Refused() error {
	now := c.standing()
	if now == nil || now.refused == 0 {
		return nil
	}
	return errors.New("the API server answers, but " + c.problem(&standing{refused: now.refused}))
}

// Reachable reports whether the API server answers, as far as is known: true before the first outcome.
func (c *Contact) Reachable() bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current == nil || c.current.reachable
}

// Returned returns a channel that is closed with the next answer after a failure: what waits to repeat a request need
// wait no longer. Of a nil Contact it never is.
func (c *Contact) Returned() <-chan struct{} {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.returned
}

// Answered registers an answer, be it an error.
func (c *Contact) Answered() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures > 0 {
		close(c.returned)
		c.returned = make(chan struct{})
	}
	c.failures = 0
	if c.current == nil || !c.current.reachable {
		c.set(standing{reachable: true})
	}
}

// judge registers what an answer to a request for an object of this node shows about the node's credentials and its
// clock. Call it after Answered.
func (c *Contact) judge(req *http.Request, resp *http.Response) {
	resource := ownObject(req)
	if c == nil || resource == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := *c.current
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		began, known := c.refusals[resource]
		if !known {
			began = c.now()
			c.refusals[resource] = began
		}
		if c.now().Sub(began) >= refusedFor && now.refused == 0 {
			now.refused = code
		}
	case code < http.StatusInternalServerError && code != http.StatusTooManyRequests:
		delete(c.refusals, resource)
		if len(c.refusals) == 0 {
			now.refused = 0
		}
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		now.ahead = 0
		if ahead := c.now().Sub(at); ahead.Abs() > clockOff {
			now.ahead = ahead
		}
	}
	if !now.same(c.current) {
		c.set(now)
	}
}

// ownObject returns the resource of a request that reads this node's Node or pods, or reads or renews its Lease, empty
// for every other request. An API server permits each node these.
func ownObject(req *http.Request) string {
	path := req.URL.Path
	switch {
	case req.Method != http.MethodGet && req.Method != http.MethodPut:
	case strings.HasSuffix(path, "/api/v1/pods"):
		return "pods"
	case strings.HasSuffix(path, "/api/v1/nodes"), strings.Contains(path, "/api/v1/nodes/"):
		return "nodes"
	case strings.Contains(path, "/leases/"):
		return "leases"
	}
	return ""
}

// Failed registers a request without an answer.
func (c *Contact) Failed(err error) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures++; c.failures == 1 {
		c.since = c.now()
	}
	if c.failures < lostAfter || c.now().Sub(c.since) < lostFor || c.current != nil && !c.current.reachable {
		return
	}
	clear(c.refusals)
	c.set(standing{message: Message(err)})
}

// set stores a change. c.mu is held.
func (c *Contact) set(to standing) {
	c.current = &to
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Message returns the text of an error of a request, bounded, without the URL of the request and without credentials.
func Message(err error) string {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	text := redact.URLs(err.Error())
	if len(text) > maxContactMessage {
		text = text[:maxContactMessage]
	}
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		text += "; check this machine's clock, or renew the API server's certificate"
	}
	return text
}
