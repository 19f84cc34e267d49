package config

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/pflag"
)

// The kubelet's defaults of its server.
const (
	defaultPort            = 10250
	defaultAddress         = "0.0.0.0"
	defaultReviewTTL       = 2 * time.Minute
	defaultAuthorizedTTL   = 5 * time.Minute
	defaultUnauthorizedTTL = 30 * time.Second
)

// Values of Server.Authorization.
const (
	// AuthorizeByWebhook asks the API server (SubjectAccessReview).
	AuthorizeByWebhook = "Webhook"
	// AuthorizeAll permits every authenticated request.
	AuthorizeAll = "AlwaysAllow"
)

// Server is the configuration of the server on port 10250, which runs in cluster mode only.
type Server struct {
	Address string
	Port    int32
	// ReadOnlyPort serves without authentication; 0: not at all.
	ReadOnlyPort int32
	// TLSCertFile and TLSPrivateKeyFile are the serving certificate; both empty: one of the agent's own.
	TLSCertFile, TLSPrivateKeyFile string
	// TLSCipherSuites are names of cipher suites, TLSMinVersion is such as VersionTLS12, TLSCurvePreferences are the
	// numbers of TLS; empty: Go's.
	TLSCipherSuites     []string
	TLSMinVersion       string
	TLSCurvePreferences []int32
	// Anonymous admits requests without credentials as system:anonymous.
	Anonymous bool
	// TokenReview asks the API server about bearer tokens, and keeps an answer for ReviewTTL.
	TokenReview bool
	ReviewTTL   time.Duration
	// ClientCAFile has the authorities of client certificates; empty: none is accepted.
	ClientCAFile string
	// Authorization is AuthorizeByWebhook or AuthorizeAll. AuthorizedTTL and UnauthorizedTTL are how long answers are
	// kept.
	Authorization                  string
	AuthorizedTTL, UnauthorizedTTL time.Duration
	// ExecRequiresCreate means that exec, attach, port-forward and run need the verb create on nodes/proxy whatever their
	// method is; else a WebSocket needs get, as with a kubelet (ADR 058).
	ExecRequiresCreate bool
}

func defaultServer() Server {
	return Server{
		Address: defaultAddress, Port: defaultPort, TokenReview: true, ReviewTTL: defaultReviewTTL,
		Authorization: AuthorizeByWebhook, AuthorizedTTL: defaultAuthorizedTTL, UnauthorizedTTL: defaultUnauthorizedTTL,
		ExecRequiresCreate: true,
	}
}

// Flags that win over a part of a field.
const (
	flagAnonymous       = "anonymous-auth"
	flagTokenReview     = "authentication-token-webhook"
	flagReviewTTL       = "authentication-token-webhook-cache-ttl"
	flagClientCA        = "client-ca-file"
	flagAuthorization   = "authorization-mode"
	flagAuthorizedTTL   = "authorization-webhook-cache-authorized-ttl"
	flagUnauthorizedTTL = "authorization-webhook-cache-unauthorized-ttl"
	flagExecCreate      = "exec-requires-create" // the only flag that no kubelet has
)

// addServerFlags adds the flags of the server. All but one are the kubelet's.
func (c *Config) addServerFlags(fs *pflag.FlagSet) {
	s := &c.Server
	fs.StringVar(&s.Address, "address", s.Address, "address of the server in cluster mode")
	fs.Int32Var(&s.Port, "port", s.Port, "port of the server in cluster mode")
	fs.Int32Var(&s.ReadOnlyPort, "read-only-port", s.ReadOnlyPort, "port without authentication; 0: none")
	fs.StringVar(&s.TLSCertFile, "tls-cert-file", s.TLSCertFile,
		"PEM file with the server's certificate; empty: one of the agent's own")
	fs.StringVar(&s.TLSPrivateKeyFile, "tls-private-key-file", s.TLSPrivateKeyFile,
		"PEM file with the key of --tls-cert-file")
	fs.StringSliceVar(&s.TLSCipherSuites, "tls-cipher-suites", s.TLSCipherSuites,
		"cipher suites of the server; empty: Go's")
	fs.StringVar(&s.TLSMinVersion, "tls-min-version", s.TLSMinVersion, "lowest TLS version of the server: VersionTLS12")
	fs.BoolVar(&s.Anonymous, flagAnonymous, s.Anonymous, "admit requests without credentials to the server")
	fs.BoolVar(&s.TokenReview, flagTokenReview, s.TokenReview, "let the API server review bearer tokens")
	fs.DurationVar(&s.ReviewTTL, flagReviewTTL, s.ReviewTTL, "how long an answer about a token is kept")
	fs.StringVar(&s.ClientCAFile, flagClientCA, s.ClientCAFile, "PEM file with the authorities of client certificates")
	fs.StringVar(&s.Authorization, flagAuthorization, s.Authorization, "Webhook or AlwaysAllow")
	fs.DurationVar(&s.AuthorizedTTL, flagAuthorizedTTL, s.AuthorizedTTL, "how long a permission is kept")
	fs.DurationVar(&s.UnauthorizedTTL, flagUnauthorizedTTL, s.UnauthorizedTTL, "how long a refusal is kept")
	fs.BoolVar(&s.ExecRequiresCreate, flagExecCreate, s.ExecRequiresCreate,
		"require create on nodes/proxy for exec, attach, port-forward and run, also by WebSocket; false: get, as a kubelet")
}

