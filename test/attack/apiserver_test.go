//go:build attack

package attack

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/node"
)

// What an API server does, or what is in its place: a proxy, another program on its port, a broken one.

// hostileFor is how long each answer is given at least. It is given until a request got it, and another pod has started
// beside it.
const hostileFor = 2 * time.Second

// hostileMemory bounds the agent's memory: lists and watches are read and decoded at once, each of as much as is read
// of one.
const hostileMemory = 3 * maxMemory

// stream writes a beginning, then a part again and again until the client leaves or the attack ends.
func stream(begin, part string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(begin))
		block := []byte(strings.Repeat(part, 1+(64<<10)/len(part)))
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
}

// drip writes a byte of a body each time, for as long as the attack lasts.
func drip(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for r.Context().Err() == nil {
		_, _ = w.Write([]byte(" "))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// hostileAPI attacks with an API server that gives wrong answers to the requests that match, one kind of answer after
// the other, and checks that static pods start all the while, and that all is well afterwards.
func hostileAPI(t *testing.T, faults map[string]fakeapi.Fault, match func(fakeapi.APIRequest) bool) {
	t.Helper()
	attack{
		cluster: true, memory: hostileMemory,
		begin: func(g *target) {
			for _, what := range slices.Sorted(maps.Keys(faults)) {
				f := faults[what]
				var answered atomic.Int64
				g.world.breaks(func(r fakeapi.APIRequest) *fakeapi.Fault {
					if match(r) {
						answered.Add(1)
						return &f
					}
					return nil
				})
				g.world.api.DropWatches("")
				requests := len(g.world.api.Requests(""))
				peak := memory(g.Process)
				began := time.Now()
				g.bystander()
				<-time.After(hostileFor - time.Since(began))
				g.awaitRequests(what, &answered, 1)
				requests = len(g.world.api.Requests("")) - requests
				g.Logf("%s: %d requests, %d MiB more", what, requests, (memory(g.Process)-peak)>>20)
				if !g.Process.Running() {
					g.Fatalf("%s: the agent ended", what)
				}
				if limit := 100 * int(time.Since(began)/time.Second+1); requests > limit {
					g.Errorf("%s: %d requests, want %d at most", what, requests, limit)
				}
			}
			g.world.breaks(nil)
			g.world.api.DropWatches("")
		},
		check: func(g *target) { nodeIsReported(g); runsPodsOfTheAPI(g) },
	}.run(t)
}

// awaitRequests waits until so many requests have got an answer.
func (g *target) awaitRequests(what string, answered *atomic.Int64, want int64) {
	g.Helper()
	node.Eventually(g.T, settle, fmt.Sprintf("%d requests to be answered: %s", want, what), func() error {
		if n := answered.Load(); n < want {
			return fmt.Errorf("%d have come", n)
		}
		return nil
	})
}

// runsPodsOfTheAPI checks that a pod that is bound to the node runs, and that its status arrives.
func runsPodsOfTheAPI(g *target) {
	g.Helper()
	p := node.Pod("bound", node.Image, node.Idle)
	p.Spec.NodeName = g.Node
	g.world.api.Create("pods", p)
	status := func(want func(*corev1.Pod, bool) bool, what string) {
		g.Helper()
		node.Eventually(g.T, settle, what, func() error {
			var now corev1.Pod
			if has := g.world.api.Get("pods", "default", "bound", &now); !want(&now, has) {
				return fmt.Errorf("%v: %+v", has, now.Status)
			}
			return nil
		})
	}
	status(func(p *corev1.Pod, _ bool) bool { return node.Ready(p) }, "the pod of the API server to run")
	g.world.api.Delete("pods", "default", "bound", 1)
	status(func(_ *corev1.Pod, has bool) bool { return !has }, "the pod of the API server to be gone")
}

// Lists and watches that are garbage, endless, of something else, or never arrive.
func TestHostileListsAndWatches(t *testing.T) {
	pod := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"default","uid":"u"}}`
	hostileAPI(t, map[string]fakeapi.Fault{
		"garbage": {Body: "\x00\x01\x02 garbage"}, "HTML": {Body: "<html>welcome</html>"}, "empty": {Body: " "},
		"another kind": {Body: `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},` +
			`"items":[{"metadata":{"name":"s","namespace":"default"}}]}`},
		"another event":  {Body: `{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"s"}}}`},
		"no list":        {Body: pod},
		"deep":           {Body: strings.Repeat(`{"items":[`, 1<<20)},
		"endless string": {Serve: stream(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"`, "9")},
		"endless watch":  {Serve: stream("", `{"type":"ADDED","object":`+pod+"}\n")},
		"one frame":      {Serve: stream(`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"a":"`, "n")},
		"endless list": {Body: `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":"more"},` +
			`"items":[]}`},
		"slow":  {Serve: drip},
		"error": {Body: `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}}`},
		"redirect": {Serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}},
	}, func(r fakeapi.APIRequest) bool { return r.Verb == "list" || r.Verb == "watch" })
}

