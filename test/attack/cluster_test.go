//go:build attack

package attack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/journalet/journalet/test/authority"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// world is the cluster around an agent: an API server in memory, and the port that the agent serves.
type world struct {
	g   *target
	api *fakeapi.Server
	// fault is what goes wrong with requests at this moment.
	fault atomic.Pointer[func(fakeapi.APIRequest) *fakeapi.Fault]
	// withdraw ends the answers that Fault.Serve still writes.
	withdraw context.CancelFunc
	// clients and servers are the authorities of both sides of the port.
	clients, servers *authority.Authority
	dir, addr        string
	kubeconfig       string // of the agent

	mu     sync.Mutex
	tokens map[string]string // users
	denied map[string]bool   // users
}

// newWorld starts the API server, and has the agent join it; or the cluster of -attack.kubeconfig.
func newWorld(g *target, join bool) *world {
	g.Helper()
	w := &world{
		g: g, api: fakeapi.New(), clients: authority.New(g.T), servers: authority.New(g.T), dir: g.T.TempDir(),
		tokens: map[string]string{}, denied: map[string]bool{}, withdraw: func() {},
	}
	w.api.Faults = func(r fakeapi.APIRequest) *fakeapi.Fault {
		if f := w.fault.Load(); f != nil {
			return (*f)(r)
		}
		return nil
	}
	w.api.TokenReview = func(r *authenticationv1.TokenReview) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if user := w.tokens[r.Spec.Token]; user != "" {
			r.Status.Authenticated, r.Status.User.Username = true, user
		}
	}
	w.api.AccessReview = func(r *authorizationv1.SubjectAccessReview) {
		w.mu.Lock()
		defer w.mu.Unlock()
		r.Status.Allowed = !w.denied[r.Spec.User]
	}
	kubeconfig := *realAPI
	if !join {
		kubeconfig = filepath.Join(w.dir, "kubeconfig")
		must.OK(g.T, os.WriteFile(kubeconfig, []byte(fakeapi.Kubeconfig(w.api.Start(g.T), "{}")), 0o600))
		g.Flags = append(g.Flags, "--kube-api-content-type", "application/json")
	}
	w.kubeconfig = kubeconfig
	// The agent of a failed test outlives the server.
	g.T.Cleanup(func() { w.breaks(nil); w.api.SetDown(true) })
	ca := filepath.Join(w.dir, "ca.crt")
	must.OK(g.T, os.WriteFile(ca, w.clients.PEM(), 0o600))
	cert, key := authority.Write(g.T, w.dir, w.servers.Server(g.T))
	port := strconv.Itoa(node.Port(g.T))
	w.addr = net.JoinHostPort("127.0.0.1", port)
	g.Flags = append(g.Flags, "--kubeconfig", kubeconfig, "--address", "127.0.0.1",
		"--port", port, "--client-ca-file", ca, "--tls-cert-file", cert,
		"--tls-private-key-file", key)
	return w
}

// breaks has requests that match go wrong, until it is called again; with nil all go well. What is still being answered
// wrongly ends then: an answer without an end lasts as long as the attack.
func (w *world) breaks(f func(fakeapi.APIRequest) *fakeapi.Fault) {
	defer w.withdraw() // of the ones before, once the new ones are in force
	if f == nil {
		w.fault.Store(nil)
		w.withdraw = func() {}
		return
	}
	lasts, withdraw := context.WithCancel(context.Background())
	w.withdraw = withdraw
	ending := func(r fakeapi.APIRequest) *fakeapi.Fault {
		wrong := f(r)
		if wrong == nil || wrong.Serve == nil {
			return wrong
		}
		serving := *wrong
		serving.Serve = func(rw http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(lasts, cancel)()
			wrong.Serve(rw, r.WithContext(ctx))
		}
		return &serving
	}
	w.fault.Store(&ending)
}

// caller is who sends a request to the port.
type caller struct {
	cert  *tls.Certificate
	token string
}

func (w *world) as(name string) caller { return caller{cert: w.clients.Client(w.g.T, name)} }

func (w *world) config(who caller) *tls.Config {
	c := &tls.Config{RootCAs: w.servers.Pool(), MinVersion: tls.VersionTLS12}
	if who.cert != nil {
		// Whatever authorities the server names.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return who.cert, nil }
	}
	return c
}

// do sends a request on a connection of its own, and returns the status and the beginning of the body.
func (w *world) do(who caller, method, path string, header http.Header) (int, string, error) {
	ctx, cancel := node.Bounded()
	defer cancel()
	tr := &http.Transport{TLSClientConfig: w.config(who), DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+w.addr+"/", http.NoBody)
	if err != nil {
		return 0, "", err
	}
	req.URL.Opaque = "//" + w.addr + path // as it is, whatever net/url thinks of it
	if header != nil {
		req.Header = header
	}
	if who.token != "" {
		req.Header.Set("Authorization", "Bearer "+who.token)
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	return res.StatusCode, string(b), err
}

// want sends a GET and wants a status.
func (w *world) want(code int, who caller, path string) {
	w.g.Helper()
	if got, body, err := w.do(who, http.MethodGet, path, nil); got != code {
		w.g.Errorf("GET %s: %d %.200q, %v; want %d", path, got, body, err, code)
	}
}

// open connects with TLS and writes bytes; nil if the agent refuses.
func (w *world) open(who caller, text string) *tls.Conn {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: node.Soon}, "tcp", w.addr, w.config(who))
	if err != nil {
		return nil
	}
	if _, err := io.WriteString(c, text); err != nil {
		_ = c.Close()
		return nil
	}
	return c
}

// portWorks checks that the port serves the API server, and that the agent follows it.
func portWorks(g *target) {
	g.Helper()
	who := g.world.as("kube-apiserver")
	node.Eventually(g.T, headerWait, "the port to serve the API server", func() error {
		code, body, err := g.world.do(who, http.MethodGet, "/containerLogs/"+g.bystanderPath()+"/main", nil)
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %.200q: %w", code, body, errors.Join(err, errors.New("not served")))
		}
		return nil
	})
}

// nodeIsReported checks that the API server has this agent's Node with a nodeInfo.
func nodeIsReported(g *target) {
	g.Helper()
	node.Eventually(g.T, settle, "the Node at the API server", func() error {
		var n struct {
			Status struct{ NodeInfo map[string]any }
		}
		if !g.world.api.Get("nodes", "", g.Node, &n) || len(n.Status.NodeInfo) == 0 {
			b, _ := json.Marshal(n)
			return fmt.Errorf("the Node is %s", b)
		}
		return nil
	})
}

// linesWith returns the lines of the agent's log that contain a text.
func (g *target) linesWith(text string) (lines []string) {
	for line := range strings.Lines(g.Process.Text()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}
