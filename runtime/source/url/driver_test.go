package url

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

const patience = time.Minute

func pod(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n"+
		"spec:\n  containers:\n  - name: c\n    image: %s\n", name, image)
}

// world is a driver with a test server, and the source's actor that folds its facts.
type world struct {
	t *testing.T
	*Driver
	server *httptest.Server
	clock  *clock.Manual
	facts  chan *journaletv1.ManifestsRead
	log    *bytes.Buffer // the log; read it only between two steps

	mu       sync.Mutex
	handler  http.HandlerFunc
	requests []*http.Request
	stored   map[string]bool
	actor    *source.Actor
	failSink error
}

func newServer(t *testing.T) *world {
	w := &world{t: t, facts: make(chan *journaletv1.ManifestsRead, 100), stored: map[string]bool{}, log: new(bytes.Buffer),
		actor: source.New(messages.HTTPSource), clock: clock.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	w.server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		w.mu.Lock()
		handler := w.handler
		w.requests = append(w.requests, req)
		w.mu.Unlock()
		handler(out, req)
	}))
	t.Cleanup(w.server.Close)
	return w
}

// starts runs a driver with the server's URL until the test ends.
func (w *world) starts(path string, change func(*Options)) *world {
	w.t.Helper()
	opts := Options{
		URL: w.server.URL + path, Node: "n1", Clock: w.clock, Store: w.store, Sink: w.sink,
		Log: slog.New(slog.NewTextHandler(w.log, nil)),
	}
	if change != nil {
		change(&opts)
	}
	var err error
	if w.Driver, err = New(opts); err != nil {
		w.t.Fatal(err)
	}
	w.Seed(proto.CloneOf(w.actor.Source()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.t.Errorf("Run returned %v", err)
		}
	})
	w.rests()
	return w
}

func (w *world) gives(body string) {
	w.serves(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, body) })
}

func (w *world) serves(handler http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handler = handler
}

func (w *world) requestCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.requests)
}

func (w *world) last() *http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests[len(w.requests)-1]
}

// rests waits until the driver waits for the clock.
func (w *world) rests() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.clock.WaitPending(ctx, 1); err != nil {
		w.t.Fatalf("the driver does not wait for the clock: %v", err)
	}
}

// next lets one pause pass, and waits for the end of the next request.
func (w *world) next() {
	w.t.Helper()
	w.clock.Advance(DefaultEvery)
	w.rests()
}

func (w *world) store(_ context.Context, manifests iter.Seq2[string, []byte]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for digest := range manifests {
		w.stored[digest] = true
	}
	return nil
}

func (w *world) sink(_ context.Context, fact *journaletv1.ManifestsRead) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failSink != nil {
		return w.failSink
	}
	for _, f := range fact.GetChanged() {
		for _, p := range f.GetPods() {
			if !w.stored[p.GetDigest()] {
				w.t.Errorf("%s is named before it was stored", p.GetName())
			}
		}
	}
	e := actors.Event{Body: &journaletv1.Event{Kind: &journaletv1.Event_ManifestsRead{ManifestsRead: proto.CloneOf(fact)}}}
	if err := w.actor.Evolve(e); err != nil {
		w.t.Errorf("the source's actor failed on the fact: %v", err)
	}
	w.facts <- proto.CloneOf(fact)
	return nil
}

// fact returns the only fact since the last call.
func (w *world) fact() *journaletv1.ManifestsRead {
	w.t.Helper()
	if len(w.facts) != 1 {
		w.t.Fatalf("%d facts were emitted, want one", len(w.facts))
	}
	return <-w.facts
}

func (w *world) emitsNothing() {
	w.t.Helper()
	if len(w.facts) > 0 {
		w.t.Fatalf("emitted %v", <-w.facts)
	}
}

