package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
)

const (
	// dialTimeout and keepAlive are client-go's.
	dialTimeout = 30 * time.Second
	keepAlive   = 30 * time.Second
	// DefaultContentType is the API's default of contentType.
	DefaultContentType = "application/vnd.kubernetes.protobuf"
)

// Limits bound the requests of a client: so many a second, and so many at once after a pause. A QPS below 0 is no
// bound.
type Limits struct {
	QPS   float32
	Burst int
}

// Options configure a Client.
type Options struct {
	// Config is what Load has returned.
	Config *rest.Config
	// NodeName is the name of this node.
	NodeName string
	// Main and Events are the limits of events and of all else but heartbeats, which have none.
	Main, Events Limits
	// HeartbeatTimeout bounds a heartbeat, with its answer.
	HeartbeatTimeout time.Duration
	// ContentType is what requests are encoded in; empty: DefaultContentType.
	ContentType string
	// UserAgent is the header of that name.
	UserAgent string
	// Certificate returns the client certificate for a new connection, nil for none; a nil function takes Config's.
	Certificate func() *tls.Certificate
	// Gate holds up every request until it is closed: there is no certificate before; nil: none is held up.
	Gate <-chan struct{}
	// Contact is reported the outcome of each request; it may be nil.
	Contact *Contact
	// Requested is reported each request: its HTTP method, the host, the status code, 0 without a response, and the time
	// until then. Limited is reported how long a request waited for Limits. Both may be nil.
	Requested func(method, host string, code int, took time.Duration, watch bool)
	Limited   func(verb, host string, took time.Duration)
	// LeftOut is reported what is left out of lists and watches; it may be nil.
	LeftOut func(LeftOut)
}

// Client sends requests to the API server. Copies with other limits share its connections. It is safe for concurrent
// use.
type Client struct {
	// NodeName is the name of this node.
	NodeName string

	shared  *shared
	http    *http.Client
	limiter *bucket // nil: no limit
	// groups are the REST clients by group and version.
	groups *sync.Map
}

// shared is what all clients of one kubeconfig have in common.
type shared struct {
	config            rest.Config
	contact           *Contact
	leftOut           func(LeftOut)
	transport         http.RoundTripper
	dialer            *connrotation.Dialer
	events, heartbeat *Client
}

// New returns a client. It connects with the first request.
func New(o Options) (*Client, error) {
	s := &shared{config: *rest.CopyConfig(o.Config), contact: o.Contact, leftOut: o.LeftOut}
	if s.leftOut == nil {
		s.leftOut = func(LeftOut) {}
	}
	s.config.UserAgent = o.UserAgent
	s.config.ContentType = cmp.Or(o.ContentType, DefaultContentType)
	s.config.AcceptContentTypes = s.config.ContentType + ",application/json"
	s.config.NegotiatedSerializer = codecs().WithoutConversion()
	host := cmp.Or(s.config.Host, "localhost")
	if _, _, err := rest.DefaultServerURL(host, "/api", schema.GroupVersion{Version: "v1"}, true); err != nil {
		return nil, fmt.Errorf("the API server's address %q: %w; fix the kubeconfig", host, err)
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	s.dialer = connrotation.NewDialer(dialer.DialContext)
	var err error
	if s.transport, err = s.newTransport(o); err != nil {
		return nil, err
	}
	create := func(l *bucket, timeout time.Duration) *Client {
		if l != nil && o.Limited != nil {
			at, _, _ := rest.DefaultServerURL(host, "/api", schema.GroupVersion{Version: "v1"}, true)
			l.waited = func(verb string, took time.Duration) { o.Limited(verb, at.Host, took) }
		}
		return &Client{
			NodeName: o.NodeName, shared: s, limiter: l, groups: &sync.Map{},
			http: &http.Client{Transport: s.transport, Timeout: timeout, CheckRedirect: refuseRedirect},
		}
	}
	s.events, s.heartbeat = create(newBucket(o.Events), 0), create(nil, o.HeartbeatTimeout)
	return create(newBucket(o.Main), 0), nil
}

// newTransport returns the transport of all requests.
func (s *shared) newTransport(o Options) (http.RoundTripper, error) {
	tc, err := s.config.TransportConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig's credentials: %w; fix the kubeconfig", err)
	}
	tc.DialHolder = &transport.DialHolder{Dial: s.dialer.DialContext}
	if o.Certificate != nil {
		tc.TLS.CertFile, tc.TLS.KeyFile, tc.TLS.CertData, tc.TLS.KeyData = "", "", nil, nil
		tc.TLS.GetCertHolder = &transport.GetCertHolder{GetCert: func() (*tls.Certificate, error) {
			if c := o.Certificate(); c != nil {
				return c, nil
			}
			return &tls.Certificate{}, nil
		}}
	}
	rt, err := transport.New(tc)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig's certificates: %w; fix the kubeconfig", err)
	}
	return observed{next: rt, contact: o.Contact, gate: o.Gate, requested: o.Requested}, nil
}

