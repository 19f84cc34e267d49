//go:build integration

package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/node"
)

// burst is how many pods start at once while the agent is killed.
const burst = 20

func TestAgentKilledInABurstOfStartsStartsNothingTwice(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	for i := range burst {
		name := fmt.Sprintf("burst-%02d", i)
		a.Put(name+".yaml", manifest(newPod(name, idle)))
	}
	a.Spawn()
	a.watch()
	// A sandbox call is under way at the first moment, sandboxes and containers at the second, the last ones at the third.
	moments := []struct {
		what string
		fits func(bus.Flat) bool
		n    int
	}{
		{"the first call's dispatch", named("call_dispatched"), 1},
		{"some calls done", named("call_finished", "sandbox_id"), burst / 2},
		{"most containers made", named("call_finished", "container_id"), burst * 3 / 4},
	}
	for _, m := range moments {
		a.journal.wait(t, 0, settle, m.what, func(f bus.Flat) bool {
			return m.fits(f) && a.journal.count(m.fits) >= m.n
		})
		a.Kill()
		t.Logf("killed at %s: %d calls dispatched, %d finished", m.what,
			a.journal.count(named("call_dispatched")), a.journal.count(named("call_finished")))
		a.Spawn()
	}
	a.pods("all pods ready after three crashes", allReady(burst))
	runsOnce(t, a, burst)
	t.Logf("%d dispatches of %d calls for %d pods", a.journal.count(named("call_dispatched")),
		a.journal.count(named("call_finished")), burst)
	a.Verified()
}

func TestAgentKilledInABurstOfStopsLeavesNothing(t *testing.T) {
	t.Parallel()
	const n = 8
	a := newAgent(t)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("ending-%02d.yaml", i)
		a.Put(names[i], manifest(newPod(strings.TrimSuffix(names[i], ".yaml"), idle, scratch)))
	}
	a.start()
	a.pods("all pods", allReady(n))
	after := a.journal.last()
	for _, name := range names {
		a.Remove(name)
	}
	stopped := func(f bus.Flat) bool { return f.Seq > after && f.Event == "call_finished" }
	for _, done := range []int{1, n} {
		a.journal.wait(t, after, settle, "calls that end pods", func(f bus.Flat) bool { return stopped(f) && a.journal.count(stopped) >= done })
		a.Kill()
		a.start()
	}
	a.gone()
	for _, dir := range []string{filepath.Join(a.Root, "pods"), a.PodLogs, a.ContainerLogs} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s still holds %v (%v)", dir, left, err)
		}
	}
	a.Verified()
}

func TestWithAConcurrencyOfOneCallsTakeTurns(t *testing.T) {
	t.Parallel()
	const n = 4
	a := newAgent(t, "--cri-concurrency", "1")
	for i := range n {
		name := fmt.Sprintf("turn-%d", i)
		a.Put(name+".yaml", manifest(newPod(name, idle)))
	}
	a.start()
	a.pods("all pods", allReady(n))
	under := map[string]bool{}
	events, _ := a.journal.seen()
	for _, f := range events {
		switch k := event(t, f).GetKind().(type) {
		case *journaletv1.Event_CallDispatched:
			under[k.CallDispatched.GetIntentId()] = true
		case *journaletv1.Event_CallFinished:
			delete(under, k.CallFinished.GetIntentId())
		}
		if len(under) > 1 {
			t.Fatalf("at record %d two calls are under way: %v", f.Seq, under)
		}
	}
}

// Here nothing is left on the runtime either, so that the journal alone knows what ran. What a reboot and a power cut leave
// on a real runtime is in test/chaos, which may reboot its lab.
func TestWhatARebootTookIsSeen(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	// The simulated runtime ends with its agent, as a real one's pods end with the machine.
	a.Endpoint = "sim://"
	a.Put("web.yaml", manifest(newPod("web", idle)))
	a.Spawn()
	a.watch()
	// Each time at another moment between a call and what is seen of it.
	for _, moment := range []string{"sandbox_id", "container_id"} {
		last := a.journal.last()
		a.journal.wait(t, 0, node.Soon, moment, named("call_finished", moment))
		a.Kill()
		a.Spawn()
		a.journal.wait(t, last, node.Soon, "the next start", named("agent_started"))
	}
	// Its container was started once before, and that counts: as for the kubelet, which finds the log of that run.
	again := func(n int32) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool { return ready(p) && container(p, "main").RestartCount == n }
	}
	a.pod("web", "ready for the second time", again(1))
	a.Put("job.yaml", manifest(newPod("job", "exit 0", restarts(corev1.RestartPolicyNever))))
	job := a.pod("job", "succeeded", phase(corev1.PodSucceeded))
	a.Kill()
	a.start()
	a.pod("web", "ready for the third time", again(2))
	// What had ended for good does not run again, though nobody but the journal knows of it.
	if p := a.podNow("job"); p.UID != job.UID || p.Status.Phase != corev1.PodSucceeded || container(p, "main").RestartCount != 0 {
		t.Errorf("the job is now\n%s", describe(map[string]*corev1.Pod{"job": p}))
	}
	events, _ := a.journal.seen()
	last := uint64(0) // the record that opens this run
	for _, f := range events {
		if f.Event == "agent_started" {
			last = f.Seq
		}
	}
	for _, f := range events {
		call := event(t, f).GetCallRequested()
		if f.Seq > last && call.GetPodUid() == string(job.UID) && (call.GetRunSandbox() != nil || call.GetStartContainer() != nil) {
			t.Errorf("record %d: a call for the job, %s", f.Seq, f.Data)
		}
	}
	a.Verified()
}

