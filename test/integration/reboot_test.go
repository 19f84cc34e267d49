//go:build integration

package integration

import (
	"path"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/criproxy"
	"github.com/journalet/journalet/test/must"
)

// machine is the runtime of an agent whose machine reboots: each boot has a simulated one without any object.
type machine struct {
	a       *agent
	rt      *sim.Runtime
	between *criproxy.Proxy
	boots   uint64
}

func newMachine(a *agent) *machine {
	m := &machine{a: a}
	a.Flags = append(a.Flags, "--cgroups-per-qos=false") // simulated containers are in no cgroup
	a.Endpoint = "unix://" + m.socket()
	a.AtTheEnd(m.halt)
	return m
}

func (m *machine) socket() string { return filepath.Join(m.a.Dir, "cri.sock") }

// halt ends the runtime, and with it its objects.
func (m *machine) halt() {
	if m.rt != nil {
		_ = m.between.Close()
		m.rt.Close()
	}
}

// boot starts another runtime, for an agent that does not run. After the first call of a method it answers none any
// more: with what that call returns, the agent learns nothing further. An empty method: it answers all.
func (m *machine) boot(last string) {
	m.a.T.Helper()
	m.halt()
	m.boots++
	m.rt = sim.New(sim.Options{AnyImage: true, Seed: m.boots}) // another seed: no id returns
	conn, err := m.rt.Dial()
	must.OK(m.a.T, err)
	m.between, err = criproxy.Serve(m.socket(), conn)
	must.OK(m.a.T, err)
	var mu sync.Mutex
	var never chan struct{} // not nil after the last call
	m.between.Hold(func(method string, _ []byte) <-chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		held := never
		if path.Base(method) == last && held == nil {
			never = make(chan struct{})
		}
		return held
	})
}

// The runtime loses its objects too, so that only the journal knows what ran. test/chaos reboots a real runtime's lab.
func TestRebootStartsPodsAgain(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	m := newMachine(a)
	a.put(newPod("web", idle))
	// Each reboot comes between a call's outcome and the observation of it: the runtime answers no inspection after it.
	for _, last := range []struct {
		call    string
		request func(*journaletv1.CallRequested) bool
	}{
		{"RunPodSandbox", func(c *journaletv1.CallRequested) bool { return c.GetRunSandbox() != nil }},
		{"StartContainer", func(c *journaletv1.CallRequested) bool { return c.GetStartContainer() != nil }},
	} {
		m.boot(last.call)
		a.Spawn()
		if a.journal == nil {
			a.watch()
		}
		a.called(m.boots, last.call, last.request)
		a.Kill()
	}
	m.boot("")
	a.start()
	// Its container was started once before, and that counts, as for the kubelet, which finds the log of that run.
	again := func(n int32) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool { return ready(p) && container(p, "main").RestartCount == n }
	}
	a.pod("web", "ready for the second time", again(1))
	a.put(newPod("job", "exit 0", restarts(corev1.RestartPolicyNever)))
	job := a.pod("job", "succeeded", phase(corev1.PodSucceeded))
	a.Kill()
	m.boot("")
	a.start()
	a.pod("web", "ready for the third time", again(2))
	// A completed job does not run again, though only the journal knows of it.
	p := a.podNow("job")
	if p.UID != job.UID || p.Status.Phase != corev1.PodSucceeded || container(p, "main").RestartCount != 0 {
		t.Errorf("the job is now\n%s", describe(map[string]*corev1.Pod{"job": p}))
	}
	for _, f := range a.journal.all(named("call_requested")) {
		call := event(t, f).GetCallRequested()
		starts := call.GetRunSandbox() != nil || call.GetStartContainer() != nil
		if f.Epoch == m.boots && call.GetPodUid() == string(job.UID) && starts {
			t.Errorf("record %d: a call for the job, %s", f.Seq, f.Data)
		}
	}
	a.Verified()
}

// called waits until a call was requested and has succeeded, in one run of the agent.
func (a *agent) called(epoch uint64, what string, fits func(*journaletv1.CallRequested) bool) {
	a.T.Helper()
	id := ""
	a.journal.wait(a.T, 0, settle, "the outcome of "+what, func(f messages.Flat) bool {
		if f.Epoch != epoch {
			return false
		}
		if c := event(a.T, f).GetCallRequested(); c != nil && fits(c) {
			id = f.ID
		}
		done := event(a.T, f).GetCallFinished()
		return id != "" && done.GetIntentId() == id && done.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	})
}
