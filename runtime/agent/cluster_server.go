package agent

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/runtime/api/kubelet"
	"github.com/journalet/journalet/runtime/api/secureport"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/cluster/mirror"
	"github.com/journalet/journalet/runtime/config"
)

// newPorts returns what serves the ports of cluster mode, by name. certificate returns the certificate that the cluster
// has signed; nil: it signs none.
func (a *agent) newPorts(c *cluster, certificate func() *tls.Certificate) (
	map[string]func(context.Context) error, error,
) {
	if !a.cfg.EnableServer {
		return nil, nil
	}
	s, err := a.newSecureServer(c, certificate)
	if err != nil {
		return nil, err
	}
	all := map[string]func(context.Context) error{"server for the cluster": a.serveCluster(s)}
	if a.cfg.Server.ReadOnlyPort != 0 {
		all["read-only server"] = a.serveReadOnly
	}
	return all, nil
}

// newSecureServer creates the kubelet server's door for the cluster, without listening.
func (a *agent) newSecureServer(c *cluster, certificate func() *tls.Certificate) (*secureport.Server, error) {
	s := &a.cfg.Server
	o := secureport.Options{
		Handler: identifyUser(a.apiHandler), NodeName: a.facts.NodeName, MinVersion: s.TLSVersion(),
		Anonymous: s.Anonymous, TokenTTL: s.ReviewTTL, AlwaysAllow: s.Authorization == config.AuthorizeAll,
		AllowTTL: s.AuthorizedTTL, DenyTTL: s.UnauthorizedTTL, Log: a.log,
		VerbOfMethod: !s.ExecRequiresCreate,
		ReviewAccess: func(ctx context.Context, r *authorizationv1.SubjectAccessReview) (
			*authorizationv1.SubjectAccessReview, error,
		) {
			begun := time.Now()
			out, err := client.Create(ctx, c.client, client.SubjectAccessReviews, "", r)
			c.metrics.AccessReviewed(time.Since(begun), err)
			return out, err
		},
		Observe: func(h http.Handler) http.Handler { return c.metrics.Observe("readwrite", h) },
	}
	if s.TokenReview {
		o.ReviewToken = func(ctx context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
			begun := time.Now()
			out, err := client.Create(ctx, c.client, client.TokenReviews, "", r)
			c.metrics.TokenReviewed(time.Since(begun), err)
			return out, err
		}
	}
	var err error
	if o.CipherSuites, err = s.CipherSuites(); err != nil {
		return nil, err
	}
	for _, id := range s.TLSCurvePreferences {
		o.Curves = append(o.Curves, tls.CurveID(id))
	}
	if s.ClientCAFile != "" {
		if o.ClientCA, err = secureport.ClientCAFile(s.ClientCAFile, time.Now, a.log); err != nil {
			return nil, err
		}
	}
	if o.Certificate, err = a.serverCertificate(certificate); err != nil {
		return nil, err
	}
	return secureport.New(o), nil
}

// staticUID returns the UID of the static pod that a mirror pod shows; "" if the UID is not of a mirror pod.
func (a *agent) staticUID(uid string) string {
	if a.cluster == nil {
		return ""
	}
	if p := a.cluster.reports.objects.Get(types.UID(uid)); p != nil {
		return mirror.Of(p)
	}
	return ""
}

// serverCertificate returns the certificate of the server: from the configured files, signed by the cluster, or the
// agent's own, self-signed.
func (a *agent) serverCertificate(signed func() *tls.Certificate) (func() (*tls.Certificate, error), error) {
	s := &a.cfg.Server
	switch {
	case s.TLSCertFile != "":
		return secureport.CertificateFiles(s.TLSCertFile, s.TLSPrivateKeyFile, time.Now, a.log)
	case signed != nil:
		return func() (*tls.Certificate, error) {
			if c := signed(); c != nil {
				return c, nil
			}
			return nil, fmt.Errorf("the cluster has not signed the serving certificate yet")
		}, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return secureport.SelfSigned(host, a.facts.HostIPs, time.Now), nil
}

// identifyUser names the authenticated user as the client.
func identifyUser(handler func() *kubelet.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, ok := secureport.UserOf(r.Context()); ok {
			r = r.WithContext(kubelet.WithClient(r.Context(), u))
		}
		handler().ServeHTTP(w, r)
	})
}

// serveCluster returns what serves the port of cluster mode until its context ends.
func (a *agent) serveCluster(s *secureport.Server) func(context.Context) error {
	return func(ctx context.Context) error {
		l, err := a.listenOn(ctx, a.cfg.Server.Port, "port")
		if err != nil {
			return err
		}
		return s.Serve(ctx, l)
	}
}

// serveReadOnly serves the port without authentication until ctx ends.
func (a *agent) serveReadOnly(ctx context.Context) error {
	l, err := a.listenOn(ctx, a.cfg.Server.ReadOnlyPort, "read-only-port")
	if err != nil {
		return err
	}
	return secureport.ServePlain(ctx, l, a.cluster.metrics.Observe("readonly", a.apiHandler()), secureport.Limits{}, a.log)
}

func (a *agent) listenOn(ctx context.Context, port int32, flag string) (net.Listener, error) {
	address := net.JoinHostPort(a.cfg.Server.Address, strconv.Itoa(int(port)))
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; stop what uses the port, or set --%s", err, flag)
	}
	return l, nil
}