// desired returns the names of the source's desired pods.
func (w *world) wants(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := map[string]bool{}
	for _, p := range w.actor.Source().GetPods() {
		if p.GetDesired() {
			got[p.GetPod().GetName()] = true
		}
	}
	if len(got) != len(want) {
		w.t.Fatalf("desired %v, want %v", got, want)
	}
	for _, name := range want {
		if !got[name] {
			w.t.Fatalf("desired %v, want %v", got, want)
		}
	}
}

func TestFirstResponseIsSyncedAndChangesFollow(t *testing.T) {
	w := newServer(t)
	w.gives(pod("a", "x:1"))
	w.starts("/pods", nil)
	first := w.fact()
	if !first.GetSynced() || first.GetSource() != messages.HTTPSource ||
		first.GetChanged()[0].GetPath() != w.server.URL+"/pods" {
		t.Errorf("emitted %v", first)
	}
	w.wants("a-n1")
	w.next()
	w.emitsNothing()
	w.gives(`{"apiVersion": "v1", "kind": "PodList", "items": [
		{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}},
		{"metadata": {"name": "b"}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}]}`)
	w.next()
	w.fact()
	w.wants("a-n1", "b-n1")
	w.gives("apiVersion: v1\nkind: PodList\nitems: []\n")
	w.next()
	w.fact()
	w.wants()
}

func TestURLPodMatchesKubelet(t *testing.T) {
	w := newServer(t)
	w.gives(pod("a", "x:1"))
	var got *corev1.Pod
	w.starts("/pods", func(o *Options) { o.Prime = func(_ string, p *corev1.Pod) { got = p } })
	uid := string(got.UID)
	if got.Name != "a-n1" || got.Annotations[manifest.ConfigSourceAnnotation] != "http" ||
		got.Annotations[manifest.ConfigHashAnnotation] != uid {
		t.Errorf("metadata %v", got.ObjectMeta)
	}
	if len(got.Spec.Tolerations) != 0 {
		t.Errorf("tolerations %v, want none: only pods of files have them", got.Spec.Tolerations)
	}
	// The UID depends on content, node and URL.
	for shown, same := range map[string]bool{w.server.URL + "/pods": true, w.server.URL + "/other": false} {
		again, _ := manifest.Decode(shown, []byte(pod("a", "x:1")),
			manifest.Options{NodeName: "n1", Source: manifest.SourceHTTP})
		if (string(again[0].Pod.UID) == uid) != same {
			t.Errorf("the UID for %s is %s, here it is %s", shown, again[0].Pod.UID, uid)
		}
	}
}

func TestUnchangedResponseIsNotDecoded(t *testing.T) {
	w := newServer(t)
	bodies := 0
	w.serves(func(out http.ResponseWriter, req *http.Request) {
		out.Header().Set("ETag", `"one"`)
		if req.Header.Get("If-None-Match") == `"one"` {
			out.WriteHeader(http.StatusNotModified)
			return
		}
		bodies++
		fmt.Fprint(out, pod("a", "x:1"))
	})
	w.starts("/pods", nil)
	w.fact()
	for range 3 {
		w.next()
		w.emitsNothing()
	}
	if bodies != 1 || w.requestCount() != 4 {
		t.Errorf("%d bodies were sent for %d requests", bodies, w.requestCount())
	}
	// Without an ETag, the driver compares the content.
	w.gives("# another comment\n" + pod("a", "x:1"))
	w.next()
	w.emitsNothing()
	w.next()
	if w.last().Header.Get("If-None-Match") != "" {
		t.Error("the ETag of an older content was sent")
	}
	// Status 304 for a request without an ETag is an error.
	w.serves(func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusNotModified) })
	w.next()
	w.next()
	w.next()
	if p := w.fact().GetChanged()[0].GetProblems(); len(p) != 1 || p[0].GetCode() != codeStatus {
		t.Errorf("problems %v", p)
	}
	w.wants("a-n1")
}

