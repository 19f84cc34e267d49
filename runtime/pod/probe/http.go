package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/httpget"
)

const (
	// userAgent is the kubelet's, in the version whose rules this driver follows.
	userAgent = "kube-probe/1.37"
	// maxHeaderBytes bounds a response's header.
	maxHeaderBytes = 1 << 20
)

// transport opens a connection for each request, so that a probe tests that as well. It uses no proxy.
var transport = &http.Transport{
	DialContext: dialer().DialContext, Proxy: nil, DisableKeepAlives: true, DisableCompression: true,
	ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeaderBytes,
	// As in the kubelet: certificates are rarely for the pod's address.
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // G402: see above
}

// httpGet sends an HTTP request. As in the kubelet, status 200 to 399 is success, a redirect to another host is not
// followed and counts as success with a warning, and a response whose body cannot be read has no result.
func httpGet(ctx context.Context, t target, g *corev1.HTTPGetAction, timeout time.Duration) outcome {
	port, err := t.port(g.Port)
	if err != nil {
		return outcome{failure, err.Error()} // the manifest has no such port, and never will
	}
	req, err := httpget.Request(ctx, g, t.host, port, userAgent)
	if err != nil {
		return outcome{unknown, err.Error()}
	}
	client := &http.Client{Timeout: timeout, Transport: transport, CheckRedirect: httpget.SameHost}
	resp, err := client.Do(req)
	if err != nil {
		return outcome{failure, err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := bounded.ReadAll(resp.Body, maxOutputBytes)
	if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
		return outcome{unknown, err.Error()}
	}
	switch code := resp.StatusCode; {
	case code < http.StatusOK || code >= http.StatusBadRequest:
		return outcome{failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", code)}
	case code >= http.StatusMultipleChoices:
		return outcome{warning, "Probe terminated redirects, Response body: " + string(body)}
	}
	return outcome{success, ""}
}