func TestARestartOfAnIdleAgentTouchesNothing(t *testing.T) {
	t.Parallel()
	a := started(t, map[string]string{
		"web.yaml":  manifest(newPod("web", idle, scratch)),
		"job.yaml":  manifest(newPod("job", "exit 0", restarts(corev1.RestartPolicyNever))),
		"pair.yaml": manifest(newPod("pair", idle, func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, shell("two", idle)) })),
	})
	a.pods("all as they should be", func(pods map[string]*corev1.Pod) bool {
		return len(pods) == 3 && ready(pods["web"]) && ready(pods["pair"]) && phase(corev1.PodSucceeded)(pods["job"])
	})
	// The job's sandbox is stopped once it has ended.
	a.journal.wait(t, 0, settle, "the job's sandbox to be stopped", func(f bus.Flat) bool {
		return event(t, f).GetCallRequested().GetStopSandbox() != nil
	})
	eventually(t, settle, "the last call's outcome", func() error {
		if asked, done := a.journal.count(named("call_requested")), a.journal.count(named("call_finished")); asked != done {
			return fmt.Errorf("%d of %d calls are done", done, asked)
		}
		return nil
	})
	a.quiet()
	before, views := a.fingerprint(), a.views()
	for i, end := range []func(){a.Stop, a.Kill, a.Stop} {
		end()
		last := a.journal.last()
		a.start()
		// A pod that comes after shows that the agent is at work; what it did to the others stands before that.
		mark := fmt.Sprintf("mark-%d", i)
		a.Put(mark+".yaml", manifest(newPod(mark, idle)))
		comes := a.journal.wait(t, last, settle, "the next manifest", named("manifests_read", mark+".yaml"))
		a.pod(mark, "ready", ready)
		uid := string(a.podNow(mark).UID)
		a.Remove(mark + ".yaml")
		a.journal.wait(t, last, settle, "the end of "+mark, named("pod_forgotten", uid))
		events, _ := a.journal.seen()
		var kinds []string
		for _, f := range events {
			if f.Seq > last && f.Seq < comes.Seq {
				kinds = append(kinds, f.Event)
			}
			if f.Seq <= last || strings.Contains(f.Author+f.ID+string(f.Data), uid) {
				continue
			}
			switch f.Event {
			case "pod_status_changed", "call_requested", "call_dispatched", "pod_updated", "back_off_started", "pod_observed":
				t.Errorf("after restart %d, record %d: %s of %s %s", i, f.Seq, f.Event, f.Author, f.Data)
			}
		}
		t.Logf("restart %d: %d records of its own: %v", i, comes.Seq-last-1, kinds)
		if n := comes.Seq - last - 1; n > idleRestartRecords {
			t.Errorf("an idle restart wrote %d records, want %d at most", n, idleRestartRecords)
		}
		if after := a.fingerprint(); !maps.Equal(before, after) {
			t.Errorf("restart %d changed the runtime's objects:\n%v\n%v", i, before, after)
		}
		if after := a.views(); !slices.Equal(views, after) {
			t.Errorf("restart %d changed what pods report:\n%v\n%v", i, views, after)
		}
	}
	a.Verified()
}

// idleRestartRecords bounds what a restart of an agent with nothing to do may write: the last run's end, this one's
// start, and what the runtime's health was found to be.
const idleRestartRecords = 4

// quiet waits until the agent has seen what it did last.
func (a *agent) quiet() {
	a.T.Helper()
	eventually(a.T, settle, "the newest record to be seen", func() error {
		info, err := a.Client.Info(a.T.Context())
		if err == nil && info.JournalLast > a.journal.last() {
			err = fmt.Errorf("%d of %d", a.journal.last(), info.JournalLast)
		}
		return err
	})
}

