package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// serve returns a client of a server with one handler.
func serve(t *testing.T, o Options, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	o.Config, o.NodeName = &rest.Config{Host: s.URL}, "n"
	if o.ContentType == "" {
		o.ContentType = "application/json"
	}
	c, err := New(o)
	must.OK(t, err)
	return c
}

func answer(t *testing.T, w http.ResponseWriter, code int, object any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	must.OK(t, json.NewEncoder(w).Encode(object))
}

func TestRequestsNameTheirObject(t *testing.T) {
	var got atomic.Value
	c := serve(t, Options{Main: Limits{QPS: 100, Burst: 100}}, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Method + " " + r.URL.String() + " " + r.Header.Get("Content-Type"))
		answer(t, w, http.StatusOK, map[string]any{
			"kind": "Node", "apiVersion": "v1", "metadata": map[string]any{"name": "x"},
		})
	})
	ctx := t.Context()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for _, test := range []struct {
		want string
		do   func() error
	}{
		{"GET /api/v1/nodes/n ", func() error { _, err := Get(ctx, c, Nodes, "", "n"); return err }},
		{"POST /api/v1/nodes application/json", func() error { _, err := Create(ctx, c, Nodes, "", node); return err }},
		{"PUT /api/v1/nodes/n/status application/json", func() error {
			_, err := Update(ctx, c, Nodes, "", "n", node, "status")
			return err
		}},
		{"PATCH /api/v1/namespaces/a/pods/p/status application/strategic-merge-patch+json", func() error {
			_, err := Patch(ctx, c, Pods, "a", "p", types.StrategicMergePatchType, []byte(`{}`), "status")
			return ignoreKind(err)
		}},
		{"DELETE /api/v1/namespaces/a/pods/p application/json", func() error {
			return Delete(ctx, c, Pods, "a", "p", metav1.DeleteOptions{})
		}},
		{"GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n ", func() error {
			_, err := Get[coordinationv1.Lease](ctx, c, Leases, "kube-node-lease", "n")
			return ignoreKind(err)
		}},
	} {
		must.OK(t, test.do())
		if got.Load() != test.want {
			t.Errorf("sent %q, want %q", got.Load(), test.want)
		}
	}
}

// ignoreKind leaves out that the server answers with a Node.
func ignoreKind(err error) error {
	if err != nil && strings.Contains(err.Error(), "Node") {
		return nil
	}
	return err
}

func TestStatusOfAnErrorIsReturned(t *testing.T) {
	c := serve(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		answer(t, w, http.StatusConflict, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonConflict, Code: http.StatusConflict,
		})
	})
	if _, err := Get(t.Context(), c, Nodes, "", "n"); !apierrors.IsConflict(err) {
		t.Errorf("returned %v, want a conflict", err)
	}
}

func TestListWatchSelects(t *testing.T) {
	var got atomic.Value
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.URL.String())
		answer(t, w, http.StatusOK, corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}})
	})
	lw, err := ListWatch(c, Pods, "", "spec.nodeName=n")
	must.OK(t, err)
	_, err = lw.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	must.OK(t, err)
	if want := "/api/v1/pods?fieldSelector=spec.nodeName%3Dn&resourceVersion=0"; got.Load() != want {
		t.Errorf("sent %q, want %q", got.Load(), want)
	}
}

func TestHeartbeatsAndEventsHaveLimitsOfTheirOwn(t *testing.T) {
	c := serve(t, Options{
		Main: Limits{QPS: 0.001, Burst: 1}, Events: Limits{QPS: 0.001, Burst: 1}, HeartbeatTimeout: time.Minute,
	}, func(w http.ResponseWriter, _ *http.Request) {
		answer(t, w, http.StatusOK, corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}})
	})
	get := func(c *Client, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := Get(ctx, c, Nodes, "", "n")
		return err
	}
	must.OK(t, get(c, time.Minute))
	// Its turn comes in a quarter of an hour, on a machine of any speed.
	if get(c, 20*time.Millisecond) == nil {
		t.Error("the second request was sent, want it held up by the limit")
	}
	must.OK(t, get(c.Events(), time.Minute))
	for range 5 {
		must.OK(t, get(c.Heartbeat(), time.Minute))
	}
}

