package agent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/journalet/journalet/test/fakeapi"
)

// broken returns an API server whose lists of a resource have an object that cannot be read, nor its name, before all
// others while the switch is on.
func broken(resource string, on *atomic.Bool) *fakeapi.Server {
	server := fakeapi.New()
	server.NoWatchList = true
	var inner atomic.Bool // the request is the recorder's
	server.Faults = func(r fakeapi.APIRequest) *fakeapi.Fault {
		if r.Resource != resource || r.Verb != "list" || !on.Load() || inner.Swap(true) {
			return nil
		}
		return &fakeapi.Fault{Serve: func(w http.ResponseWriter, hr *http.Request) {
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, hr)
			inner.Store(false)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(strings.Replace(answer.Body.String(), `"items":[`, `"items":[{"metadata":7},`, 1)))
		}}
	}
	return server
}

// awaitNode waits until the Ready condition is ok.
func (n *clusterNode) awaitNode(what string, ok func(corev1.NodeCondition) bool) {
	n.Helper()
	for end := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		node, ready := new(corev1.Node), corev1.NodeCondition{}
		if n.api.Get("nodes", "", "node-1", node) {
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady {
					ready = c
				}
			}
			if ok(ready) {
				return
			}
		}
		if time.Now().After(end) {
			n.Fatalf("%s: the condition is %v", what, ready)
		}
	}
}

// awaitEvent returns the first event with a reason.
func (n *clusterNode) awaitEvent(reason string) *corev1.Event {
	n.Helper()
	for end := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		for _, r := range n.api.Requests("create events") {
			var envelope runtime.Unknown
			e := new(corev1.Event)
			if envelope.Unmarshal(r.Body[len("k8s\x00"):]) == nil && e.Unmarshal(envelope.Raw) == nil && e.Reason == reason {
				return e
			}
		}
		if time.Now().After(end) {
			n.Fatalf("no event with the reason %s", reason)
		}
	}
}

func TestNodeSaysThatItsListOfPodsIsIncompleteUntilItIsNot(t *testing.T) {
	on := new(atomic.Bool)
	on.Store(true)
	n := startNodeOf(t, broken("pods", on), apiPod(t, `{}`)) // the pods that can be read run
	n.awaitNode("warns", func(c corev1.NodeCondition) bool {
		return c.Status == corev1.ConditionTrue && strings.Contains(c.Message, "WARNING: the API server's list of the pods")
	})
	e := n.awaitEvent("PodListIncomplete")
	if e.Type != corev1.EventTypeWarning || e.InvolvedObject.Kind != "Node" ||
		!strings.Contains(e.Message, "spec.nodeName=node-1") {
		t.Errorf("the event is %v", e)
	}
	on.Store(false)
	n.api.Compact()
	n.api.FailWatches("pods") // its Reflector lists again
	n.awaitNode("does not warn", func(c corev1.NodeCondition) bool {
		return c.Status == corev1.ConditionTrue && c.Message == "kubelet is posting ready status"
	})
}
