package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/bundle"
	"github.com/journalet/journalet/runtime/history/why"
	"github.com/journalet/journalet/test/must"
)

// get sends a request that ends with the test.
func (a *testAgent) get(path string) *http.Response {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.url+path, nil)
	must.OK(a.t, err)
	res, err := http.DefaultClient.Do(req)
	must.OK(a.t, err)
	a.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func (a *testAgent) body(path string) []byte {
	a.t.Helper()
	res := a.get(path)
	b, err := io.ReadAll(res.Body)
	must.OK(a.t, err)
	if res.StatusCode != http.StatusOK {
		a.t.Fatalf("%s: %d, %s", path, res.StatusCode, b)
	}
	return b
}

func TestWhyIsAnswered(t *testing.T) {
	a := newAgent(t)
	var got why.Answer
	must.OK(t, json.Unmarshal(a.body("/journal/why?pod=shop/web"), &got))
	if got.Pod == nil || got.Pod.UID != "u-web" || got.Node != "n1" {
		t.Errorf("%+v", got)
	}
	got = why.Answer{}
	must.OK(t, json.Unmarshal(a.body("/journal/why?seq=2&all=true"), &got))
	if got.Seq != 2 || len(got.Chains) != 1 {
		t.Errorf("%+v", got)
	}
}

// lines decodes events.
func lines(t *testing.T, b []byte) (all []Event) {
	t.Helper()
	for line := range bytes.Lines(b) {
		var e Event
		must.OK(t, json.Unmarshal(line, &e))
		all = append(all, e)
	}
	return all
}

func TestEventsOfAPodAreLinesInWords(t *testing.T) {
	a := newAgent(t)
	got := lines(t, a.body("/journal/events?pod=shop/web"))
	if len(got) != 3 || got[2].Seq != 5 || got[2].Actor != "pod/web" || got[2].Text != "container main exited 3" ||
		!bytes.Contains(got[2].Data, []byte("u-web")) {
		t.Errorf("%+v", got)
	}
	if got = lines(t, a.body("/journal/events?from=4")); len(got) != 2 || got[0].Seq != 4 || got[0].CauseText == "" {
		t.Errorf("%+v", got)
	}
}

func TestEventsAreFollowed(t *testing.T) {
	a := newAgent(t)
	stream := bufio.NewScanner(a.get("/journal/events?pod=u-web&from=5&follow=true").Body)
	for code := range int32(3) {
		if !stream.Scan() {
			t.Fatal(stream.Err())
		}
		if got := lines(t, stream.Bytes())[0]; got.Seq != 5+3*uint64(code) {
			t.Fatalf("%+v", got)
		}
		a.add("u-other", "other") // two records, of a pod that is not followed
		a.exited(code)
	}
}

func TestExportIsABundleOfThePod(t *testing.T) {
	a := newAgent(t)
	file := filepath.Join(t.TempDir(), "web.journalet")
	must.OK(t, os.WriteFile(file, a.body("/journal/export?pod=shop/web"), 0o600))
	b, err := bundle.Open(file)
	must.OK(t, err)
	var seqs []uint64
	must.OK(t, b.Read(t.Context(), 1, 0, func(e history.Entry) error {
		seqs = append(seqs, e.Seq)
		return nil
	}))
	if pods := b.Header().GetPods(); len(pods) != 1 || pods[0].GetUid() != "u-web" || len(seqs) != 3 || seqs[2] != 5 {
		t.Errorf("pods %v, records %v: want web, 1, 2 and 5", pods, seqs)
	}
}

