//go:build integration

package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/node"
)

// returns waits until a health path returns a status and a text. The observer may receive a record before its actor has
// folded it, and calls of pods may succeed before the next check of the runtime.
func returns(t *testing.T, port int, path string, code int, words string) {
	t.Helper()
	eventually(t, settle, fmt.Sprintf("%s to return %d %s", path, code, words), func() error {
		c := http.Client{Timeout: node.Soon}
		r, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err == nil && (r.StatusCode != code || !strings.Contains(string(b), words)) {
			err = fmt.Errorf("it returns %d %s", r.StatusCode, b)
		}
		return err
	})
}

// runtimeIs waits for a record, after one, that the runtime is ready or that it is not.
func (a *agent) runtimeIs(ready bool, after uint64) messages.Flat {
	a.T.Helper()
	return a.journal.wait(a.T, after, settle, fmt.Sprintf("runtime ready=%t", ready), func(f messages.Flat) bool {
		return f.Event == "runtime_health_changed" &&
			event(a.T, f).GetRuntimeHealthChanged().GetRuntimeReady() == ready
	})
}

func TestPodsSurviveOutagesOfTheRuntime(t *testing.T) {
	t.Parallel()
	port := node.Port(t)
	a := newAgent(t, "--healthz-port", fmt.Sprint(port))
	p := a.behindProxy()
	a.put(newPod("early", idle))
	a.start()
	a.runtimeIs(false, 0)
	returns(t, port, "/readyz", http.StatusInternalServerError, "[-]runtime failed")
	returns(t, port, "/healthz", http.StatusOK, "")
	p.open()
	a.pod("early", "ready once there is a runtime", ready)
	returns(t, port, "/readyz", http.StatusOK, "")
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
	port := node.Port(t)
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
	returns(t, port, "/readyz", http.StatusInternalServerError, "runtime")
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
