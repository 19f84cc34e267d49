package secureport

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

const (
	// maxTokenBytes bounds a bearer token; tokens of service accounts have about 1 KiB.
	maxTokenBytes = 16 << 10
	// maxUserBytes bounds a user with groups and extra fields, as a certificate or the API server names it.
	maxUserBytes = 64 << 10
	// credentialID is the extra field that names a certificate in the API server's audit log.
	credentialID = "authentication.kubernetes.io/credential-id"
)

// Names that the API defines.
const (
	anonymous       = "system:anonymous"
	unauthenticated = "system:unauthenticated"
	authenticated   = "system:authenticated"
)

var (
	// errNoCredentials means that the request has none.
	errNoCredentials = errors.New("no credentials")
	// errRefused means that the API server does not know the token.
	errRefused = errors.New("the API server refuses the token")
	// errLongToken means that a token is not read.
	errLongToken = fmt.Errorf("the token has more than %d bytes", maxTokenBytes)
	// errTooMany means that more tokens are reviewed than the limit permits.
	errTooMany = errors.New("too many unknown tokens a second")
)

// User is an authenticated client.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
	// By is how the client was authenticated: certificate, token or anonymous. From is its address.
	By, From string
}

// ID returns the name.
func (u *User) ID() string { return "user " + u.Name }

// maxShownBytes bounds a name in records and messages.
const maxShownBytes = 256

// String describes the user: "kube-apiserver (certificate) from 10.0.0.1". The name has nothing that acts on a terminal
// or forges the form of the text.
func (u *User) String() string { return shown(u.Name) + " (" + u.By + ") from " + u.From }

// authenticate returns who sends a request: by its certificate, else by its token. Credentials that are refused make no
// client anonymous.
func (s *Server) authenticate(r *http.Request) (*User, error) {
	refused := error(nil)
	if s.opts.ClientCA != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		u, err := s.byCertificate(r.TLS.PeerCertificates)
		if err == nil {
			return u, nil
		}
		refused = err
	}
	for _, find := range []func(*http.Request) (string, error){bearer, protocolToken} {
		if s.opts.ReviewToken == nil {
			break
		}
		token, err := find(r)
		if err == nil && token == "" {
			continue
		}
		var u *User
		if err == nil {
			u, err = s.byToken(r, token)
		}
		if err == nil {
			return u, nil
		}
		refused = errors.Join(refused, err)
	}
	switch {
	case refused != nil:
		return nil, refused
	case s.opts.Anonymous:
		return &User{Name: anonymous, Groups: []string{unauthenticated}, By: "anonymous"}, nil
	}
	return nil, errNoCredentials
}

// byCertificate verifies a chain with the authorities of this moment.
func (s *Server) byCertificate(chain []*x509.Certificate) (*User, error) {
	roots, err := s.opts.ClientCA()
	if err != nil {
		return nil, err
	}
	o := x509.VerifyOptions{
		Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: s.opts.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	leaf := chain[0]
	if _, err := leaf.Verify(o); err != nil {
		return nil, err
	}
	if leaf.Subject.CommonName == "" {
		return nil, errors.New("the client's certificate names nobody (its CN is empty)")
	}
	sum := sha256.Sum256(leaf.Raw)
	u := &User{
		Name: leaf.Subject.CommonName, Groups: slices.Clone(leaf.Subject.Organization), By: "certificate",
		Extra: map[string][]string{credentialID: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	}
	return u.checked()
}

// bearer returns the bearer token of a request, "" if it has none.
func bearer(r *http.Request) (string, error) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", nil
	}
	return strings.TrimSpace(token), nil
}

const (
	protocolHeader = "Sec-Websocket-Protocol" // in the form of http.Header
	// tokenProtocol begins the subprotocol that is a token in base64url without padding: browsers set no other header.
	tokenProtocol = "base64url.bearer.authorization.k8s.io."
)

// protocolToken returns the bearer token that a WebSocket client sends as a subprotocol, "" if it sends none. Another
// subprotocol must be there for the response to name.
func protocolToken(r *http.Request) (string, error) {
	if !wsstream.IsWebSocketRequest(r) {
		return "", nil
	}
	tokens, others := protocols(r.Header)
	switch {
	case len(tokens) == 0:
		return "", nil
	case len(tokens) > 1:
		return "", errors.New("more than one token among the subprotocols")
	case base64.RawURLEncoding.DecodedLen(len(tokens[0])) > maxTokenBytes:
		return "", errLongToken
	}
	token, err := base64.RawURLEncoding.DecodeString(tokens[0])
	switch {
	case err != nil || !utf8.Valid(token):
		return "", errors.New("the token among the subprotocols is not UTF-8 in base64url without padding")
	case len(token) > 0 && len(others) == 0:
		return "", errors.New("no subprotocol besides the token")
	}
	return string(token), nil
}

// protocols returns the subprotocols of a header: the tokens, as they are encoded, and the others.
func protocols(h http.Header) (tokens, others []string) {
	for _, line := range h[protocolHeader] {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			if token, is := strings.CutPrefix(name, tokenProtocol); is {
				tokens = append(tokens, token)
			} else {
				others = append(others, name)
			}
		}
	}
	return tokens, others
}

// withoutCredentials takes tokens out of a header.
func withoutCredentials(h http.Header) {
	h.Del("Authorization")
	tokens, others := protocols(h)
	switch {
	case len(tokens) == 0:
	case len(others) == 0:
		h.Del(protocolHeader)
	default:
		h.Set(protocolHeader, strings.Join(others, ","))
	}
}

// byToken returns whom the API server knows by a token.
func (s *Server) byToken(r *http.Request, token string) (*User, error) {
	if len(token) > maxTokenBytes {
		return nil, errLongToken
	}
	from := addressOf(r.RemoteAddr)
	answer, err := s.tokens.get([]byte(token), func(known bool) (any, bool, error) {
		if !s.reviews.take(from, known) {
			return nil, false, errTooMany
		}
		// Others may wait for the same answer: it does not end with this client.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reviewTimeout)
		defer cancel()
		review, err := twice(ctx, s.opts.ReviewToken,
			&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}})
		if err != nil {
			return nil, false, err
		}
		if !review.Status.Authenticated || review.Status.User.Username == "" {
			return (*User)(nil), false, nil
		}
		u, err := userOf(&review.Status.User).checked()
		return u, true, err
	})
	if err != nil {
		return nil, err
	}
	known := answer.(*User)
	if known == nil {
		return nil, errRefused
	}
	u := *known
	return &u, nil
}

func userOf(i *authenticationv1.UserInfo) *User {
	u := &User{Name: i.Username, UID: i.UID, Groups: slices.Clone(i.Groups), By: "token"}
	for k, v := range i.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[k] = v
	}
	return u
}

// checked returns u with the group of everybody who is authenticated. A user beyond the bound is an error.
func (u *User) checked() (*User, error) {
	size := len(u.Name) + len(u.UID)
	for _, g := range u.Groups {
		size += len(g)
	}
	for k, values := range u.Extra {
		size += len(k)
		for _, v := range values {
			size += len(v)
		}
	}
	if size > maxUserBytes {
		return nil, fmt.Errorf("a user of %d bytes; at most %d are handled", size, maxUserBytes)
	}
	if u.Name != anonymous && !slices.Contains(u.Groups, unauthenticated) && !slices.Contains(u.Groups, authenticated) {
		u.Groups = append(u.Groups, authenticated)
	}
	return u, nil
}
