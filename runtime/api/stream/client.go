package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/runtime/api/local"
	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// SocketName is the socket's name in the root directory of an agent.
	SocketName = local.SocketFile
	// podsTimeout bounds GET /pods.
	podsTimeout = 30 * time.Second
	// maxHeaderBytes bounds the headers of a response, in bytes. The agent's have some 300.
	maxHeaderBytes = 64 << 10
	// maxErrorBytes bounds the text of a failed response, in bytes.
	maxErrorBytes = 4 << 10
	// maxPodsBytes bounds the list of pods, in bytes. A pod has some 10 KB, at most 1.5 MB.
	maxPodsBytes = 256 << 20
	// host is the host of URLs, where HTTP wants one: the socket decides whom requests reach.
	host = "kubelet"
)

// ErrNoAgent is the error of a socket that no agent listens on.
var ErrNoAgent = errors.New("no agent listens on the socket")

// StatusError is the error of a request that the agent refused.
type StatusError struct {
	Code int // of HTTP
	Text string
}

func (e *StatusError) Error() string { return e.Text }

// Client sends requests to the agent that listens on a socket. Several goroutines may use it.
type Client struct {
	local          *local.Client
	http           *http.Client
	upgradeTimeout time.Duration
}

// New returns a client of a socket. It connects with the first request.
func New(socket string) *Client {
	c := &Client{local: local.Dial(socket), upgradeTimeout: upgradeTimeout}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
			MaxResponseHeaderBytes: maxHeaderBytes,
			DisableCompression:     true, // on one machine
			MaxIdleConns:           1,
		},
		CheckRedirect: stay,
	}
	return c
}

// stay has a client return a redirection as it is: the agent redirects nobody.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// dial connects to the socket.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	conn, err := c.local.DialContext(ctx, "", "")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, &noAgent{err}
	}
	return conn, err
}

// noAgent is ErrNoAgent with the words of the dialer.
type noAgent struct{ error }

func (e *noAgent) Is(target error) bool { return target == ErrNoAgent }
func (e *noAgent) Unwrap() error        { return e.error }

// Path returns the path of a request, with each part escaped: no part can add another one.
func Path(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = url.PathEscape(part)
	}
	return "/" + strings.Join(escaped, "/")
}

// target returns the URL of a request.
func target(pathname string, query url.Values) *url.URL {
	plain, err := url.PathUnescape(pathname)
	if err != nil {
		plain = pathname
	}
	return &url.URL{Scheme: "http", Host: host, Path: plain, RawPath: pathname, RawQuery: query.Encode()}
}

// Get sends a GET request for a path of Path. The caller closes the body. A response other than 200 is a StatusError.
func (c *Client) Get(ctx context.Context, pathname string, query url.Values) (*http.Response, error) {
	return c.do(ctx, http.MethodGet, pathname, query)
}

// Post is Get with the method POST and no body.
func (c *Client) Post(ctx context.Context, pathname string, query url.Values) (*http.Response, error) {
	return c.do(ctx, http.MethodPost, pathname, query)
}

func (c *Client) do(ctx context.Context, method, pathname string, query url.Values) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, target(pathname, query).String(), nil)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", pathname, err)
	}
	r, err := c.http.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	if r.StatusCode == http.StatusOK {
		return r, nil
	}
	defer r.Body.Close()
	return nil, refused(r)
}

// withoutURL returns the cause of an error of net/http, which begins with the whole URL.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// refused returns the error of a response other than 200.
func refused(r *http.Response) error {
	text, _ := bounded.ReadAll(r.Body, maxErrorBytes) // what arrived is as much as can be shown
	var status metav1.Status
	message := strings.TrimSpace(string(text))
	if bounded.JSON(text, maxErrorBytes, &status) == nil && status.Message != "" {
		message = status.Message
	}
	return &StatusError{r.StatusCode, cmp.Or(message, "the agent responded with "+r.Status)}
}

// Pods returns the pods of the node.
func (c *Client) Pods(ctx context.Context) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	r, err := c.Get(ctx, Path("pods"), nil)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	data, err := bounded.ReadAll(r.Body, maxPodsBytes)
	if err != nil {
		return nil, fmt.Errorf("read the pods: %w", err)
	}
	var list corev1.PodList
	if err := bounded.JSON(data, maxPodsBytes, &list); err != nil {
		return nil, fmt.Errorf("read the pods: the response is no list of pods: %w", err)
	}
	return list.Items, nil
}

// PodPath returns the path of a request about a container of one incarnation of a pod or, without a container, about
// the pod: /VERB/NAMESPACE/POD/UID[/CONTAINER].
func PodPath(verb string, pod *corev1.Pod, container string) (string, error) {
	parts := []string{verb, pod.Namespace, pod.Name, string(pod.UID)}
	if container != "" {
		parts = append(parts, container)
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." || strings.Contains(part, "/") {
			return "", fmt.Errorf("%q is no name of a pod or container", part)
		}
	}
	return Path(parts...), nil
}
