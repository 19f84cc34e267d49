package secureport

import (
	"net/http"
	"strings"
)

// verbs are the verbs of reviews by HTTP method. Any other method has none: only a rule for all verbs permits it.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
	http.MethodDelete: "delete",
}

// proxy is the subresource of every path that has none of its own: exec, attach, port-forward, logs of containers.
const proxy = "proxy"

// sessions are the paths that run commands in containers or lead connections into pods.
var sessions = []string{"/exec", "/attach", "/portForward", "/run"}

// verbOf returns the verb of a request's review; "" for a method that only a rule for all verbs permits. A WebSocket
// begins with a GET, but what it opens is a session: the API server requires create of it, too.
func (s *Server) verbOf(r *http.Request) string {
	verb := verbs[r.Method]
	for _, path := range sessions {
		if verb != "" && !s.opts.VerbOfMethod && within(r.URL.Path, path) {
			return verbs[http.MethodPost]
		}
	}
	return verb
}

// fine are the subresources that are reviewed before proxy: who has the narrow permission needs no wide one.
var fine = []struct{ path, subresource string }{
	{"/pods", "pods"}, {"/allocatedPods", "pods"}, {"/runningpods", "pods"}, {"/healthz", "healthz"},
	{"/configz", "configz"}, {"/journal", "journal"}, // the journal is ours (ADR 093)
}

// own are the subresources of paths that proxy does not open.
var own = []struct{ path, subresource string }{
	{"/stats", "stats"}, {"/metrics", "metrics"}, {"/logs", "log"}, {"/checkpoint", "checkpoint"},
	{"/statusz", "statusz"}, {"/flagz", "configz"},
}

// subresources returns subresources of the Node, in the order of their reviews. The user needs permission for one of
// them.
func subresources(path string) []string {
	for _, o := range own {
		if within(path, o.path) {
			return []string{o.subresource}
		}
	}
	for _, f := range fine {
		if within(path, f.path) {
			return []string{f.subresource, proxy}
		}
	}
	return []string{proxy}
}

// within reports whether a path is root or below it.
func within(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (rest == "" || rest[0] == '/')
}
