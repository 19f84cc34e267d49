package client

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/journalet/journalet/test/must"
)

// as answers with a body of a content type.
func as(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(body))
	}
}

func TestAnswersOfAnotherKindAreErrors(t *testing.T) {
	for what, body := range map[string]string{
		"another kind": `{"kind":"Service","apiVersion":"v1","metadata":{"name":"n"}}`,
		"a list":       `{"kind":"NodeList","apiVersion":"v1","items":[]}`,
		"a status":     `{"kind":"Status","apiVersion":"v1","status":"Success"}`,
		"an unknown":   `{"kind":"Gadget","apiVersion":"example.com/v1"}`,
		"no kind":      `{"metadata":{"name":"n"}}`, "no object": `[]`, "no JSON": `{"kind":`, "nothing": ``,
		"deep": `{"kind":"Node","apiVersion":"v1","metadata":` + strings.Repeat(`{"a":`, 1<<20),
	} {
		c := serve(t, Options{}, as("application/json", body))
		if n, err := Get(t.Context(), c, Nodes, "", "n"); err == nil {
			t.Errorf("%s: got %v", what, n)
		}
		lw, err := ListWatch(c, Nodes, "", "")
		must.OK(t, err)
		if l, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); err == nil && what != "a list" {
			t.Errorf("%s as a list: got %v", what, l)
		}
	}
	c := serve(t, Options{}, as("text/html", "<html>Welcome to the proxy</html>"))
	if _, err := Get(t.Context(), c, Nodes, "", "n"); err == nil || !strings.Contains(err.Error(), "text/html") {
		t.Errorf("HTML: %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	_, err := Get(t.Context(), c, Nodes, "", "n")
	if err == nil || !strings.Contains(err.Error(), "clusters[].cluster.server") || reached {
		t.Errorf("followed: %v, error %v", reached, err)
	}
}

// endless writes JSON that never ends.
func endless(w http.ResponseWriter, r *http.Request, begin, repeat string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(begin))
	for block := []byte(strings.Repeat(repeat, 1<<20/len(repeat))); r.Context().Err() == nil; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		endless(w, r, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"`, "x")
	})
	_, err := Get(t.Context(), c, Nodes, "", "n")
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxObjectBytes)) {
		t.Errorf("an endless object: %v", err)
	}
	lw, err := ListWatch(c, Nodes, "", "")
	must.OK(t, err)
	_, err = lw.ListWithContext(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxListBytes)) {
		t.Errorf("an endless list: %v", err)
	}
	of, err := ListWatch(c, Nodes, "", "metadata.name=n")
	must.OK(t, err)
	_, one := of.ListWithContext(t.Context(), metav1.ListOptions{})
	lw, err = ListWatch(c, RuntimeClasses, "", "")
	must.OK(t, err)
	_, few := lw.ListWithContext(t.Context(), metav1.ListOptions{})
	for _, err := range []error{one, few} {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxObjectBytes)) {
			t.Errorf("an endless list of one object, or of few: %v", err)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<30 {
		t.Errorf("the answers took %d MiB", took>>20)
	}
}

func TestAListEnds(t *testing.T) {
	items := strings.Repeat(`{},`, 20_000)
	for what, page := range map[string]string{
		"objects": items[:len(items)-1], "pages": "",
	} {
		requests := 0
		c := serve(t, Options{Main: Limits{QPS: -1}}, func(w http.ResponseWriter, r *http.Request) {
			requests++
			as("application/json", `{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":"more"},"items":[`+
				page+`]}`)(w, r)
		})
		lw, err := ListWatch(c, Nodes, "", "")
		must.OK(t, err)
		more := ""
		for err == nil {
			_, err = lw.ListWithContext(t.Context(), metav1.ListOptions{Continue: more})
			more = "more"
		}
		if !strings.Contains(err.Error(), "does not end") {
			t.Errorf("%s: after %d pages %v", what, requests, err)
		}
		// The next list begins at 0 again.
		if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: the next list: %v", what, err)
		}
	}
}

func TestEventsOfAWatchAreBounded(t *testing.T) {
	begin := `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"`
	event := begin + "n\"},\"status\":{\"phase\":\"" + strings.Repeat("x", maxObjectBytes/8) + "\"}}}\n"
	const whole = 20 // events that are no longer than they may be
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range whole {
			_, _ = w.Write([]byte(event))
		}
		endless(w, r, begin, "x")
	})
	lw, err := ListWatch(c, Nodes, "", "")
	must.OK(t, err)
	w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
	must.OK(t, err)
	defer w.Stop()
	n := 0
	for e := range w.ResultChan() {
		if e.Type != watch.Error {
			n++
			continue
		}
		if m := e.Object.(*metav1.Status).Message; n != whole || !strings.Contains(m, fmt.Sprint(maxObjectBytes)) {
			t.Errorf("after %d events: %s", n, m)
		}
		return
	}
	t.Errorf("ended after %d events", n)
}

func TestWhatAWatchListsEnds(t *testing.T) {
	event := `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}}` + "\n"
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) { endless(w, r, "", event) })
	lw, err := ListWatch(c, Nodes, "", "")
	must.OK(t, err)
	initial := true
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w, err := lw.WatchWithContext(ctx, metav1.ListOptions{SendInitialEvents: &initial})
	must.OK(t, err)
	defer w.Stop()
	n := 0
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			if n != maxListItems || !strings.Contains(e.Object.(*metav1.Status).Message, "does not end") {
				t.Errorf("after %d events: %v", n, e.Object)
			}
			return
		}
		n++
	}
	t.Errorf("ended after %d events", n)
}

func TestAWatchContinuesAfterItsList(t *testing.T) {
	lists := &lists[corev1.Node]{resource: Nodes}
	fake := watch.NewFakeWithChanSize(maxListItems+10, false)
	for range maxListItems {
		fake.Add(&corev1.Node{})
	}
	fake.Action(watch.Bookmark, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	fake.Modify(&corev1.Node{})
	w := lists.initial(fake, func() {})
	defer w.Stop()
	for range maxListItems + 2 {
		if e := <-w.ResultChan(); e.Type == watch.Error {
			t.Fatal(e.Object)
		}
	}
}