func TestOutageKeepsPodsAndIsReportedOnce(t *testing.T) {
	w := newServer(t)
	w.gives(pod("a", "x:1"))
	w.starts("/pods", nil)
	w.fact()
	w.serves(func(out http.ResponseWriter, _ *http.Request) {
		out.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(out, pod("b", "x:1"))
	})
	w.next()
	w.next()
	w.emitsNothing() // so many failures are not reported
	w.next()
	fact := w.fact()
	if p := fact.GetChanged()[0].GetProblems(); fact.GetSynced() || len(p) != 1 || p[0].GetCode() != codeStatus ||
		!strings.Contains(p[0].GetMessage(), "502 Bad Gateway") {
		t.Errorf("emitted %v", fact)
	}
	for range 5 {
		w.next()
	}
	w.emitsNothing()
	w.wants("a-n1")
	if n := strings.Count(w.log.String(), "level=WARN msg=\"cannot read pods from the URL"); n != loudFailures {
		t.Errorf("it was logged %d times:\n%s", n, w.log)
	}
	if err := w.Healthy(); err != nil {
		t.Errorf("an outage must not make the agent unhealthy: %v", err)
	}
	w.gives(pod("a", "x:1"))
	w.next()
	if fact := w.fact(); len(fact.GetChanged()[0].GetProblems()) != 0 {
		t.Errorf("the end of the outage is reported as %v", fact)
	}
	w.wants("a-n1")
	if !strings.Contains(w.log.String(), "responds again") {
		t.Errorf("its end is not logged:\n%s", w.log)
	}
}

func TestRestartDuringOutageReportsNothing(t *testing.T) {
	w := newServer(t)
	w.gives(pod("a", "x:1"))
	w.starts("/pods", nil)
	w.fact()
	w.serves(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for range 3 {
		w.next()
	}
	w.fact()
	// Another run, from the state in the journal.
	again := newServer(t)
	again.actor = w.actor
	at := w.server.URL
	w.server.Close()
	again.starts("", func(o *Options) { o.URL = at + "/pods" })
	for range 5 {
		again.next()
	}
	again.emitsNothing()
	again.wants("a-n1")
}

func TestInvalidResponseRemovesNoPod(t *testing.T) {
	for what, c := range map[string]struct {
		handler http.HandlerFunc
		code    string
		valid   bool
	}{
		"no manifest": {func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, "{") }, string(manifest.CodeSyntax),
			false},
		"nothing": {func(http.ResponseWriter, *http.Request) {}, string(manifest.CodeEmpty), true},
		"too much": {func(out http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(out, pod("b", "x:1"))
			_, _ = out.Write(bytes.Repeat([]byte("#"), int(manifest.DefaultMaxBytes)))
		}, string(manifest.CodeTooLarge), false},
		"too much when unpacked": {func(out http.ResponseWriter, _ *http.Request) {
			out.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(out)
			_, _ = z.Write([]byte(pod("b", "x:1")))
			_, _ = z.Write(bytes.Repeat([]byte("#"), int(manifest.DefaultMaxBytes)))
			_ = z.Close()
		}, string(manifest.CodeTooLarge), false},
	} {
		t.Run(what, func(t *testing.T) {
			w := newServer(t)
			w.gives(pod("a", "x:1"))
			w.starts("/pods", nil)
			w.fact()
			w.serves(c.handler)
			w.next()
			fact := w.fact()
			if p := fact.GetChanged()[0].GetProblems(); len(p) == 0 || p[0].GetCode() != c.code {
				t.Errorf("emitted %v", fact)
			}
			w.wants("a-n1")
			w.next()
			w.emitsNothing()

			fresh := newServer(t)
			fresh.serves(c.handler)
			fresh.starts("/pods", nil)
			if fact := fresh.fact(); fact.GetSynced() != c.valid {
				t.Errorf("as the first response it is reported as %v", fact)
			}
		})
	}
}

