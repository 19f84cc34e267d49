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
	"github.com/journalet/journalet/test/must"
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
			begin, rest, _ := strings.Cut(answer.Body.String(), `"items":[`)
			if rest[0] != ']' {
				rest = "," + rest
			}
			_, _ = w.Write([]byte(begin + `"items":[{"metadata":7}` + rest))
		}}
	}
	return server
}

// awaitNode waits until the Ready condition is ok.
func (n *clusterNode) awaitNode(what string, ok func(corev1.NodeCondition) bool) {
	n.Helper()
	must.Eventually(n, 10*time.Second, what, func() (string, bool) {
		node, ready := new(corev1.Node), corev1.NodeCondition{}
		if n.api.Get("nodes", "", "node-1", node) {
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady {
					ready = c
				}
			}
			return ready.String(), ok(ready)
		}
		return "there is no Node", false
	})
}

// awaitEvent returns the first event with a reason.
func (n *clusterNode) awaitEvent(reason string) *corev1.Event {
	n.Helper()
	for end := time.Now().Add(10 * time.Second); ; <-time.After(5 * time.Millisecond) {
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

func TestRejectedAndRefusedPodsHaveAnEventWithFieldAndBound(t *testing.T) {
	n := startNode(t, apiPod(t, `{}`))
	wanted := func(reason, name, message string) {
		t.Helper()
		e := n.awaitEvent(reason)
		if e.InvolvedObject.Kind != "Pod" || e.InvolvedObject.Name != name || e.InvolvedObject.UID == "" ||
			e.Type != corev1.EventTypeWarning || e.Message != message {
			t.Errorf("the event is %v", e)
		}
	}
	rejected := apiPod(t, `volumes: [{name: v, secret: {secretName: `+strings.Repeat("s", 300)+`}}]`)
	rejected.Name = "rejected"
	n.api.Create("pods", rejected)
	wanted("PodFeatureUnsupported", "rejected",
		"this node does not support spec.volumes[0].secret.secretName of 300 bytes, more than 253")
	n.change("", func(p *corev1.Pod) { p.Spec.Containers[0].Image = strings.Repeat("i", 2000) })
	wanted("PodUpdateUnsupported", "web", "the update is not carried out, and the pod stays as it was: this node does "+
		"not support spec.containers[0].image of 2000 bytes, more than 1024")
}

func TestWhatIsLeftOutWithoutAPodIsAnEventOfTheNode(t *testing.T) {
	on := new(atomic.Bool)
	on.Store(true)
	n := startNodeOf(t, broken("services", on), apiPod(t, `{enableServiceLinks: true}`))
	e := n.awaitEvent("ObjectLeftOut")
	if e.Type != corev1.EventTypeWarning || e.InvolvedObject.Kind != "Node" ||
		!strings.HasPrefix(e.Message, "services: left out, as if it were not there: it cannot be decoded") {
		t.Errorf("the event is %v", e)
	}
}

func TestAConfigMapThatCannotBeReadIsAnEventOfThePodThatRefersToIt(t *testing.T) {
	on := new(atomic.Bool)
	on.Store(true)
	n := startNodeOf(t, broken("configmaps", on), apiPod(t, `{}`))
	refers := apiPod(t, `volumes: [{name: v, configMap: {name: c}}]`)
	refers.Name = "refers"
	n.api.Create("pods", refers)
	e := n.awaitEvent("FailedMount")
	if e.InvolvedObject.Name != "refers" || !strings.Contains(e.Message, "of configmaps cannot be read") ||
		strings.Contains(e.Message, "does not answer") {
		t.Errorf("the event is %v", e)
	}
}
