package probe

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
)

// targetAt returns a container that listens at an address with a port named "web", and the port.
func targetAt(t *testing.T, addr string) (target, int) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	must.OK(t, err)
	n, _ := strconv.Atoi(port)
	ports := []corev1.ContainerPort{{Name: "web", ContainerPort: int32(n)}}
	return target{container: &corev1.Container{Ports: ports}, host: host}, n
}

func serve(t *testing.T, h http.HandlerFunc) (target, string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, _ := url.Parse(s.URL)
	to, _ := targetAt(t, u.Host)
	return to, u.Host
}

var web = intstr.FromString("web")

func TestHTTPGetResults(t *testing.T) {
	to, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch code, err := strconv.Atoi(strings.Trim(r.URL.Path, "/")); {
		case r.URL.Path == "/here":
			http.Redirect(w, r, "/200", http.StatusFound)
		case r.URL.Path == "/there":
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
		case r.URL.Path == "/around":
			http.Redirect(w, r, "/around", http.StatusFound)
		case r.URL.Path == "/large":
			for range 1000 {
				_, _ = w.Write(make([]byte, maxOutputBytes))
			}
		case r.URL.Path == "/large/there":
			w.Header().Set("Location", "http://elsewhere.invalid/")
			w.WriteHeader(http.StatusFound)
			_, _ = w.Write(bytes.Repeat([]byte("x"), 2*maxOutputBytes))
		case r.URL.Path == "/breaks":
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("half"))
		case r.URL.Path == "/hangs":
			<-r.Context().Done()
		case err == nil:
			w.WriteHeader(code)
		}
	})
	const redirected = "Probe terminated redirects, Response body: "
	for path, want := range map[string]outcome{
		"/200": {success, ""}, "/204": {success, ""}, "/399": {warning, redirected},
		"/400":  {failure, "HTTP probe failed with statuscode: 400"},
		"/500":  {failure, "HTTP probe failed with statuscode: 500"},
		"/here": {success, ""}, "/200?q=1": {success, ""},
		"/there":       {warning, redirected + "<a href=\"http://elsewhere.invalid/\">Found</a>.\n\n"},
		"/large/there": {warning, redirected + strings.Repeat("x", maxOutputBytes)},
		"/around":      {failure, fmt.Sprintf("Get %q: stopped after 10 redirects", "/around")},
		"/large":       {success, ""}, "/breaks": {unknown, "unexpected EOF"},
		"/hangs": {failure, fmt.Sprintf("Get %q: context deadline exceeded "+
			"(Client.Timeout exceeded while awaiting headers)", "http://"+host+"/hangs")},
	} {
		timeout := time.Minute
		if path == "/hangs" {
			timeout = 50 * time.Millisecond
		}
		if got := httpGet(context.Background(), to, &corev1.HTTPGetAction{Path: path, Port: web}, timeout); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

func TestHTTPGetSendsKubeletRequest(t *testing.T) {
	var got *http.Request
	to, host := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	get := func(headers ...corev1.HTTPHeader) *http.Request {
		action := &corev1.HTTPGetAction{Path: "/a?b=c", Port: web, HTTPHeaders: headers}
		if out := httpGet(context.Background(), to, action, time.Minute); out.result != success {
			t.Fatal(out)
		}
		return got
	}
	r := get()
	same(t, "plain", []any{r.Host, r.URL.String(), r.Header, r.Close},
		[]any{host, "/a?b=c", http.Header{"User-Agent": {userAgent}, "Accept": {"*/*"}, "Connection": {"close"}}, true})
	r = get(corev1.HTTPHeader{Name: "host", Value: "example.com"}, corev1.HTTPHeader{Name: "user-agent", Value: "me"},
		corev1.HTTPHeader{Name: "Accept", Value: ""}, corev1.HTTPHeader{Name: "X", Value: "1"},
		corev1.HTTPHeader{Name: "X", Value: "2"})
	same(t, "with headers", []any{r.Host, r.UserAgent(), r.Header["Accept"], r.Header["X"]},
		[]any{"example.com", "me", []string(nil), []string{"1", "2"}})
}

func TestHTTPSGetIgnoresCertificate(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	to, _ := targetAt(t, s.Listener.Addr().String())
	action := &corev1.HTTPGetAction{Path: "/", Port: web, Scheme: corev1.URISchemeHTTPS}
	if out := httpGet(context.Background(), to, action, time.Minute); out.result != success {
		t.Error(out)
	}
	// The action's host has precedence over the pod's address.
	action.Host, to.host = to.host, "192.0.2.1"
	if out := httpGet(context.Background(), to, action, time.Minute); out.result != success {
		t.Error(out)
	}
}

func TestProbePort(t *testing.T) {
	to, _ := targetAt(t, "127.0.0.1:80")
	for p, want := range map[intstr.IntOrString]string{
		web: "", intstr.FromInt32(8080): "", intstr.FromString("other"): `port "other" not found`,
		intstr.FromInt32(0): "invalid port number: 0", intstr.FromInt32(70000): "invalid port number: 70000",
	} {
		_, err := to.port(p)
		if got := fmt.Sprint(err); !strings.HasPrefix(got, want) || (err == nil) != (want == "") {
			t.Errorf("port %s: %v, want %q", p.String(), err, want)
		}
	}
	other := intstr.FromString("other")
	if out := httpGet(context.Background(), to, &corev1.HTTPGetAction{Port: other}, time.Second); out.result != failure {
		t.Error(out)
	}
	if out := tcpSocket(context.Background(), to, &corev1.TCPSocketAction{Port: other},
		time.Second); out.result != failure {
		t.Error(out)
	}
}

func TestTCPSocketNeedsConnectionOnly(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	to, port := targetAt(t, l.Addr().String())
	probe := &corev1.TCPSocketAction{Port: web}
	if out := tcpSocket(context.Background(), to, probe, time.Minute); out != (outcome{success, ""}) {
		t.Error(out)
	}
	_ = l.Close()
	want := outcome{failure, fmt.Sprintf("dial tcp 127.0.0.1:%d: connect: connection refused", port)}
	if out := tcpSocket(context.Background(), to, probe, time.Minute); out != want {
		t.Errorf("%v, want %v", out, want)
	}
}

func TestGRPCCheckCallsHealthService(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	states := health.NewServer()
	states.SetServingStatus("good", healthv1.HealthCheckResponse_SERVING)
	states.SetServingStatus("bad", healthv1.HealthCheckResponse_NOT_SERVING)
	s := grpc.NewServer()
	healthv1.RegisterHealthServer(s, states)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	bare := grpc.NewServer()
	l2, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	go func() { _ = bare.Serve(l2) }()
	t.Cleanup(bare.Stop)
	to, port := targetAt(t, l.Addr().String())
	_, barePort := targetAt(t, l2.Addr().String())
	good, bad, none := "good", "bad", "none"
	for _, c := range []struct {
		action  corev1.GRPCAction
		timeout time.Duration
		want    result
		text    string
	}{
		{corev1.GRPCAction{Port: int32(port)}, time.Minute, success, ""},
		{corev1.GRPCAction{Port: int32(port), Service: &good}, time.Minute, success, ""},
		{corev1.GRPCAction{Port: int32(port), Service: &bad}, time.Minute, failure,
			`service unhealthy (responded with "NOT_SERVING")`},
		{corev1.GRPCAction{Port: int32(port), Service: &none}, time.Minute, failure,
			"error: health rpc probe failed: rpc error: code = NotFound"},
		{corev1.GRPCAction{Port: int32(barePort)}, time.Minute, failure,
			"error: this server does not implement the grpc health protocol"},
		{corev1.GRPCAction{Port: 1}, 100 * time.Millisecond, failure,
			`timeout: failed to connect service "127.0.0.1:1" within 100ms`},
	} {
		if out := grpcCheck(context.Background(), to, &c.action, c.timeout); out.result != c.want ||
			!strings.HasPrefix(out.text, c.text) {
			t.Errorf("%v: %v", &c.action, out)
		}
	}
}

func TestExecExpandsCommandAndHidesItOnTimeout(t *testing.T) {
	w := newWorld()
	var sent []string
	d := New(Options{Conn: connFunc(func(ctx context.Context, req *runtimeapi.ExecSyncRequest) error {
		sent = req.GetCmd()
		<-ctx.Done()
		return ctx.Err()
	}), Manifest: w.manifest, Sink: w.sink})
	c := &corev1.Container{Env: []corev1.EnvVar{{Name: "TOKEN", Value: "hunter2"}}}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	out := d.exec(ctx, "id", c, []string{"check", "$(TOKEN)", "$(OTHER)", "$$(TOKEN)"}, time.Second)
	same(t, "sent", sent, []string{"check", "hunter2", "$(OTHER)", "$(TOKEN)"})
	if out != (outcome{failure, "command timed out after 1s"}) {
		t.Error(out)
	}
}

// connFunc is a runtime that only runs commands.
type connFunc func(context.Context, *runtimeapi.ExecSyncRequest) error

func (f connFunc) Invoke(ctx context.Context, _ string, args, _ any, _ ...grpc.CallOption) error {
	if err := f(ctx, args.(*runtimeapi.ExecSyncRequest)); err != nil {
		return statusOf(err)
	}
	return nil
}

func (f connFunc) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	panic("no streams")
}