// Every request is answered wrongly.
func TestHostileAnswersToEverything(t *testing.T) {
	hostileAPI(t, map[string]fakeapi.Fault{
		"401": {Code: 401, Reason: "Unauthorized"}, "403": {Code: 403, Reason: "Forbidden"},
		"404": {Code: 404, Reason: "NotFound"}, "500": {Code: 500, Reason: "InternalError"},
		"429":     {Code: 429, Reason: "TooManyRequests", RetryAfter: 1},
		"garbage": {Body: "\x00garbage"}, "HTML": {Body: "<html>welcome</html>"},
		"success":      {Body: `{"kind":"Status","apiVersion":"v1","status":"Success"}`},
		"another kind": {Body: `{"kind":"Service","apiVersion":"v1","metadata":{"name":"s"}}`},
		"an endless message": {Serve: stream(
			`{"kind":"Status","apiVersion":"v1","status":"Failure","code":400,"message":"`, "m\\u001b[2J")},
		"closed": {Refuse: true}, "slow": {Serve: drip},
	}, func(fakeapi.APIRequest) bool { return true })
}

// Pods that no API server accepts, or that are another node's.
func TestImpossiblePods(t *testing.T) {
	aim := t.TempDir()
	climb := strings.Repeat("../", 20) + aim[1:] + "/owned"
	attack{
		cluster: true,
		begin: func(g *target) {
			create := func(change func(*corev1.Pod)) {
				p := node.Pod("hostile", node.Image, node.Idle, node.Scratch)
				p.Spec.NodeName = g.Node
				change(p)
				g.world.api.Create("pods", p)
			}
			create(func(p *corev1.Pod) { p.Name = climb })
			create(func(p *corev1.Pod) { p.Namespace = climb })
			create(func(p *corev1.Pod) { p.UID = "../../owned" })
			create(func(p *corev1.Pod) { p.Name, p.Spec.Containers[0].Name = "container", climb })
			create(func(p *corev1.Pod) {
				p.Name, p.Spec.Volumes[0].Name, p.Spec.Containers[0].VolumeMounts[0].Name = "volume", climb, climb
			})
			create(func(p *corev1.Pod) { p.Name = "escape\x1b[2J" })
			create(func(p *corev1.Pod) { p.Name, p.Spec.NodeName = "elsewhere", "another-node" })
			create(func(p *corev1.Pod) {
				p.Name, p.Annotations = "bomb", map[string]string{"a": strings.Repeat("x", 2<<20)}
			})
			create(func(p *corev1.Pod) { p.Name, p.Spec.Containers = "nothing", nil })
			// The field selector of the watch keeps another node's away; this server sends it all the same.
			g.world.breaks(func(r fakeapi.APIRequest) *fakeapi.Fault {
				if r.Resource == "pods" && (r.Verb == "list" || r.Verb == "watch") {
					q := r.HTTP.URL.Query()
					q.Del("fieldSelector")
					r.HTTP.URL.RawQuery = q.Encode()
				}
				return nil
			})
			g.world.api.DropWatches("pods")
			runsPodsOfTheAPI(g)
		},
		check: func(g *target) {
			if all, err := filepath.Glob(aim + "/*"); err != nil || len(all) > 0 {
				t.Errorf("outside is %v (%v)", all, err)
			}
			entries, err := os.ReadDir(g.PodLogs)
			if err != nil {
				t.Error(err)
			}
			for _, e := range entries {
				if strings.Contains(e.Name(), "elsewhere") {
					t.Errorf("a pod of another node runs: %s", e.Name())
				}
			}
			for _, line := range g.linesWith("\x1b") {
				t.Errorf("the log has an escape sequence: %.200q", line)
			}
			pods, err := g.Pods()
			if err != nil {
				t.Error(err)
			}
			for i := range pods {
				if pods[i].Name == "bomb" || pods[i].Name == "nothing" {
					t.Logf("%s: %s %s", pods[i].Name, pods[i].Status.Phase, pods[i].Status.Reason)
				}
			}
		},
		end: func(g *target) {
			g.world.breaks(nil)
			for _, name := range []string{"bomb", "nothing", "volume", "container", "hostile"} {
				g.world.api.Delete("pods", "default", name, 0)
			}
		},
	}.run(t)
}

// A Secret, and a token, of the size of a disk.
func TestHugeObjectsOfTheAPIServer(t *testing.T) {
	var objects, tokens atomic.Int64
	attack{
		cluster: true, memory: hostileMemory,
		begin: func(g *target) {
			g.world.breaks(func(r fakeapi.APIRequest) *fakeapi.Fault {
				switch {
				case strings.HasPrefix(r.Resource, "secrets") || strings.HasPrefix(r.Resource, "configmaps"):
					objects.Add(1)
					return &fakeapi.Fault{Serve: stream(`{"kind":"SecretList","apiVersion":"v1","items":[{"data":{"a":"`, "AAAA")}
				case r.Subresource == "token":
					tokens.Add(1)
					return &fakeapi.Fault{Serve: stream(
						`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"`, "t")}
				}
				return nil
			})
			p := node.Pod("attacker", node.Image, node.Idle, func(p *corev1.Pod) {
				p.Spec.NodeName = g.Node
				p.Spec.ServiceAccountName = "robot"
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
					Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
						{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
						{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}},
					}}}}}
				p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
			})
			g.world.api.Create("serviceaccounts", &corev1.ServiceAccount{
				ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "default"}})
			g.world.api.Create("pods", p)
			g.bystander()
			// The agent requests again what had no end within its bound.
			g.awaitRequests("endless objects", &objects, 3)
			g.awaitRequests("endless tokens", &tokens, 3)
		},
		end: func(g *target) {
			g.world.api.Delete("pods", "default", "attacker", 0)
			g.world.breaks(nil)
			runsPodsOfTheAPI(g)
			g.world.api.Disconnect()
		},
	}.run(t)
}