// Events returns the client with the limits of events.
func (c *Client) Events() *Client { return c.shared.events }

// Heartbeat returns the client without limits, whose requests end after Options.HeartbeatTimeout.
func (c *Client) Heartbeat() *Client { return c.shared.heartbeat }

// REST returns the client of an API group. The generic functions of this package use it.
func (c *Client) REST(gv schema.GroupVersion) rest.Interface {
	if known, ok := c.groups.Load(gv); ok {
		return known.(rest.Interface)
	}
	config := c.shared.config
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	// A QPS below 0 is no limit, for the clients without a limiter.
	config.QPS = -1
	if c.limiter != nil {
		config.RateLimiter = c.limiter
	}
	// What can fail in a configuration has failed in New.
	created, err := rest.RESTClientForConfigAndClient(&config, c.http)
	if err != nil {
		panic("client: " + err.Error())
	}
	known, _ := c.groups.LoadOrStore(gv, created)
	return known.(rest.Interface)
}

// CloseConnections closes every connection: the next request connects again, with the newest certificate.
func (c *Client) CloseConnections() { c.shared.dialer.CloseAll() }

// CloseIdle closes the connections without a request under way. A heartbeat calls it when it has failed twice: what
// answers no longer, but was never closed, would hold up the next one too.
func (c *Client) CloseIdle() { utilnet.CloseIdleConnectionsFor(c.shared.transport) }

// observed reports the outcomes of requests, and bounds their answers.
type observed struct {
	next    http.RoundTripper
	contact *Contact
	gate    <-chan struct{}
	// requested is Options.Requested.
	requested func(method, host string, code int, took time.Duration, watch bool)
}

// RoundTrip sends one request.
func (o observed) RoundTrip(req *http.Request) (*http.Response, error) {
	if o.gate != nil {
		select {
		case <-o.gate:
		case <-req.Context().Done():
			return nil, fmt.Errorf("this node has no client certificate yet: %w", req.Context().Err())
		}
	}
	begun := time.Now()
	resp, err := o.next.RoundTrip(req)
	watch := req.URL.Query().Get("watch") != ""
	if o.requested != nil {
		code := 0
		if err == nil {
			code = resp.StatusCode
		}
		o.requested(req.Method, req.URL.Host, code, time.Since(begun), watch)
	}
	switch {
	case err == nil:
		o.contact.Answered()
		o.contact.judge(req, resp)
		if resp.Body != nil {
			b := budgetOf(req.Context())
			b.kind.Store(resp.Header.Get("Content-Type"))
			resp.Body = &limited{ReadCloser: resp.Body, budget: b}
		}
	case !errors.Is(req.Context().Err(), context.Canceled):
		o.contact.Failed(err)
	}
	return resp, err
}

// WrappedRoundTripper returns the transport below, for callers that close its connections.
func (o observed) WrappedRoundTripper() http.RoundTripper { return o.next }
