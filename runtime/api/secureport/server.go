package secureport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// Options configure a Server. Handler, NodeName and Certificate are required, and ReviewAccess unless AlwaysAllow is
// set.
type Options struct {
	// Handler serves what is permitted; UserOf returns who sends the request.
	Handler  http.Handler
	NodeName string
	// Certificate returns the serving certificate; an error ends the handshake.
	Certificate func() (*tls.Certificate, error)
	// MinVersion is the lowest version of TLS, 1.2 at least. CipherSuites and Curves are empty for Go's.
	MinVersion   uint16
	CipherSuites []uint16
	Curves       []tls.CurveID

	// ClientCA returns the authorities of client certificates; nil: certificates are not considered.
	ClientCA func() (*x509.CertPool, error)
	// ReviewToken sends a TokenReview; nil: tokens are not considered. TokenTTL is how long an answer is kept.
	ReviewToken func(context.Context, *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error)
	TokenTTL    time.Duration
	// Anonymous admits requests without credentials as system:anonymous.
	Anonymous bool
	// AlwaysAllow permits every authenticated request. Else ReviewAccess sends a SubjectAccessReview, and AllowTTL and
	// DenyTTL are how long an answer is kept.
	AlwaysAllow  bool
	ReviewAccess func(context.Context, *authorizationv1.SubjectAccessReview) (
		*authorizationv1.SubjectAccessReview, error)
	AllowTTL, DenyTTL time.Duration
	// VerbOfMethod permits exec, attach, port-forward and run by the verb of their method, as a kubelet does: who may get
	// nodes/proxy opens them by WebSocket. Else they need create.
	VerbOfMethod bool

	// Observe wraps what serves the requests of the port, refused ones too; it may be nil.
	Observe func(http.Handler) http.Handler
	Limits  Limits
	Log     *slog.Logger
	Now     func() time.Time
}

// Server authenticates and authorizes requests before Options.Handler serves them.
type Server struct {
	opts           Options
	tokens, access *answers
	reviews        *budget
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MinVersion = max(o.MinVersion, tls.VersionTLS12)
	o.Limits.fill()
	s := &Server{
		opts: o, reviews: newBudget(),
		tokens: newAnswers(o.TokenTTL, o.TokenTTL, o.Now), access: newAnswers(o.AllowTTL, o.DenyTTL, o.Now),
	}
	s.tokens.early = true
	return s
}

type userKey struct{}

// UserOf returns who sends a request.
func UserOf(ctx context.Context) (*User, bool) {
	u, ok := ctx.Value(userKey{}).(*User)
	return u, ok
}

// ServeHTTP serves one request. What is refused ends its connection: a stranger starts again with a handshake.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, err := s.authenticate(r)
	if errors.Is(err, errTooMany) {
		// Not 401: a client with a good token would give up, or ask for another.
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, errTooMany.Error()+"; try again")
		return
	}
	if err != nil {
		s.opts.Log.Debug("a request was not authenticated", "from", r.RemoteAddr, "error", err)
		refuse(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	user.From, _, _ = net.SplitHostPort(r.RemoteAddr)
	if !s.opts.AlwaysAllow {
		if code, text := s.permitted(r, user); code != http.StatusOK {
			refuse(w, code, text)
			return
		}
	}
	if !admitted(r.Context(), user.Name) {
		s.opts.Log.Warn("a client has too many connections", "user", user.String(), "limit", s.opts.Limits.PerUser)
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, fmt.Sprintf("too many connections of this user; at most %d are served\n",
			s.opts.Limits.PerUser))
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), userKey{}, user))
	withoutCredentials(r.Header) // nothing behind this door needs them
	s.opts.Handler.ServeHTTP(w, r)
}

// denial returns the kubelet's text about a request that is not served.
func denial(what string, u *User, verb string, all ...string) string {
	if what == "Forbidden" {
		return fmt.Sprintf("%s (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", what, shown(u.Name), verb, all)
	}
	return fmt.Sprintf("%s (user=%s, verb=%s, resource=nodes, subresource=%s)", what, shown(u.Name), verb, all[0])
}

func refuse(w http.ResponseWriter, code int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Connection", "close")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // the client has left
}

// shown returns a name in a form for people, bounded.
func shown(name string) string {
	if len(name) > maxShownBytes {
		name = name[:maxShownBytes]
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || strings.ContainsRune("(),", r) {
			return '?'
		}
		return r
	}, name)
}
