package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/cluster/client"
)

const (
	// maxChainBytes bounds the certificates that a signer issues. It is the API server's bound (pkg/apis/certificates).
	maxChainBytes = 100 << 10
	// maxReasonBytes and maxSignerMessageBytes bound the words of a signer; together they fit an object's message.
	maxReasonBytes        = 128
	maxSignerMessageBytes = 512
	// maxCertificateBytes bounds the keys and certificates that the sources of one namespace hold; each source counts
	// sourceBytes more: a hundred sources with the largest chains, or two thousand that wait.
	maxCertificateBytes = 16 << 20
	sourceBytes         = 8 << 10
	// maxEarly bounds the answers that are kept of a request before its name is known. Others may copy its stub.
	maxEarly = 8
)

// response is what a signer has answered to a request.
type response struct {
	// kind is the type of its condition: Issued, Denied or Failed; empty: none yet.
	kind, reason, message string
	chain                 string
	// refreshAt and notAfter are zero if the answer has none.
	refreshAt, notAfter time.Time
}

// responseOf returns the answer of a request, bounded.
func responseOf(s *certificatesv1.PodCertificateRequestStatus) response {
	for i := range s.Conditions {
		switch c := &s.Conditions[i]; c.Type {
		case certificatesv1.PodCertificateRequestConditionTypeIssued,
			certificatesv1.PodCertificateRequestConditionTypeDenied,
			certificatesv1.PodCertificateRequestConditionTypeFailed:
			a := response{
				kind: c.Type, reason: plain.Cut(c.Reason, maxReasonBytes), message: plain.Cut(c.Message, maxSignerMessageBytes),
				chain: s.CertificateChain[:min(len(s.CertificateChain), maxChainBytes+1)],
			}
			if s.BeginRefreshAt != nil {
				a.refreshAt = s.BeginRefreshAt.Time
			}
			if s.NotAfter != nil {
				a.notAfter = s.NotAfter.Time
			}
			return a
		}
	}
	return response{}
}

// request is a PodCertificateRequest of ours.
type request struct {
	namespace, stub string
	key             *key
	// changed receives after a change.
	changed chan struct{}

	// The mutex of certificates guards what follows. uid is empty while the API server has not answered; early has the
	// answers of those with our stub until then, by UID.
	name   string
	uid    types.UID
	early  map[types.UID]response
	answer response
	// there: the API server had it when it was last read.
	there bool
}

// full returns the name with its namespace.
func (r *request) full() string { return r.namespace + "/" + r.name }

func (r *request) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// certificates follows the PodCertificateRequests that a Backing has created. It is the store of a Reflector, which
// follows the requests of this node while there are sources.
type certificates struct {
	turns turns
	// most is maxCertificateBytes, unless a test sets it.
	most int

	mu sync.Mutex
	// sources are the sources that have, or want, a certificate.
	sources map[*certified]standing
	end     context.CancelFunc
	// requests have no answer yet. They are by their stubs: no two have one key.
	requests map[string]*request
	// next are the requests of the list that is being read; nil: none is.
	next map[*request]bool
	// read: there was a list. problem is why they cannot be read; nil: they can, or it is not known yet.
	read    bool
	problem error
	held    map[string]int // bytes, by namespace
}

func newCertificates() certificates {
	return certificates{
		turns: newTurns(), most: maxCertificateBytes, requests: map[string]*request{}, held: map[string]int{},
		sources: map[*certified]standing{},
	}
}

// CertificateState is what sources podCertificate are counted by: the signer that the manifest names, and the kubelet's
// word for how the certificate stands: not_yet_issued, fresh, overdue_for_refresh, expired, denied or failed.
type CertificateState struct{ Signer, State string }

// standing is how the certificate of a source stands.
type standing struct {
	// signer is empty before the manifest was read.
	signer string
	// ended is denied or failed where no further request is sent.
	ended string
	// refreshAt and notAfter are the times of the certificate in use; zero: no certificate is in use.
	refreshAt, notAfter time.Time
}

func (s standing) state(now time.Time) string {
	switch {
	case s.ended != "":
		return s.ended
	case s.notAfter.IsZero():
		return "not_yet_issued"
	case now.After(s.notAfter):
		return "expired"
	case now.After(s.refreshAt.Add(overdueAfter)):
		return "overdue_for_refresh"
	}
	return "fresh"
}

// note changes how the certificate of a source stands.
func (c *certificates) note(s *certified, change func(*standing)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.sources[s]
	change(&now)
	c.sources[s] = now
}

// Certificates counts the sources podCertificate of pods on this node by signer and state.
func (b *Backing) Certificates() map[CertificateState]int {
	now, all := b.opts.Clock.Now(), map[CertificateState]int{}
	c := &b.issuing
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sources {
		if s.signer != "" {
			all[CertificateState{s.signer, s.state(now)}]++
		}
	}
	return all
}

