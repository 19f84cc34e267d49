package secureport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/test/authority"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

// testPort is a server on a port, with an API server that decides.
type testPort struct {
	t    *testing.T
	api  *fakeapi.Server
	ca   *authority.Authority
	addr string
	// allow are the "user verb subresource" that the API server permits; tokens are the users by token.
	allow  map[string]bool
	tokens map[string]string

	mu      sync.Mutex
	clock   time.Duration
	clients []string // that the handler has served
}

func (d *testPort) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Add(d.clock)
}

func (d *testPort) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock += by
}

func (d *testPort) served() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clients
}

// open opens a door with the kubelet's defaults, but for what change sets.
func open(t *testing.T, change func(*testPort, *Options)) *testPort {
	t.Helper()
	d := &testPort{t: t, api: fakeapi.New(), ca: authority.New(t), allow: map[string]bool{}, tokens: map[string]string{}}
	d.api.AccessReview = func(r *authorizationv1.SubjectAccessReview) {
		a := r.Spec.ResourceAttributes
		r.Status.Allowed = a.Resource == "nodes" && a.Name == "n" && a.Group == "" &&
			d.allow[r.Spec.User+" "+a.Verb+" "+a.Subresource]
	}
	d.api.TokenReview = func(r *authenticationv1.TokenReview) {
		if name := d.tokens[r.Spec.Token]; name != "" {
			r.Status.Authenticated, r.Status.User.Username = true, name
		}
	}
	c, err := client.New(client.Options{
		Config: &rest.Config{Host: d.api.Start(t)}, NodeName: "n", ContentType: "application/json",
		Main: client.Limits{QPS: -1},
	})
	must.OK(t, err)
	o := Options{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			u, _ := UserOf(r.Context())
			d.mu.Lock()
			d.clients = append(d.clients, u.String())
			d.mu.Unlock()
			_, _ = io.WriteString(w, "served to "+u.Name+r.Header.Get("Authorization"))
		}),
		NodeName: "n", Certificate: SelfSigned("n", []string{"127.0.0.1"}, time.Now), Now: d.now,
		ClientCA: func() (*x509.CertPool, error) { return d.ca.Pool(), nil },
		TokenTTL: 2 * time.Minute, AllowTTL: 5 * time.Minute, DenyTTL: 30 * time.Second,
		ReviewToken: func(ctx context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
			return client.Create(ctx, c, client.TokenReviews, "", r)
		},
		ReviewAccess: func(ctx context.Context, r *authorizationv1.SubjectAccessReview) (
			*authorizationv1.SubjectAccessReview, error,
		) {
			return client.Create(ctx, c, client.SubjectAccessReviews, "", r)
		},
	}
	if change != nil {
		change(d, &o)
	}
	d.addr = run(t, func(ctx context.Context, l net.Listener) error { return New(o).Serve(ctx, l) })
	return d
}

// run runs a server on a port until the test ends.
func run(t *testing.T, serve func(context.Context, net.Listener) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		must.OK(t, <-ended)
	})
	return l.Addr().String()
}

// as is who sends a request.
type as struct {
	cert  *tls.Certificate
	token string
}

// send sends one request on a connection of its own.
func (d *testPort) send(who as, method, path string) (int, string) {
	d.t.Helper()
	code, body, err := d.try(who, method, path)
	must.OK(d.t, err)
	return code, body
}

func (d *testPort) try(who as, method, path string) (int, string, error) {
	c := &tls.Config{InsecureSkipVerify: true}
	if who.cert != nil {
		c.Certificates = []tls.Certificate{*who.cert}
	}
	tr := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(d.t.Context(), method, "https://"+d.addr+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if who.token != "" {
		req.Header.Set("Authorization", "Bearer "+who.token)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.ProtoMajor != 1 {
		err = errors.New("the server speaks " + resp.Proto)
	}
	return resp.StatusCode, string(body), err
}

// want sends a GET and wants a status.
func (d *testPort) want(code int, who as, path string) {
	d.t.Helper()
	if got, body := d.send(who, http.MethodGet, path); got != code {
		d.t.Errorf("GET %s: %d %q, want %d", path, got, body, code)
	}
}

// reviews returns how many reviews of a kind the API server has had.
func (d *testPort) reviews(kind string) int { return len(d.api.Requests("create " + kind)) }

const (
	tokenReviews  = "tokenreviews.authentication.k8s.io"
	accessReviews = "subjectaccessreviews.authorization.k8s.io"
)

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }
