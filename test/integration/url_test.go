//go:build integration

package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
)

// urlToken authenticates the agent at the server. It may not appear in the journal or the log.
const urlToken = "token-s3cret"

// manifestServer serves manifests.
type manifestServer struct {
	*httptest.Server
	mu   sync.Mutex
	text string // empty: the server is unavailable
}

func newManifestServer(t *testing.T) *manifestServer {
	s := new(manifestServer)
	s.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case req.Header.Get("X-Token") != urlToken:
			out.WriteHeader(http.StatusUnauthorized)
		case s.text == "":
			out.WriteHeader(http.StatusServiceUnavailable)
		default:
			fmt.Fprint(out, s.text)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *manifestServer) serve(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
}

// flags makes an agent fetch the server's manifests every second.
func (s *manifestServer) flags() []string {
	return []string{
		"--manifest-url", s.URL + "/pods?t=" + urlToken, "--manifest-url-header", "X-Token:" + urlToken,
		"--http-check-frequency", "1s",
	}
}

const noPods = "apiVersion: v1\nkind: PodList\nitems: []\n"

func TestPodOfAURLFollowsItsManifest(t *testing.T) {
	t.Parallel()
	s := newManifestServer(t)
	s.serve(manifest(newPod("remote", "echo one; "+idle)))
	a := started(t, onePod("local", idle), s.flags()...)
	pods := a.pods("both pods", allReady(2))
	if got := pods["remote"].Annotations["kubernetes.io/config.source"]; got != "http" {
		t.Errorf("its source is %q", got)
	}
	out, _, _ := a.CLI("pods", "-o", "wide")
	if !strings.Contains(out, "http") || !strings.Contains(out, "file") {
		t.Errorf("`journalet pods -o wide` prints no sources:\n%s", out)
	}
	s.serve(manifest(newPod("remote", "echo two; "+idle)))
	next := a.pod("remote", "replaced", func(p *corev1.Pod) bool { return ready(p) && p.UID != pods["remote"].UID })
	a.logged(next, "main", "two")
	s.serve(noPods)
	a.pods("only the pod of the directory", allReady(1))
	if a.podNow("local").UID != pods["local"].UID {
		t.Error("the pod of the directory was replaced")
	}
	records, _, _ := a.CLI("observe", "--no-follow", "-o", "json")
	if strings.Contains(records, urlToken) || strings.Contains(a.Process.Tail(), urlToken) {
		t.Error("the token of the URL is in the journal or the log")
	}
}

func TestAgentStartedWhileItsURLIsDownKeepsItsPods(t *testing.T) {
	t.Parallel()
	s := newManifestServer(t)
	s.serve(manifest(newPod("remote", idle)))
	a := started(t, nil, s.flags()...)
	a.pod("remote", "ready", ready)
	before := a.fingerprint()
	after := a.journal.last()
	s.serve("")
	a.crash()
	a.journal.wait(t, after, settle, "the outage", named("manifests_read", `"status"`))
	a.Stop()
	a.start()
	a.unchanged(before, "an outage")
	after = a.journal.last()
	s.serve(manifest(newPod("remote", idle)))
	a.journal.wait(t, after, settle, "the end of the outage", func(f messages.Flat) bool {
		return f.Event == "manifests_read" && !strings.Contains(string(f.Data), `"status"`)
	})
	a.pod("remote", "ready", ready)
	a.unchanged(before, "the end of an outage")
	s.serve(noPods)
	a.gone()
}

func TestPodsOfOneNameInTwoSourcesRunOneAfterAnother(t *testing.T) {
	t.Parallel()
	s := newManifestServer(t)
	s.serve(noPods)
	a := started(t, onePod("twin", "echo of the directory; "+idle), s.flags()...)
	first := a.pod("twin", "ready", ready)
	s.serve(manifest(newPod("twin", "echo of the URL; "+idle)))
	a.journal.wait(t, 0, settle, "the second one's deferral", named("admission_deferred", string(first.UID)))
	a.wantSandboxes(1)
	a.Remove("twin.yaml")
	next := a.pod("twin", "of the URL", func(p *corev1.Pod) bool { return ready(p) && p.UID != first.UID })
	a.logged(next, "main", "of the URL")
	s.serve(noPods)
	a.gone()
}
