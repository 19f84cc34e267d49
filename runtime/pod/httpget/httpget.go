package httpget

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxRedirects is the limit of the kubelet and of Go's HTTP client.
const maxRedirects = 10

// Request returns the request of an action, to its host or else to podIP, at a resolved port. It has userAgent and
// Accept */* unless the action has headers of these names; an empty Accept sends none. A path that is not a valid URL
// is sent unchanged, as by the kubelet.
func Request(
	ctx context.Context, action *corev1.HTTPGetAction, podIP string, port int, userAgent string,
) (*http.Request, error) {
	host := cmp.Or(action.Host, podIP)
	at, err := url.Parse(action.Path)
	if err != nil {
		at = &url.URL{Path: action.Path}
	}
	at.Scheme, at.Host = "http", net.JoinHostPort(host, strconv.Itoa(port))
	if action.Scheme != "" {
		at.Scheme = strings.ToLower(string(action.Scheme))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	for _, header := range action.HTTPHeaders {
		req.Header.Add(header.Name, header.Value)
	}
	if _, given := req.Header["User-Agent"]; !given {
		req.Header.Set("User-Agent", userAgent)
	}
	if _, given := req.Header["Accept"]; !given {
		req.Header.Set("Accept", "*/*")
	} else if req.Header.Get("Accept") == "" {
		req.Header.Del("Accept")
	}
	req.Host = req.Header.Get("Host")
	return req, nil
}

// SameHost is a CheckRedirect that follows at most ten redirects, on one host only. A redirect to another host is the
// response.
func SameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}
