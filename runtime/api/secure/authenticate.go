package secure

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
)

const (
	// maxTokenBytes bounds a bearer token; those of service accounts have about 1 KiB.
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
	if token, ok := bearer(r); ok && s.opts.ReviewToken != nil {
		u, err := s.byToken(r.Context(), token)
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

// bearer returns the bearer token of a request.
func bearer(r *http.Request) (string, bool) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "bearer") && token != ""
}

// byToken returns whom the API server knows by a token.
func (s *Server) byToken(ctx context.Context, token string) (*User, error) {
	if len(token) > maxTokenBytes {
		return nil, fmt.Errorf("a token of %d bytes; at most %d are read", len(token), maxTokenBytes)
	}
	answer, err := s.tokens.get([]byte(token), func() (any, bool, error) {
		if !s.unknown.Allow() {
			return nil, false, errTooMany
		}
		// Others may wait for the same answer: it does not end with this client.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
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
