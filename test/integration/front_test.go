//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upgrade "k8s.io/apimachinery/pkg/util/proxy"

	"github.com/journalet/journalet/runtime/api/local"
)

// front does for kubectl what an API server does between it and a kubelet: TLS, one kind of object, and the
// subresources of pods by the kubelet's paths.
type front struct{ node *local.Client }

func newFront(t *testing.T, c *local.Client) *httptest.Server {
	t.Helper()
	f := front{c}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api", respond(metav1.APIVersions{TypeMeta: kind("APIVersions"), Versions: []string{"v1"}}))
	mux.HandleFunc("GET /apis", respond(metav1.APIGroupList{TypeMeta: kind("APIGroupList")}))
	mux.HandleFunc("GET /api/v1", respond(metav1.APIResourceList{
		TypeMeta: kind("APIResourceList"), GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod", Verbs: metav1.Verbs{"get", "list"}},
		},
	}))
	const pod = "/api/v1/namespaces/{namespace}/pods/{pod}"
	mux.HandleFunc("GET "+pod, f.pod)
	mux.HandleFunc("GET "+pod+"/log", f.pass("/containerLogs", false))
	for path, to := range map[string]string{"/exec": "/exec", "/attach": "/attach"} {
		mux.HandleFunc(pod+path, f.pass(to, true))
	}
	mux.HandleFunc(pod+"/portforward", f.pass("/portForward", true))
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	return s
}

func kind(name string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: name} }

func respond(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
}

// find returns a pod by its name.
func (f front) find(r *http.Request) (*corev1.Pod, error) {
	resp, err := f.node.HTTP.Get(local.BaseURL + "/pods")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list corev1.PodList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Name == r.PathValue("pod") && p.Namespace == r.PathValue("namespace") {
			p.TypeMeta = kind("Pod")
			return p, nil
		}
	}
	return nil, nil
}

func (f front) pod(w http.ResponseWriter, r *http.Request) {
	p, err := f.find(r)
	if err != nil || p == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: kind("Status"), Status: metav1.StatusFailure, Code: http.StatusNotFound,
			Reason: metav1.StatusReasonNotFound, Message: fmt.Sprintf("pods %q not found: %v", r.PathValue("pod"), err),
		})
		return
	}
	respond(p)(w, r)
}

// pass passes a subresource on to the kubelet's path, with the kubelet's names of its parameters.
func (f front) pass(to string, streams bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := f.find(r)
		if err != nil || p == nil {
			http.Error(w, fmt.Sprintf("pod not found: %v", err), http.StatusNotFound)
			return
		}
		q := r.URL.Query()
		location := &url.URL{Scheme: "http", Host: "kubelet", Path: to + "/" + p.Namespace + "/" + p.Name}
		if to != "/portForward" {
			name := q.Get("container")
			if name == "" {
				name = p.Spec.Containers[0].Name
			}
			location.Path += "/" + name
		}
		q.Del("container")
		for theirs, ours := range map[string]string{"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"} {
			if streams && q.Get(theirs) == "true" {
				q.Del(theirs)
				q.Set(ours, "1")
			}
		}
		location.RawQuery = q.Encode()
		r = r.Clone(r.Context())
		r.URL.RawQuery = location.RawQuery
		transport := &http.Transport{DialContext: f.node.DialContext, DisableCompression: true, DisableKeepAlives: true}
		h := upgrade.NewUpgradeAwareHandler(location, transport, false, streams, failing{})
		h.FlushInterval = -1
		h.ServeHTTP(w, r)
	}
}

type failing struct{}

func (failing) Error(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
