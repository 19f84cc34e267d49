package fakeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// Server is the API server. It is an http.Handler; New is its only constructor. All methods may be called from any
// goroutine. Hooks are set before the first request.
type Server struct {
	// Faults decides on each request before it is handled. Nil, or a nil Fault: the request is handled as it should be.
	Faults func(APIRequest) *Fault
	// Now is the server's clock.
	Now func() time.Time
	// NoWatchList refuses sendInitialEvents with 422, as servers without the feature do.
	NoWatchList bool
	// Token, TokenReview and AccessReview answer the requests of these kinds. Without one, a token is
	// "token-<account>-<number>", every token is of nobody, and everything is allowed.
	Token        func(namespace, account string, r *authenticationv1.TokenRequest) error
	TokenReview  func(*authenticationv1.TokenReview)
	AccessReview func(*authorizationv1.SubjectAccessReview)

	mu         sync.Mutex
	objects    map[key]object
	version    int
	history    []change
	oldest     int // versions before this one are compacted
	uids       int
	watches    map[*watch]bool
	requests   []APIRequest
	down       bool
	disconnect func() // closes all connections
}

// key names one object.
type key struct {
	resource, namespace, name string
}

// change is one entry of the history. before is nil for a creation, after for a removal, whose version is version.
type change struct {
	key           key
	version       int
	before, after object
}

// APIRequest is a request as the server has understood it.
type APIRequest struct {
	// Verb is get, list, watch, create, update, patch or delete.
	Verb string
	// Resource is the plural; of other groups than the core's it is "resource.group", such as leases.coordination.k8s.io.
	Resource, Subresource, Namespace, Name string
	// HTTP is the request itself. Its body has been read; Body holds it.
	HTTP *http.Request
	Body []byte
}

// Fault is what goes wrong with one request.
type Fault struct {
	// Hold is called first. The request waits until it returns.
	Hold func(context.Context)
	// Code, unless 0, is the answer, with Reason and Message in a Status; the request is not carried out. RetryAfter,
	// in seconds, goes with it.
	Code            int
	Reason, Message string
	RetryAfter      int
	// Body, unless empty, is the whole answer, with Code or 200.
	Body string
	// Serve, unless nil, answers instead of the server.
	Serve http.HandlerFunc
	// LostAnswer carries the request out and closes the connection without an answer.
	LostAnswer bool
	// Refuse closes the connection without carrying the request out.
	Refuse bool
	// StaleVersion answers a list as of this resourceVersion.
	StaleVersion int
}

// New returns an empty server.
func New() *Server {
	return &Server{Now: time.Now, objects: map[key]object{}, watches: map[*watch]bool{}, version: 1}
}

// Start serves s over HTTP until the test ends, and returns its URL.
func (s *Server) Start(t testing.TB) string {
	srv := httptest.NewServer(s)
	s.mu.Lock()
	s.disconnect = srv.CloseClientConnections
	s.mu.Unlock()
	t.Cleanup(func() {
		s.DropWatches("")
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// Kubeconfig returns a kubeconfig for the API server at a URL, with a user in YAML such as {token: t}.
func Kubeconfig(url, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: %s}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, url, user)
}

// Disconnect closes all connections, also the connections that a client keeps for its next request.
func (s *Server) Disconnect() {
	s.mu.Lock()
	disconnect := s.disconnect
	s.mu.Unlock()
	s.DropWatches("")
	disconnect()
}

// SetDown closes the connection of every request, and ends all watches, until it is called with false.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	s.down = down
	s.mu.Unlock()
	if down {
		s.DropWatches("")
	}
}

// DropWatches ends the watches of a resource, of all with "".
func (s *Server) DropWatches(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if resource == "" || w.resource == resource {
			s.end(w)
		}
	}
}

// FailWatches ends the watches of a resource with the error 410 that the server sends when a version is too old.
func (s *Server) FailWatches(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if w.resource == resource {
			w.send(frame{"ERROR", status(http.StatusGone, "Expired", "too old resource version")})
			s.end(w)
		}
	}
}

// Compact forgets the history: a watch from an earlier version is answered with 410.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.oldest = nil, s.version
}

// Bookmark sends the current version to all watches of a resource that asked for bookmarks.
func (s *Server) Bookmark(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if w.resource == resource && w.bookmarks {
			w.send(frame{"BOOKMARK", s.bookmark(w.resource, false)})
		}
	}
}

// Version returns the newest resourceVersion.
func (s *Server) Version() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Watching returns the number of open watches of a resource.
func (s *Server) Watching(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for w := range s.watches {
		if w.resource == resource {
			n++
		}
	}
	return n
}

// Requests returns the requests so far that match a filter "verb resource[/subresource]", all with "". A verb or
// resource "*" matches any.
func (s *Server) Requests(filter string) []APIRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r APIRequest) bool { return !r.matches(filter) })
}

func (r APIRequest) String() string {
	what := r.Resource
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	return r.Verb + " " + what
}

func (r APIRequest) matches(filter string) bool {
	verb, what, _ := strings.Cut(filter, " ")
	_, own, _ := strings.Cut(r.String(), " ")
	return filter == "" || (verb == "*" || verb == r.Verb) && (what == "*" || what == own)
}

// newUID returns a UID that the server has not given before. The caller holds s.mu.
func (s *Server) newUID() string {
	s.uids++
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", s.uids)
}