// hold adds bytes, or takes them away, of what the sources of a namespace hold. It reports whether these are within
// the bound.
func (c *certificates) hold(namespace string, bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.held[namespace] + bytes
	switch {
	case bytes > 0 && now > c.most:
		return false
	case now == 0:
		delete(c.held, namespace)
	default:
		c.held[namespace] = now
	}
	return true
}

// beginRequests adds a source. The first one begins to follow the requests.
func (b *Backing) beginRequests(s *certified) {
	c := &b.issuing
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sources[s] = (standing{}); len(c.sources) > 1 {
		return
	}
	b.mu.Lock()
	ctx, end := context.WithCancel(b.ctx)
	b.mu.Unlock()
	c.end, c.read, c.problem = end, false, nil
	b.running.Go(func() { b.followRequests(ctx) })
}

// quit removes a source; after the last one nothing is followed.
func (c *certificates) quit(s *certified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.sources, s); len(c.sources) == 0 {
		c.end()
	}
}

// followRequests follows the requests that name this node, as the Node authorizer demands, until ctx ends.
func (b *Backing) followRequests(ctx context.Context) {
	c := &b.issuing
	selected := fields.OneTermEqualSelector("spec.nodeName", b.opts.NodeName)
	lw := patient(client.ListWatchInto(b.opts.Client, client.PodCertificateRequests, selected, c.begin, once), func() {})
	r := cache.NewReflectorWithOptions(lw, &certificatesv1.PodCertificateRequest{}, c, cache.ReflectorOptions{
		Name: "certificate requests of this node",
	})
	b.repeat(ctx, attempts{
		begin: r.ListAndWatchWithContext,
		read: func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.read
		},
		failed: c.failed,
	})
}

// failed takes why the requests cannot be read.
func (c *certificates) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem = err
	for _, r := range c.requests {
		r.signal()
	}
}

// expect adds a request that is about to be created: its answer may be read before its name is known.
func (c *certificates) expect(namespace string, k *key) *request {
	r := &request{
		namespace: namespace, stub: string(k.stub), key: k, changed: make(chan struct{}, 1), early: map[types.UID]response{},
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[r.stub] = r
	return r
}

// created takes the name of a request from the API server.
func (c *certificates) created(r *request, o *certificatesv1.PodCertificateRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.name, r.uid = o.Name, o.UID
	r.answer, r.there = r.early[o.UID]
	r.early = nil
}

// forget drops a request.
func (c *certificates) forget(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.requests, r.stub)
}

// state returns the answer of a request, whether the API server has the request, and why that cannot be read.
func (c *certificates) state(r *request) (a response, there bool, problem error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return r.answer, r.there, c.problem
}

// take takes a request that was read, and returns it if it is ours. c.mu is held.
func (c *certificates) take(o *certificatesv1.PodCertificateRequest) *request {
	r := c.requests[string(o.Spec.StubPKCS10Request)]
	switch {
	case r == nil || r.namespace != o.Namespace:
		return nil
	case r.uid == "":
		if _, had := r.early[o.UID]; had || len(r.early) < maxEarly {
			r.early[o.UID] = responseOf(&o.Status)
		}
	case r.uid == o.UID:
		r.answer, r.there = responseOf(&o.Status), true
		r.signal()
	default:
		return nil
	}
	return r
}

// begin begins a list.
func (c *certificates) begin() (take func(*certificatesv1.PodCertificateRequest)) {
	next := map[*request]bool{}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = next
	return func(o *certificatesv1.PodCertificateRequest) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if r := c.take(o); r != nil {
			next[r] = true
		}
	}
}

// Add takes a request.
func (c *certificates) Add(o any) error {
	one, ok := o.(*certificatesv1.PodCertificateRequest)
	if !ok {
		return fmt.Errorf("the API server sent a %T", o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem = nil
	c.take(one)
	return nil
}

// Update takes a newer request.
func (c *certificates) Update(o any) error { return c.Add(o) }

// Delete takes that a request is gone.
func (c *certificates) Delete(o any) error {
	one, ok := o.(*certificatesv1.PodCertificateRequest)
	if !ok {
		return fmt.Errorf("the API server sent a %T", o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.take(one); r != nil {
		r.there = false
		delete(r.early, one.UID)
	}
	return nil
}

// Replace takes that the list has been read whole.
func (c *certificates) Replace([]any, string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.problem = true, nil
	for _, r := range c.requests {
		if !c.next[r] {
			r.there = false
			r.signal()
		}
	}
	c.next = nil
	return nil
}

// Resync does nothing.
func (c *certificates) Resync() error { return nil }