// applyAuthentication applies what the file sets and no flag.
func (s *Server) applyAuthentication(k *kubeletConfig, file string, given func(string) bool) {
	a := k.Authentication
	if a.Anonymous.Enabled != nil && !given(flagAnonymous) {
		s.Anonymous = *a.Anonymous.Enabled
	}
	if a.Webhook.Enabled != nil && !given(flagTokenReview) {
		s.TokenReview = *a.Webhook.Enabled
	}
	if a.Webhook.CacheTTL.Duration != 0 && !given(flagReviewTTL) {
		s.ReviewTTL = a.Webhook.CacheTTL.Duration
	}
	if a.X509.ClientCAFile != "" && !given(flagClientCA) {
		s.ClientCAFile = resolvePath(a.X509.ClientCAFile, file)
	}
}

// applyAuthorization applies what the file sets and no flag.
func (s *Server) applyAuthorization(k *kubeletConfig, given func(string) bool) {
	a := k.Authorization
	if a.Mode != "" && !given(flagAuthorization) {
		s.Authorization = string(a.Mode)
	}
	if a.Webhook.CacheAuthorizedTTL.Duration != 0 && !given(flagAuthorizedTTL) {
		s.AuthorizedTTL = a.Webhook.CacheAuthorizedTTL.Duration
	}
	if a.Webhook.CacheUnauthorizedTTL.Duration != 0 && !given(flagUnauthorizedTTL) {
		s.UnauthorizedTTL = a.Webhook.CacheUnauthorizedTTL.Duration
	}
}

// tlsVersions are the values of tlsMinVersion; older ones have become TLS 1.2 by then (raiseTLS).
var tlsVersions = map[string]uint16{
	"": tls.VersionTLS12, "VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13,
}

// raiseTLS replaces a lowest version before TLS 1.2, which the kubelet serves, and returns a problem for it: the node
// starts, and speaks no version that RFC 8996 forbids (ADR 094). from is where fields are set that no flag wins over.
func (c *Config) raiseTLS(from map[string]string, given func(string) bool) []Problem {
	const field, flag = "tlsMinVersion", "tls-min-version"
	s := &c.Server
	if !c.InCluster() || s.TLSMinVersion != "VersionTLS10" && s.TLSMinVersion != "VersionTLS11" {
		return nil
	}
	p := Problem{File: from[field], Field: field,
		Message: s.TLSMinVersion + " is not secure: the server speaks TLS 1.2 and newer; set VersionTLS12, or remove it"}
	if given(flag) {
		p.File = "--" + flag
	}
	s.TLSMinVersion = "VersionTLS12"
	return []Problem{p}
}

// TLSVersion returns the lowest version that the server speaks.
func (s *Server) TLSVersion() uint16 { return tlsVersions[s.TLSMinVersion] }

// CipherSuites returns the numbers of TLSCipherSuites; an error names a suite that does not exist.
func (s *Server) CipherSuites() ([]uint16, error) {
	var out []uint16
	for _, name := range s.TLSCipherSuites {
		all := slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites())
		i := slices.IndexFunc(all, func(c *tls.CipherSuite) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("tlsCipherSuites (--tls-cipher-suites): there is no %q", name)
		}
		out = append(out, all[i].ID)
	}
	return out, nil
}

func (s *Server) validate() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := netip.ParseAddr(s.Address); err != nil {
		bad("address (--address): %q is not an IP address", s.Address)
	}
	if s.Port < 1 || s.Port > maxPort {
		bad("port (--port): %d is not within 1 and %d", s.Port, maxPort)
	}
	if s.ReadOnlyPort < 0 || s.ReadOnlyPort > maxPort {
		bad("readOnlyPort (--read-only-port): %d is not within 0 and %d", s.ReadOnlyPort, maxPort)
	}
	if (s.TLSCertFile == "") != (s.TLSPrivateKeyFile == "") {
		bad("tlsCertFile (--tls-cert-file) and tlsPrivateKeyFile (--tls-private-key-file) belong together; set both or none")
	}
	if _, known := tlsVersions[s.TLSMinVersion]; !known {
		bad("tlsMinVersion (--tls-min-version): found %q, want VersionTLS12 or VersionTLS13", s.TLSMinVersion)
	}
	if _, err := s.CipherSuites(); err != nil {
		errs = append(errs, err)
	}
	if s.Authorization != AuthorizeByWebhook && s.Authorization != AuthorizeAll {
		bad("authorization.mode (--%s): found %q, want %s or %s", flagAuthorization, s.Authorization, AuthorizeByWebhook,
			AuthorizeAll)
	}
	for name, d := range map[string]time.Duration{
		flagReviewTTL: s.ReviewTTL, flagAuthorizedTTL: s.AuthorizedTTL, flagUnauthorizedTTL: s.UnauthorizedTTL,
	} {
		if d < 0 || d > 24*time.Hour {
			bad("--%s: %v is not within 0 and 24h", name, d)
		}
	}
	return errs
}