func TestEndlessResponseTimesOut(t *testing.T) {
	w := newServer(t)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	w.serves(func(out http.ResponseWriter, req *http.Request) {
		fmt.Fprint(out, pod("a", "x:1"))
		out.(http.Flusher).Flush()
		select {
		case <-over:
		case <-req.Context().Done():
		}
	})
	w.starts("/pods", func(o *Options) { o.Timeout = 50 * time.Millisecond })
	w.next()
	w.next()
	fact := w.fact()
	if p := fact.GetChanged()[0].GetProblems(); p[0].GetCode() != codeUnreachable ||
		!strings.Contains(p[0].GetMessage(), "within 50ms") {
		t.Errorf("emitted %v", fact)
	}
	w.wants()
}

func TestFailedEmitIsRetried(t *testing.T) {
	w := newServer(t)
	w.gives(pod("a", "x:1"))
	w.failSink = errors.New("the journal is full")
	w.starts("/pods", nil)
	if err := w.Healthy(); err == nil || !strings.Contains(err.Error(), "the journal is full") {
		t.Errorf("a driver that cannot emit is healthy: %v", err)
	}
	w.mu.Lock()
	w.failSink = nil
	w.mu.Unlock()
	w.clock.Advance(retryMin)
	w.rests()
	w.fact()
	if err := w.Healthy(); err != nil || w.requestCount() != 1 {
		t.Errorf("%v after %d requests", err, w.requestCount())
	}
}

func TestAnotherURLTakesOverOnFirstResponse(t *testing.T) {
	w := newServer(t)
	w.gives(pod("a", "x:1"))
	w.starts("/pods", nil)
	w.fact()
	other := newServer(t)
	other.actor = w.actor
	other.serves(func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusNotFound) })
	other.starts("/pods", nil)
	other.next()
	other.wants("a-n1")
	other.gives(pod("b", "x:1"))
	other.next()
	other.wants("b-n1")
}

func TestChangedRuntimeClassDecodesResponseAgain(t *testing.T) {
	w := newServer(t)
	text := strings.Replace(pod("a", "x:1"), "spec:", "spec:\n  runtimeClassName: kata", 1)
	w.serves(func(out http.ResponseWriter, req *http.Request) {
		out.Header().Set("ETag", `"one"`)
		if req.Header.Get("If-None-Match") == `"one"` {
			out.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(out, text)
	})
	var mu sync.Mutex
	var known *manifest.Classes
	var last *corev1.Pod
	w.starts("/pods", func(o *Options) {
		o.Classes = func() *manifest.Classes {
			mu.Lock()
			defer mu.Unlock()
			return known
		}
		o.Prime = func(_ string, p *corev1.Pod) { last = p }
	})
	if p := w.fact().GetChanged()[0].GetProblems(); len(p) != 1 || p[0].GetCode() != string(manifest.CodeNotFound) {
		t.Errorf("without the class: problems %v", p)
	}
	w.wants()
	for _, handler := range []string{"one", "two"} {
		all, problems := manifest.DecodeRuntimeClasses("c", []byte(
			"apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: kata}\nhandler: "+handler))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		mu.Lock()
		known, _ = manifest.NewClasses(all)
		mu.Unlock()
		w.next()
		w.fact()
		w.wants("a-n1")
		if got := last.Annotations[manifest.RuntimeHandlerAnnotation]; got != handler {
			t.Errorf("handler %q, want %q", got, handler)
		}
		w.next()
		w.emitsNothing()
	}
}

func TestStalledDriverIsUnhealthy(t *testing.T) {
	w := newServer(t)
	release := make(chan struct{})
	w.gives(pod("a", "x:1"))
	d, err := New(Options{URL: w.server.URL, Node: "n1", Clock: w.clock, Store: w.store,
		Sink: func(ctx context.Context, _ *journaletv1.ManifestsRead) error {
			<-release
			return ctx.Err()
		}})
	if err != nil {
		t.Fatal(err)
	}
	if d.Healthy() == nil {
		t.Error("healthy before Run")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	must.Until(t, patience, "the URL is requested", func() bool { return w.requestCount() > 0 })
	w.clock.Advance(DefaultEvery + DefaultTimeout + stallAfter + time.Second)
	if d.Healthy() == nil {
		t.Error("a stuck driver is healthy")
	}
	cancel()
	close(release)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}
