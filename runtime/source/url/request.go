package url

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/source/manifest"
)

const (
	// maxRedirects bounds the redirects of one request.
	maxRedirects = 5
	// maxHeaderBytes bounds the header of a response.
	maxHeaderBytes = 64 << 10
	// maxETagBytes bounds the ETag that is kept; a longer one is ignored.
	maxETagBytes = 1 << 10
	userAgent    = "journalet"
)

// Codes of the problems of this driver, in addition to the codes of packages manifest and feed.
const (
	codeUnreachable = "unreachable" // no response
	codeStatus      = "status"      // a response with a status other than 200
)

var (
	errTooManyRedirects = errors.New("too many redirects")
	errDowngrade        = errors.New("a redirect from https to http is not followed")
)

// statusError is a response with a status other than 200.
type statusError struct{ code int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the server responded with %d %s", e.code, http.StatusText(e.code))
}

// response is a response of the URL.
type response struct {
	// unchanged means that the content has the last ETag. body is empty then.
	unchanged bool
	body      []byte
	etag      string
}

func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = maxHeaderBytes
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 1, 1
	return t
}

// redirect decides whether to follow a redirect. Another host gets neither the headers nor the user.
func redirect(req *http.Request, via []*http.Request) error {
	switch first := via[0]; {
	case len(via) > maxRedirects:
		return errTooManyRedirects
	case req.URL.Scheme == "http" && via[len(via)-1].URL.Scheme == "https":
		return errDowngrade
	case !sameHost(first.URL, req.URL):
		req.Header = http.Header{"User-Agent": {userAgent}}
		req.URL.User = nil
	}
	return nil
}

// sameHost reports whether b has the host and port of a, or is its host by https.
func sameHost(a, b *url.URL) bool {
	upgrade := a.Scheme == "http" && b.Scheme == "https"
	return a.Hostname() == b.Hostname() && (a.Scheme == b.Scheme && a.Port() == b.Port() || upgrade)
}

// fetch sends one request. No error quotes the URL, a header or the response.
func (d *Driver) fetch(ctx context.Context) (response, error) {
	ctx, cancel := clock.WithTimeout(ctx, d.clock, d.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.opts.URL, http.NoBody)
	if err != nil {
		return response{}, errors.New("the URL cannot be requested")
	}
	req.Header = d.opts.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", userAgent)
	}
	if d.etag != "" {
		req.Header.Set("If-None-Match", d.etag)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return response{}, d.cause(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified && d.etag != "" {
		return response{unchanged: true}, nil
	}
	if resp.StatusCode != http.StatusOK {
		return response{}, &statusError{resp.StatusCode}
	}
	// The decoder refuses one byte more than the limit.
	body, err := bounded.ReadAll(resp.Body, manifest.DefaultMaxBytes+1)
	if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
		return response{}, d.cause(err)
	}
	etag := resp.Header.Get("ETag")
	if len(etag) > maxETagBytes {
		etag = ""
	}
	return response{body: body, etag: etag}, nil
}

// cause returns why there was no response, without the text of the libraries, which quotes URLs and headers.
func (d *Driver) cause(err error) error {
	var (
		dns      *net.DNSError
		op       *net.OpError
		number   syscall.Errno
		unknown  x509.UnknownAuthorityError
		host     x509.HostnameError
		expired  x509.CertificateInvalidError
		verify   *tls.CertificateVerificationError
		timedOut interface{ Timeout() bool }
	)
	switch {
	case errors.Is(err, errTooManyRedirects):
		return fmt.Errorf("the server redirects more than %d times", maxRedirects)
	case errors.Is(err, errDowngrade):
		return errDowngrade
	case errors.As(err, &timedOut) && timedOut.Timeout():
		return fmt.Errorf("no complete response within %s", d.opts.Timeout)
	case errors.As(err, &dns):
		return errors.New("the host is not found")
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &expired), errors.As(err, &verify):
		return errors.New("the server's certificate is not accepted; " +
			"check its names, its dates and the authorities that this node trusts")
	case errors.As(err, &number):
		return fmt.Errorf("no response: %w", number)
	case errors.As(err, &op):
		return fmt.Errorf("no response: %s failed", op.Op)
	}
	return errors.New("no complete HTTP response")
}
