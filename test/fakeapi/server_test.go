package fakeapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/must"
)

const (
	podsPath = "/api/v1/namespaces/default/pods/"
	onNode   = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&allowWatchBookmarks=true&watch=1"
)

func testPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// request sends one request and decodes its answer.
func request(t *testing.T, method, url, contentType, body string) (int, object) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must.OK(t, err)
	r.Header.Set("Content-Type", contentType)
	answer, err := http.DefaultClient.Do(r)
	must.OK(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must.OK(t, err)
	o, err := decodeJSON(text)
	must.OK(t, err)
	return answer.StatusCode, o
}

// watching opens a watch and returns what reads its next frame; it returns false at the end of the watch.
func watching(t *testing.T, url string) func() (frame, bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must.OK(t, err)
	answer, err := http.DefaultClient.Do(r)
	must.OK(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return func() (frame, bool) {
		if !lines.Scan() {
			return frame{}, false
		}
		var f frame
		must.OK(t, json.Unmarshal(lines.Bytes(), &f))
		return f, true
	}
}

func expect(t *testing.T, next func() (frame, bool), kind, name string) frame {
	t.Helper()
	f, ok := next()
	if !ok || f.Type != kind || f.Object.text("metadata", "name") != name {
		t.Fatalf("got %s %v, want %s %s", f.Type, f.Object["metadata"], kind, name)
	}
	return f
}

func TestWatchBeginsWithWhatIsThereAndFollows(t *testing.T) {
	s := New()
	url := s.Start(t)
	s.Create("pods", testPod("a", "n1"))
	s.Create("pods", testPod("b", ""))
	next := watching(t, url+onNode+"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	expect(t, next, "ADDED", "a")
	mark := expect(t, next, "BOOKMARK", "").Object
	if mark.text("metadata", "annotations", "k8s.io/initial-events-end") != "true" {
		t.Errorf("the bookmark does not end the initial events: %v", mark)
	}
	code, _ := request(t, "POST", url+podsPath+"b/binding", "application/json", `{"target":{"name":"n1"}}`)
	if expect(t, next, "ADDED", "b"); code != http.StatusCreated {
		t.Errorf("binding: %d", code)
	}
	s.Delete("pods", "default", "a", -1)
	gone := expect(t, next, "MODIFIED", "a").Object
	if gone.number("metadata", "deletionGracePeriodSeconds") != 30 || gone.number("metadata", "generation") != 2 {
		t.Errorf("deleted: %v", gone["metadata"])
	}
	s.Delete("pods", "default", "a", 0)
	expect(t, next, "DELETED", "a")
	s.FailWatches("pods")
	if f, _ := next(); f.Type != "ERROR" || f.Object.number("code") != http.StatusGone {
		t.Errorf("got %v, want 410", f)
	}
	if _, more := next(); more {
		t.Error("the watch did not end")
	}
}

func TestVersionThatIsCompactedIsGone(t *testing.T) {
	s := New()
	url := s.Start(t)
	s.Create("pods", testPod("a", "n1"))
	from := s.Version()
	s.Create("pods", testPod("b", "n1"))
	next := watching(t, url+onNode+"&resourceVersion="+strconv.Itoa(from))
	expect(t, next, "ADDED", "b")
	s.Compact()
	next = watching(t, url+onNode+"&resourceVersion="+strconv.Itoa(from))
	if f, _ := next(); f.Type != "ERROR" || f.Object.text("reason") != "Expired" {
		t.Errorf("got %v, want Expired", f)
	}
}

func TestPatchOfStatusMergesConditionsAndChecksTheUID(t *testing.T) {
	s := New()
	url := s.Start(t)
	uid := s.Create("pods", testPod("a", "n1"))
	const strategic = "application/strategic-merge-patch+json"
	for _, condition := range []string{"Ready", "example.com/gate", "Ready"} {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"labels":{"x":"y"}},"status":{"phase":"Running",
			"conditions":[{"type":%q,"status":"True"}]},"spec":{"nodeName":"other"}}`, uid, condition)
		if code, o := request(t, "PATCH", url+podsPath+"a/status", strategic, patch); code != http.StatusOK {
			t.Fatalf("%d %v", code, o)
		}
	}
	var pod corev1.Pod
	s.Get("pods", "default", "a", &pod)
	if len(pod.Status.Conditions) != 2 || pod.Status.Phase != "Running" || pod.Spec.NodeName != "n1" || pod.Labels != nil {
		t.Errorf("after the patches: %+v", pod)
	}
	code, o := request(t, "PATCH", url+podsPath+"a/status", strategic, `{"metadata":{"uid":"other"},"status":{}}`)
	if code != http.StatusConflict || !strings.Contains(o.text("message"), "UID in precondition") {
		t.Errorf("another UID: %d %v", code, o)
	}
	code, _ = request(t, "PATCH", url+podsPath+"a", "application/merge-patch+json", `{"metadata":{"labels":{"x":"y"}}}`)
	if s.Get("pods", "default", "a", &pod); code != http.StatusOK || pod.Labels["x"] != "y" || pod.Generation != 1 {
		t.Errorf("merge patch: %d %+v", code, pod)
	}
}

func TestDeletionHonoursUIDFinalizersAndPhase(t *testing.T) {
	s := New()
	url := s.Start(t)
	pod := testPod("a", "n1")
	pod.Finalizers = []string{"example.com/keep"}
	s.Create("pods", pod)
	code, _ := request(t, "DELETE", url+podsPath+"a", "application/json", `{"preconditions":{"uid":"other"}}`)
	if code != http.StatusConflict {
		t.Errorf("another UID: %d", code)
	}
	request(t, "DELETE", url+podsPath+"a", "application/json", `{"gracePeriodSeconds":0}`)
	if !s.Get("pods", "default", "a", pod) || pod.DeletionTimestamp == nil {
		t.Fatal("a finalizer does not hold the pod")
	}
	s.Change("pods", "", "default", "a", pod, func() { pod.Finalizers = nil })
	if s.Get("pods", "default", "a", pod) {
		t.Error("the pod outlives its finalizers")
	}
	done := testPod("done", "n1")
	s.Create("pods", done)
	s.Change("pods", "status", "default", "done", done, func() { done.Status.Phase = "Succeeded" })
	if s.Delete("pods", "default", "done", -1); s.Get("pods", "default", "done", done) {
		t.Error("a pod that has ended got a grace period")
	}
}

func TestFaultsReplaceDelayAndLoseAnswers(t *testing.T) {
	s := New()
	entered, release := make(chan string, 1), make(chan struct{})
	s.Faults = func(r APIRequest) *Fault {
		switch r.Name {
		case "busy":
			return &Fault{Code: http.StatusTooManyRequests, Reason: "TooManyRequests", RetryAfter: 1}
		case "slow":
			return &Fault{Hold: func(context.Context) { entered <- r.String(); <-release }}
		case "lost":
			return &Fault{LostAnswer: true}
		}
		if r.Verb == "list" {
			return &Fault{StaleVersion: 2}
		}
		return nil
	}
	url := s.Start(t)
	for _, name := range []string{"slow", "lost"} {
		s.Create("pods", testPod(name, "n1"))
	}
	if code, _ := request(t, "GET", url+podsPath+"busy", "", ""); code != http.StatusTooManyRequests {
		t.Errorf("busy: %d", code)
	}
	if _, list := request(t, "GET", url+"/api/v1/pods", "", ""); len(list["items"].([]any)) != 1 {
		t.Errorf("stale: %v", list)
	}
	answered := make(chan int)
	go func() {
		code, _ := request(t, "GET", url+podsPath+"slow", "", "")
		answered <- code
	}()
	if got := <-entered; got != "get pods" {
		t.Errorf("held %q", got)
	}
	close(release)
	if code := <-answered; code != http.StatusOK {
		t.Errorf("slow: %d", code)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url+podsPath+"lost",
		strings.NewReader(`{"gracePeriodSeconds":0}`))
	must.OK(t, err)
	if answer, err := http.DefaultClient.Do(r); err == nil {
		_ = answer.Body.Close()
		t.Error("the answer was not lost")
	}
	if s.Get("pods", "default", "lost", new(corev1.Pod)) {
		t.Error("the request was not carried out")
	}
	if n := len(s.Requests("get pods")); n != 2 {
		t.Errorf("%d GETs recorded, want 2", n)
	}
}

func TestTokenIsBoundToItsPod(t *testing.T) {
	s := New()
	url := s.Start(t)
	s.Create("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}})
	uid := s.Create("pods", testPod("a", "n1"))
	post := func(uid string) (int, object) {
		return request(t, "POST", url+"/api/v1/namespaces/default/serviceaccounts/sa/token", "application/json",
			fmt.Sprintf(`{"spec":{"audiences":["x"],"expirationSeconds":600,
				"boundObjectRef":{"kind":"Pod","name":"a","uid":%q}}}`, uid))
	}
	if code, o := post(uid); code != http.StatusCreated || !strings.HasPrefix(o.text("status", "token"), "token-sa-") {
		t.Errorf("%d %v", code, o)
	}
	if code, _ := post("other"); code != http.StatusConflict {
		t.Errorf("another UID: %d", code)
	}
}