func TestALostJournalCostsNoContainer(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("survivor", idle, scratch))
	a.pod("survivor", "ready", ready)
	before := a.fingerprint()
	a.Kill()
	a.forget()
	if err := os.RemoveAll(filepath.Join(a.Root, "bus")); err != nil {
		t.Fatal(err)
	}
	a.start()
	p := a.pod("survivor", "ready again", ready)
	if after := a.fingerprint(); !maps.Equal(before, after) {
		t.Errorf("the agent with a new journal changed the runtime's objects:\n%v\n%v", before, after)
	}
	if n := container(p, "main").RestartCount; n != 0 {
		t.Errorf("the pod tells of %d restarts", n)
	}
}

func TestAPodOfALostJournalThatNoSourceNamesIsShownByItsName(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("orphan", idle, scratch))
	uid := a.pod("orphan", "ready", ready).UID
	a.Kill()
	a.forget()
	if err := os.RemoveAll(filepath.Join(a.Root, "bus")); err != nil {
		t.Fatal(err)
	}
	a.Remove("orphan.yaml")
	a.start()
	p := a.pod("orphan", "shown as an orphan", func(p *corev1.Pod) bool { return p != nil && p.Status.Reason == "Orphan" })
	if p.UID != uid || p.Namespace != "default" || p.CreationTimestamp.IsZero() {
		t.Errorf("it is shown as %s/%s, UID %s, of %s", p.Namespace, p.Name, p.UID, p.CreationTimestamp)
	}
	before := a.fingerprint()
	a.Put("orphan.yaml", manifest(newPod("orphan", idle, scratch)))
	a.pod("orphan", "taken over", ready)
	if after := a.fingerprint(); !maps.Equal(before, after) {
		t.Errorf("a source named it, and that changed the runtime's objects:\n%v\n%v", before, after)
	}
}

// runsOnce fails the test unless every pod runs once and nothing of it ever ran before.
func runsOnce(t *testing.T, a *agent, n int) {
	t.Helper()
	boxes, aborted, running := a.sandboxes(), map[string]uint32{}, 0
	givenUp := sandboxesGivenUp(t, a)
	for _, s := range boxes {
		if s.GetState() != cri.PodSandboxState_SANDBOX_READY || s.GetMetadata().GetAttempt() != givenUp[s.GetMetadata().GetUid()] {
			t.Errorf("sandbox of %s: %s, attempt %d", s.GetMetadata().GetName(), s.GetState(), s.GetMetadata().GetAttempt())
		}
	}
	all := a.containers()
	for _, c := range all {
		s := containerStatus(t, c.GetId())
		switch {
		case c.GetState() == cri.ContainerState_CONTAINER_RUNNING:
			running++
		case c.GetState() == cri.ContainerState_CONTAINER_EXITED && s.GetReason() == startError && strings.Contains(s.GetMessage(), canceled):
			// containerd gives a start up when its caller goes away. If the process was there already, it was killed at once.
			aborted[c.GetLabels()[node.PodNameLabel]]++
			t.Logf("the runtime gave up the start of %s when the agent was killed", c.GetLabels()[node.PodNameLabel])
		default:
			t.Errorf("container of %s: %s, attempt %d, %s %s", c.GetLabels()[node.PodNameLabel], c.GetState(), c.GetMetadata().GetAttempt(), s.GetReason(), s.GetMessage())
		}
	}
	for _, c := range all {
		if want := aborted[c.GetLabels()[node.PodNameLabel]]; c.GetState() == cri.ContainerState_CONTAINER_RUNNING && c.GetMetadata().GetAttempt() != want {
			t.Errorf("container of %s runs as attempt %d after %d that were given up", c.GetLabels()[node.PodNameLabel], c.GetMetadata().GetAttempt(), want)
		}
	}
	if len(boxes) != n || running != n {
		t.Errorf("%d sandboxes and %d running containers are there, want %d of each", len(boxes), running, n)
	}
}

// sandboxesGivenUp counts, for each pod, the sandboxes that the runtime gave up while it made them because the agent was killed.
func sandboxesGivenUp(t *testing.T, a *agent) map[string]uint32 {
	t.Helper()
	n := map[string]uint32{}
	events, _ := a.journal.seen()
	for _, f := range events {
		out := event(t, f).GetCallFinished()
		if uid, of := strings.CutPrefix(out.GetRequester(), "pod/"); of && strings.Contains(out.GetMessage(), "was canceled while the runtime created it") {
			t.Logf("the runtime gave up sandbox %s when the agent was killed", out.GetSandboxId())
			n[uid]++
		}
	}
	return n
}

// How containerd marks a container whose start it gave up.
const (
	startError = "StartError"
	canceled   = "context canceled"
)
