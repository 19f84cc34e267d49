//go:build integration

package integration

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// noticed bounds the time until the agent reports a hung runtime: it calls every 5 s, with a timeout of 10 s.
const noticed = 40 * time.Second

// freePort returns a port of the loopback address that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// probe requests a health path.
func probe(t *testing.T, port int, path string) (int, string) {
	t.Helper()
	c := http.Client{Timeout: 5 * time.Second}
	r, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	must.OK(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	must.OK(t, err)
	return r.StatusCode, string(b)
}

// runtimeIs waits for a record, after one, that the runtime is ready or that it is not.
func (a *agent) runtimeIs(ready bool, after uint64) messages.Flat {
	a.T.Helper()
	return a.journal.wait(a.T, after, noticed, fmt.Sprintf("runtime ready=%t", ready), func(f messages.Flat) bool {
		return f.Event == "runtime_health_changed" &&
			event(a.T, f).GetRuntimeHealthChanged().GetRuntimeReady() == ready
	})
}

func TestPodsSurviveOutagesOfTheRuntime(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	a := newAgent(t, "--healthz-port", fmt.Sprint(port))
	p := a.behindProxy()
	a.put(newPod("early", idle))
	a.start()
	a.runtimeIs(false, 0)
	if code, text := probe(t, port, "/readyz"); code != http.StatusInternalServerError ||
		!strings.Contains(text, "[-]runtime failed") {
		t.Errorf("without a runtime /readyz returns %d %s", code, text)
	}
	eventually(t, node.Soon, "/healthz to be ok without a runtime", func() error {
		if code, text := probe(t, port, "/healthz"); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	p.open()
	a.pod("early", "ready once there is a runtime", ready)
	if code, text := probe(t, port, "/readyz"); code != http.StatusOK {
		t.Errorf("with a runtime /readyz returns %d %s", code, text)
	}
	for _, outage := range []struct {
		what  string
		begin func() (end func())
	}{
		{"the socket gone", func() func() { p.close(); return func() {} }},
		{"nonsense for answers", p.talkNonsense},
	} {
		before, views, last := a.fingerprint(), a.views(), a.journal.last()
		end := outage.begin()
		a.runtimeIs(false, last)
		if now := a.views(); fmt.Sprint(now) != fmt.Sprint(views) {
			t.Errorf("with %s the pods report:\n%v\nand before:\n%v", outage.what, now, views)
		}
		a.put(newPod("late", idle))
		a.journal.wait(t, last, settle, "the pod of the outage", named("admission_decided", `"admitted":true`))
		end()
		p.open()
		a.runtimeIs(true, last)
		a.pods("both ready after "+outage.what, allReady(2))
		a.kept(before, outage.what)
		late := string(a.podNow("late").UID)
		a.Remove("late.yaml")
		a.journal.wait(t, last, settle, "the late pod's end", named("pod_forgotten", late))
	}
	a.Verified()
}

func TestHungRuntimeIsReportedAndChangesNoPod(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	a := newAgent(t, "--healthz-port", fmt.Sprint(port))
	p := a.behindProxy()
	p.open()
	a.put(newPod("first", idle))
	a.start()
	a.pod("first", "ready", ready)
	before, views, last := a.fingerprint(), a.views(), a.journal.last()

	p.hang()
	a.put(newPod("second", idle))
	a.journal.wait(t, last, settle, "a call into the hung runtime", named("call_dispatched"))
	hung := a.runtimeIs(false, last)
	// The observer may receive the record before the actor has folded it.
	eventually(t, settle, "/readyz names the hung runtime", func() error {
		if code, text := probe(t, port, "/readyz"); code != http.StatusInternalServerError ||
			!strings.Contains(text, "runtime") {
			return fmt.Errorf("it returns %d %s", code, text)
		}
		return nil
	})
	if now := a.views(); !strings.Contains(strings.Join(now, "\n"), views[0]) {
		t.Errorf("with a hung runtime the pods report:\n%v\nand before:\n%v", now, views)
	}
	p.resume()
	a.runtimeIs(true, hung.Seq)
	a.pods("both ready after the hang", allReady(2))
	after := a.fingerprint()
	a.kept(before, "the hang")
	a.wantSandboxes(2)
	a.unchanged(after, "the agent, once all pods were ready,")
}