func TestHeartbeatEndsAfterItsTimeout(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	c := serve(t, Options{HeartbeatTimeout: 20 * time.Millisecond}, func(http.ResponseWriter, *http.Request) { <-hang })
	if _, err := Get(t.Context(), c.Heartbeat(), Nodes, "", "n"); err == nil {
		t.Error("the heartbeat has an answer, want its timeout")
	}
}

func TestNewConnectionsUseTheNewestCertificate(t *testing.T) {
	names := make(chan string, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names <- r.TLS.PeerCertificates[0].Subject.CommonName
		answer(t, w, http.StatusOK, corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}})
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	var current atomic.Pointer[tls.Certificate]
	current.Store(certificate(t, "system:node:first", time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	c, err := New(Options{
		Config:      &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
		ContentType: "application/json", Certificate: current.Load,
	})
	must.OK(t, err)
	get := func() string {
		_, err := Get(t.Context(), c, Nodes, "", "n")
		must.OK(t, err)
		return <-names
	}
	if got := get(); got != "system:node:first" {
		t.Errorf("connected as %s, want the first certificate", got)
	}
	current.Store(certificate(t, "system:node:second", time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	c.CloseConnections()
	if got := get(); got != "system:node:second" {
		t.Errorf("connected as %s, want the second certificate", got)
	}
}

func TestContactReportsOnlyChanges(t *testing.T) {
	reports := make(chan *journaletv1.ApiServerContact, 10)
	now := time.Now()
	c := NewContact(func(_ context.Context, r *journaletv1.ApiServerContact) error {
		reports <- r
		return nil
	}, func() time.Time { return now })
	go func() { _ = c.Run(t.Context()) }()
	expect := func(reachable bool) {
		t.Helper()
		if r := <-reports; r.GetReachable() != reachable {
			t.Fatalf("reported %v, want reachable=%v", r, reachable)
		}
	}
	c.Answered()
	expect(true)
	fail := func(n int) {
		for range n {
			c.Failed(errors.New(`Get "https://user:secret@api:6443/x?token=secret": connection refused`))
		}
	}
	fail(10) // one connection ended, with many requests on it
	if !c.Reachable() {
		t.Error("not reachable after one moment, want more time")
	}
	c.Answered()
	now = now.Add(lostFor)
	fail(2)
	now = now.Add(lostFor)
	if !c.Reachable() {
		t.Error("not reachable after 2 failures, want 3")
	}
	fail(1)
	if c.Reachable() {
		t.Error("reachable after 3 failures")
	}
	r := <-reports
	if r.GetReachable() || strings.Contains(r.GetMessage(), "secret") || !strings.Contains(r.GetMessage(), "refused") {
		t.Errorf("reported %v, want the reason without credentials", r)
	}
	fail(20)
	c.Answered()
	expect(true)
	if len(reports) != 0 {
		t.Errorf("%d more reports, want none", len(reports))
	}
}

func TestContactReportsRefusalsAndClocksThatDiffer(t *testing.T) {
	var reports []string
	now := time.Now().Truncate(time.Second)
	c := NewContact(func(_ context.Context, r *journaletv1.ApiServerContact) error {
		reports = append(reports, fmt.Sprint(r.GetReachable(), " ", r.GetMessage()))
		return nil
	}, func() time.Time { return now })
	c.Explain(func() string { return "it is another node's" })
	began := now
	server := func() time.Time { return now }
	answers := func(method, path string, code int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "https://api/prefix"+path, nil)
		must.OK(t, err)
		c.Answered()
		c.judge(req, &http.Response{StatusCode: code, Header: http.Header{"Date": {server().UTC().Format(http.TimeFormat)}}})
		must.OK(t, c.Report(t.Context()))
	}
	const pods, node, lease = "/api/v1/pods", "/api/v1/nodes/n", "/apis/coordination.k8s.io/v1/namespaces/x/leases/n"
	pass := func(d time.Duration) { now = now.Add(d) }
	answers("GET", pods, 403)
	pass(refusedFor - time.Second)
	answers("GET", pods, 403)
	answers("GET", pods, 200) // an API server that has just started
	pass(refusedFor)
	for range 2 { // they say nothing of the node's credentials
		answers("PATCH", node+"/status", 403)
		answers("GET", "/api/v1/namespaces/a/secrets/s", 403)
		pass(refusedFor)
	}
	answers("GET", node, 403)
	if err := c.Refused(); err != nil {
		t.Errorf("refused: %v", err)
	}
	answers("PUT", lease, 401)
	pass(refusedFor)
	answers("GET", node, 403)
	answers("PUT", lease, 401)
	answers("GET", pods, 500)
	if err := c.Refused(); err == nil || !strings.Contains(err.Error(), "403 Forbidden: it is another node's") {
		t.Errorf("refused: %v", err)
	}
	answers("GET", node, 200)
	answers("PUT", lease, 409)
	server = func() time.Time { return now.Add(24 * time.Hour) }
	answers("GET", pods, 200)
	pass(time.Hour)
	answers("GET", pods, 200)
	server = func() time.Time { return now.Add(-clockOff) }
	answers("GET", pods, 200)
	server = func() time.Time { return now.Add(-3 * time.Minute) }
	answers("GET", pods, 200)
	want := []string{
		"true ", "true it refuses this node: 403 Forbidden: it is another node's", "true ",
		"true this machine's clock is 24h0m0s behind the API server's; set the clock that is wrong", "true ",
		"true this machine's clock is 3m0s ahead of the API server's; set the clock that is wrong",
	}
	if !slices.Equal(reports, want) {
		t.Errorf("reported after %v\n%s\nwant\n%s", now.Sub(began), strings.Join(reports, "\n"), strings.Join(want, "\n"))
	}
}

func TestCertificateThatHasExpiredByThisClockIsExplained(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	client := s.Client()
	client.Transport.(*http.Transport).TLSClientConfig.Time = func() time.Time { return time.Now().AddDate(100, 0, 0) }
	_, err := client.Get(s.URL)
	if got := fmt.Sprint(err); err == nil || !strings.Contains(Message(err), "; check this machine's clock") {
		t.Errorf("the message of %q is %q", got, Message(err))
	}
}

func TestRequestsAreMeasured(t *testing.T) {
	var got []string
	c := serve(t, Options{
		Main: Limits{QPS: 1000, Burst: 1000},
		Requested: func(method, host string, code int, took time.Duration, watch bool) {
			got = append(got, fmt.Sprint(method, " ", host != "", " ", code, " ", took > 0, " ", watch))
		},
		Limited: func(verb, host string, took time.Duration) {
			got = append(got, fmt.Sprint("limited ", verb, " ", host != "", " ", took >= 0))
		},
	}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			panic(http.ErrAbortHandler)
		}
		answer(t, w, http.StatusNotFound, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound})
	})
	ctx := t.Context()
	_, _ = Get(ctx, c, Nodes, "", "n")
	_, _ = Patch(ctx, c, Nodes, "", "n", types.StrategicMergePatchType, []byte(`{}`))
	_ = Delete(ctx, c, Pods, "a", "p", metav1.DeleteOptions{})
	_, _ = Get(ctx, c.Heartbeat(), Nodes, "", "n")
	watch, err := c.REST(corev1.SchemeGroupVersion).Get().Resource("nodes").Param("watch", "1").Watch(ctx)
	if err == nil {
		watch.Stop()
	}
	want := []string{
		"limited GET true true", "GET true 404 true false", "limited PATCH true true", "PATCH true 404 true false",
		"limited DELETE true true", "DELETE true 0 true false", "GET true 404 true false",
		"GET true 404 true true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("measured %q, want %q", got, want)
	}
}
