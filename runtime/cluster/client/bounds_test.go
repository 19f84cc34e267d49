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
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxHeadBytes)) {
		t.Errorf("an endless list: %v", err)
	}
	begun := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		endless(w, r, `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"`, "x")
	})
	lw, err = ListWatch(begun, Nodes, "", "")
	must.OK(t, err)
	_, err = lw.ListWithContext(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxPassedOver)) {
		t.Errorf("an endless item: %v", err)
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
		l := newLists(c.shared.leftOut, Nodes, false)
		l.maxRead = 100_000
		more := ""
		var err error
		for err == nil {
			_, err = l.page(t.Context(), at(c.REST(Nodes.GroupVersion).Get(), Nodes, ""), more)
			more = "more"
		}
		if !strings.Contains(err.Error(), "does not end") {
			t.Errorf("%s: after %d pages %v", what, requests, err)
		}
		// The next list begins at 0 again.
		if _, err := l.page(t.Context(), at(c.REST(Nodes.GroupVersion).Get(), Nodes, ""), ""); err != nil {
			t.Errorf("%s: the next list: %v", what, err)
		}
	}
}

func TestAWatchWithoutAnEndToItsEventFails(t *testing.T) {
	begin := `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"`
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) { endless(w, r, begin, "x") })
	lw, err := ListWatch(c, Nodes, "", "")
	must.OK(t, err)
	w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
	must.OK(t, err)
	defer w.Stop()
	e := <-w.ResultChan()
	if e.Type != watch.Error || !strings.Contains(e.Object.(*metav1.Status).Message, fmt.Sprint(maxPassedOver)) {
		t.Errorf("got %v", e)
	}
}

func TestWhatAWatchListsEnds(t *testing.T) {
	event := `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}}` + "\n"
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) { endless(w, r, "", event) })
	l := newLists(c.shared.leftOut, Nodes, false)
	l.maxRead = maxListItems + 50_000
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w, err := l.watch(ctx, at(c.REST(Nodes.GroupVersion).Get(), Nodes, ""), true, cancel)
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
