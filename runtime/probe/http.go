package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// userAgent is the kubelet's, with the version of the API that is carried out.
	userAgent = "kube-probe/1.37"
	// maxRedirects is the kubelet's, and that of Go's HTTP client.
	maxRedirects = 10
	// maxHeaderBytes bounds an answer's header.
	maxHeaderBytes = 1 << 20
)

// transport makes a connection for each request, so that a probe tells whether one can be made, and asks no proxy.
var transport = &http.Transport{
	DialContext: dialer().DialContext, Proxy: nil, DisableKeepAlives: true, DisableCompression: true, ForceAttemptHTTP2: true,
	MaxResponseHeaderBytes: maxHeaderBytes,
	//nolint:gosec // A probe asks whether a server answers, and its certificate is rarely for the pod's address. The kubelet does not look at it either.
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
}

// httpGet asks a server. As in the kubelet: 200 to 399 is success; a redirect that leads to another host is not followed
// and is a success that is worth a warning; an answer whose body breaks off says nothing.
func httpGet(ctx context.Context, t target, g *corev1.HTTPGetAction, timeout time.Duration) outcome {
	req, err := request(ctx, t, g)
	if err != nil {
		return outcome{unknown, err.Error()}
	}
	client := &http.Client{Timeout: timeout, Transport: transport, CheckRedirect: sameHost}
	resp, err := client.Do(req)
	if err != nil {
		return outcome{failure, err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.CopyN(io.Discard, resp.Body, maxOutputBytes); err != nil && !errors.Is(err, io.EOF) {
		return outcome{unknown, err.Error()}
	}
	switch code := resp.StatusCode; {
	case code < http.StatusOK || code >= http.StatusBadRequest:
		return outcome{failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", code)}
	case code >= http.StatusMultipleChoices:
		return outcome{warning, "Probe terminated redirects"}
	}
	return outcome{success, ""}
}

// request is the request that a probe's manifest asks for.
func request(ctx context.Context, t target, g *corev1.HTTPGetAction) (*http.Request, error) {
	host := g.Host
	if host == "" {
		host = t.host
	}
	port, err := t.port(g.Port)
	if err != nil {
		return nil, err
	}
	where, err := url.Parse(g.Path)
	if err != nil {
		where = &url.URL{Path: g.Path} // as it stands, as the kubelet does
	}
	where.Scheme, where.Host = "http", net.JoinHostPort(host, strconv.Itoa(port))
	if g.Scheme != "" {
		where.Scheme = strings.ToLower(string(g.Scheme))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	for _, h := range g.HTTPHeaders {
		req.Header.Add(h.Name, h.Value)
	}
	if _, set := req.Header["User-Agent"]; !set {
		req.Header.Set("User-Agent", userAgent)
	}
	if accept, set := req.Header["Accept"]; !set {
		req.Header.Set("Accept", "*/*")
	} else if accept[0] == "" {
		req.Header.Del("Accept") // who gives it empty wants none
	}
	req.Host = req.Header.Get("Host")
	return req, nil
}

// sameHost follows redirects on one host only.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}