func TestErrorsAreAStatus(t *testing.T) {
	a := newAgent(t)
	for path, want := range map[string]struct {
		code   int
		reason metav1.StatusReason
		text   string
	}{
		"/journal/why?pod=none":              {404, metav1.StatusReasonNotFound, `pod "none" is not in the journal`},
		"/journal/why?seq=99":                {404, metav1.StatusReasonNotFound, "holds 1 to 5"},
		"/journal/why":                       {400, metav1.StatusReasonBadRequest, "neither a pod nor a record"},
		"/journal/why?seq=x":                 {400, metav1.StatusReasonBadRequest, `parameter seq is "x": want a number`},
		"/journal/why?pod=a&pod=b":           {400, metav1.StatusReasonBadRequest, "parameter pod is given 2 times"},
		"/journal/why?pod=a&al=true":         {400, metav1.StatusReasonBadRequest, `parameter "al" is unknown: want of all`},
		"/journal/why?pod=a&all=ja":          {400, metav1.StatusReasonBadRequest, `want true or false`},
		"/journal/events?event=boom":         {400, metav1.StatusReasonBadRequest, "want one of"},
		"/journal/events?since=-1h":          {400, metav1.StatusReasonBadRequest, "want a duration such as 10m"},
		"/journal/events?cause=99":           {404, metav1.StatusReasonNotFound, "99"},
		"/journal/export":                    {400, metav1.StatusReasonBadRequest, "no pod is given"},
		"/journal/export?pod=none":           {404, metav1.StatusReasonNotFound, "name no such pod"},
		"/journal/export?pod=web&redact=yes": {400, metav1.StatusReasonBadRequest, `"redact" is unknown`},
		"/journal/why?%25d=1":                {400, metav1.StatusReasonBadRequest, `parameter "%d" is unknown: want of all`},
		"/journal/why?%zz":                   {400, metav1.StatusReasonBadRequest, "invalid URL escape"},
	} {
		res := a.get(path)
		var got metav1.Status
		must.OK(t, json.NewDecoder(res.Body).Decode(&got))
		if res.StatusCode != want.code || got.Kind != "Status" || got.Reason != want.reason || int(got.Code) != want.code ||
			!strings.Contains(got.Message, want.text) {
			t.Errorf("%s: %d, %+v, want %+v", path, res.StatusCode, got, want)
		}
	}
}

// One request more than fit is refused with the time to come back, and served when another one has ended.
func TestRequestsAtOnceAreBounded(t *testing.T) {
	gate := make(chan struct{})
	served := httptest.NewServer(atOnce(1, "exports", func(w http.ResponseWriter, r *http.Request) error {
		if r.URL.Path == "/wait" {
			w.WriteHeader(http.StatusOK)
			must.OK(t, http.NewResponseController(w).Flush())
			<-gate
		}
		return nil
	}))
	defer served.Close()
	a := &testAgent{t: t, url: served.URL}
	first := a.get("/wait")
	res := a.get("/")
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "1" {
		t.Errorf("%d, %v", res.StatusCode, res.Header)
	}
	close(gate)
	_, err := io.ReadAll(first.Body)
	must.OK(t, err)
	for res = a.get("/"); res.StatusCode != http.StatusOK; res = a.get("/") { // the first one is about to end
		must.OK(t, t.Context().Err())
	}
}

// A response that fails in the middle is cut: the client must not take it for whole.
func TestResponseThatFailsIsCut(t *testing.T) {
	served := httptest.NewServer(atOnce(1, "exports", func(w http.ResponseWriter, _ *http.Request) error {
		_, _ = w.Write([]byte("half a bundle"))
		must.OK(t, http.NewResponseController(w).Flush())
		return history.ErrGone
	}))
	defer served.Close()
	res := (&testAgent{t: t, url: served.URL}).get("/")
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("it ends as if it were whole")
	}
}

// deadlines is a response writer that says by when it has to be written.
type deadlines struct {
	http.ResponseWriter
	at time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.at = t
	return nil
}

func TestClientThatDoesNotReadIsDropped(t *testing.T) {
	d := &deadlines{ResponseWriter: httptest.NewRecorder()}
	w := &writer{ResponseWriter: d, on: http.NewResponseController(d)}
	_, err := w.Write([]byte("x"))
	must.OK(t, err)
	if d.at.IsZero() {
		t.Error("no deadline")
	}
}

// An export takes the newest records of a journal that has more than it reads.
func TestExportTakesTheNewestRecords(t *testing.T) {
	m := &history.Memory{Name: "n1"}
	for seq := range uint64(3) {
		m.Records = append(m.Records, &journaletv1.Record{Seq: seq + 1})
	}
	if got := newest(m, 2); got != 2 {
		t.Errorf("begins with record %d, want 2", got)
	}
	if got := newest(m, 3); got != 0 {
		t.Errorf("begins with record %d, want the first", got)
	}
}
