//go:build integration

package integration

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/test/node"
)

// urlToken is what the server of a test wants to see, and nobody else may.
const urlToken = "token-s3cret"

// manifestServer is a server of manifests that can be down.
type manifestServer struct {
	*httptest.Server
	mu   sync.Mutex
	text string // empty: it is down
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

func (s *manifestServer) gives(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
}

// flags make an agent ask the server every second.
func (s *manifestServer) flags() []string {
	return []string{"--manifest-url", s.URL + "/pods?t=" + urlToken, "--manifest-url-header", "X-Token:" + urlToken, "--http-check-frequency", "1s"}
}

const noPods = "apiVersion: v1\nkind: PodList\nitems: []\n"

func TestAPodOfAURLRunsChangesAndGoes(t *testing.T) {
	t.Parallel()
	s := newManifestServer(t)
	s.gives(manifest(newPod("remote", "echo one; "+idle)))
	a := started(t, onePod("local", idle), s.flags()...)
	pods := a.pods("both pods", allReady(2))
	if got := pods["remote"].Annotations["kubernetes.io/config.source"]; got != "http" {
		t.Errorf("its source is %q", got)
	}
	out, _, _ := a.CLI("pods", "-o", "wide")
	if !strings.Contains(out, "http") || !strings.Contains(out, "file") {
		t.Errorf("`journalet pods -o wide` tells no sources:\n%s", out)
	}
	s.gives(manifest(newPod("remote", "echo two; "+idle)))
	next := a.pod("remote", "anew", func(p *corev1.Pod) bool { return ready(p) && p.UID != pods["remote"].UID })
	a.logged(next, "main", "two")
	s.gives(noPods)
	a.pods("the pod of the folder alone", allReady(1))
	if a.podNow("local").UID != pods["local"].UID {
		t.Error("the pod of the folder is another one")
	}
	records, _, _ := a.CLI("observe", "--no-follow", "-o", "json")
	if strings.Contains(records, urlToken) || strings.Contains(a.Process.Tail(), urlToken) {
		t.Error("the token of the URL is in the journal or the log")
	}
}

func TestAnAgentThatIsStartedWhileItsURLIsDownKeepsWhatRuns(t *testing.T) {
	t.Parallel()
	s := newManifestServer(t)
	s.gives(manifest(newPod("remote", idle)))
	a := started(t, nil, s.flags()...)
	a.pod("remote", "ready", ready)
	before := a.fingerprint()
	after := a.journal.last()
	s.gives("")
	a.Kill()
	a.start()
	a.journal.wait(t, after, settle, "the outage", named("manifests_read", `"status"`))
	a.Stop()
	a.start()
	if now := a.fingerprint(); !maps.Equal(before, now) {
		t.Errorf("an outage changed the pod:\n%v\n%v", before, now)
	}
	after = a.journal.last()
	s.gives(manifest(newPod("remote", idle)))
	a.journal.wait(t, after, settle, "the end of the outage", func(f bus.Flat) bool {
		return f.Event == "manifests_read" && !strings.Contains(string(f.Data), `"status"`)
	})
	a.pod("remote", "ready", ready)
	if now := a.fingerprint(); !maps.Equal(before, now) {
		t.Errorf("the end of an outage changed the pod:\n%v\n%v", before, now)
	}
	s.gives(noPods)
	node.Eventually(t, settle, "its pod to be gone", a.Gone)
}

func TestPodsOfOneNameInTwoSourcesRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s := newManifestServer(t)
	s.gives(noPods)
	a := started(t, map[string]string{"twin.yaml": manifest(newPod("twin", "echo of the folder; "+idle))}, s.flags()...)
	first := a.pod("twin", "ready", ready)
	s.gives(manifest(newPod("twin", "echo of the URL; "+idle)))
	a.journal.wait(t, 0, settle, "the second one being told to wait", named("admission_deferred", string(first.UID)))
	if n := len(a.sandboxes()); n != 1 {
		t.Errorf("%d sandboxes, want one", n)
	}
	a.Remove("twin.yaml")
	next := a.pod("twin", "of the URL", func(p *corev1.Pod) bool { return ready(p) && p.UID != first.UID })
	a.logged(next, "main", "of the URL")
	s.gives(noPods)
	node.Eventually(t, settle, "its pod to be gone", a.Gone)
}
