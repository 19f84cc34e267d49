//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
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
		a.put(newPod(name, idle))
	}
	a.Spawn()
	a.watch()
	// At the first moment a sandbox is created, at the second sandboxes and containers, at the third the last ones.
	moments := []struct {
		what string
		fits func(messages.Flat) bool
		n    int
	}{
		{"the first call's dispatch", named("call_dispatched"), 1},
		{"some sandboxes created", named("call_finished", "sandbox_id"), burst / 2},
		{"most containers created", named("call_finished", "container_id"), burst * 3 / 4},
	}
	for _, m := range moments {
		a.journal.wait(t, 0, settle, m.what, func(f messages.Flat) bool {
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
	var list []*corev1.Pod
	for i := range n {
		list = append(list, newPod(fmt.Sprintf("ending-%02d", i), idle, scratch))
	}
	a := started(t, manifests(list...))
	a.pods("all pods", allReady(n))
	after := a.journal.last()
	for _, p := range list {
		a.Remove(p.Name + ".yaml")
	}
	stopped := func(f messages.Flat) bool { return f.Seq > after && f.Event == "call_finished" }
	for _, done := range []int{1, n} {
		a.journal.wait(t, after, settle, "calls that end pods", func(f messages.Flat) bool {
			return stopped(f) && a.journal.count(stopped) >= done
		})
		a.crash()
	}
	a.gone()
	a.wantNoFiles()
	a.Verified()
}

// wantNoFiles checks that no pod has a directory, a log or a link to a log.
func (a *agent) wantNoFiles() {
	a.T.Helper()
	for _, dir := range []string{filepath.Join(a.Root, "pods"), a.PodLogs, a.ContainerLogs} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			a.T.Errorf("%s still holds %v (%v)", dir, left, err)
		}
	}
}

func TestConcurrencyOfOneRunsOneCallAtATime(t *testing.T) {
	t.Parallel()
	const n = 4
	a := newAgent(t, "--cri-concurrency", "1")
	for i := range n {
		a.put(newPod(fmt.Sprintf("one-%d", i), idle))
	}
	a.start()
	a.pods("all pods", allReady(n))
	running := map[string]bool{}
	events, _ := a.journal.seen()
	for _, f := range events {
		switch k := event(t, f).GetKind().(type) {
		case *journaletv1.Event_CallDispatched:
			running[k.CallDispatched.GetIntentId()] = true
		case *journaletv1.Event_CallFinished:
			delete(running, k.CallFinished.GetIntentId())
		}
		if len(running) > 1 {
			t.Fatalf("at record %d two calls are running: %v", f.Seq, running)
		}
	}
}

func TestRestartOfAnIdleAgentChangesNothing(t *testing.T) {
	t.Parallel()
	a := started(t, manifests(
		newPod("web", idle, scratch),
		newPod("job", "exit 0", restarts(corev1.RestartPolicyNever)),
		newPod("pair", idle, with(shell("two", idle))),
	))
	a.pods("two pods ready and the job completed", func(pods map[string]*corev1.Pod) bool {
		return len(pods) == 3 && ready(pods["web"]) && ready(pods["pair"]) && phase(corev1.PodSucceeded)(pods["job"])
	})
	a.journal.wait(t, 0, settle, "the stop of the job's sandbox", func(f messages.Flat) bool {
		return event(t, f).GetCallRequested().GetStopSandbox() != nil
	})
	eventually(t, settle, "the last call's outcome", func() error {
		requested, done := a.journal.count(named("call_requested")), a.journal.count(named("call_finished"))
		if requested != done {
			return fmt.Errorf("%d of %d calls have finished", done, requested)
		}
		return nil
	})
	a.quiet()
	before, views := a.fingerprint(), a.views()
	for i, end := range []func(){a.Stop, a.Kill, a.Stop} {
		end()
		last := a.journal.last()
		a.start()
		// A new pod shows that the agent works: what it does to the others comes before.
		mark := fmt.Sprintf("mark-%d", i)
		a.put(newPod(mark, idle))
		read := a.journal.wait(t, last, settle, "the next manifest", named("manifests_read", mark+".yaml"))
		a.pod(mark, "ready", ready)
		uid := string(a.podNow(mark).UID)
		a.Remove(mark + ".yaml")
		a.journal.wait(t, last, settle, "the end of "+mark, named("pod_forgotten", uid))
		var kinds []string
		for _, f := range a.journal.all(func(f messages.Flat) bool { return f.Epoch == read.Epoch }) {
			if f.Seq < read.Seq && !slices.Contains(ofTheWorld, f.Event) {
				kinds = append(kinds, f.Event)
			}
			if strings.Contains(f.Author+f.ID+string(f.Data), uid) {
				continue
			}
			switch f.Event {
			case "pod_status_changed", "call_requested", "call_dispatched", "pod_updated", "back_off_started", "pod_observed":
				t.Errorf("after restart %d, record %d: %s of %s %s", i, f.Seq, f.Event, f.Author, f.Data)
			}
		}
		if !slices.Equal(kinds, []string{"agent_started"}) {
			t.Errorf("idle restart %d recorded %v, want its start only", i, kinds)
		}
		a.unchanged(before, fmt.Sprint("restart ", i))
		if after := a.views(); !slices.Equal(views, after) {
			t.Errorf("restart %d changed the status of pods:\n%v\n%v", i, views, after)
		}
	}
	a.Verified()
}

// ofTheWorld are the facts about a runtime that other tests use too. The agent may record them at any time.
var ofTheWorld = []string{"runtime_health_changed", "images_observed"}

func TestLostJournalKeepsContainers(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("survivor", idle, scratch))
	a.pod("survivor", "ready", ready)
	before := a.fingerprint()
	a.loseJournal()
	a.start()
	p := a.pod("survivor", "ready again", ready)
	a.unchanged(before, "the agent with a new journal")
	if n := container(p, "main").RestartCount; n != 0 {
		t.Errorf("the pod reports %d restarts", n)
	}
}

func TestOrphanOfALostJournalIsReportedAndAdopted(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("orphan", idle, scratch))
	uid := a.pod("orphan", "ready", ready).UID
	a.loseJournal()
	a.Remove("orphan.yaml")
	a.start()
	p := a.pod("orphan", "reported as an orphan", func(p *corev1.Pod) bool { return p.Status.Reason == "Orphan" })
	if p.UID != uid || p.Namespace != "default" || p.CreationTimestamp.IsZero() {
		t.Errorf("it is reported as %s/%s, UID %s, of %s", p.Namespace, p.Name, p.UID, p.CreationTimestamp)
	}
	before := a.fingerprint()
	a.put(newPod("orphan", idle, scratch))
	a.pod("orphan", "ready", ready)
	a.unchanged(before, "its manifest")
}

func TestChangedPodOfALostJournalWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	const script = "mkdir /v/alone || touch /v/both; trap 'rmdir /v/alone; exit' TERM; while :; do sleep 0.1; done"
	dir := t.TempDir()
	on := func(p *corev1.Pod) {
		scratch(p)
		p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}
	}
	a := started(t, onePod("changed", script, on))
	before := a.pod("changed", "ready", ready).UID
	a.loseJournal()
	a.put(newPod("changed", "true; "+script, on))
	a.start()
	a.pod("changed", "ready with another UID", func(p *corev1.Pod) bool { return ready(p) && p.UID != before })
	if _, err := os.Stat(filepath.Join(dir, "both")); err == nil {
		t.Error("its container ran beside the container of the pod before it")
	}
}

func TestPodOfALostJournalLeavesTheNodesNetwork(t *testing.T) {
	t.Parallel()
	named := func(p *corev1.Pod) { p.UID = "moves" }
	onNode := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	a := started(t, onePod("moves", idle, named, onNode))
	p := a.pod("moves", "ready", ready)
	if p.Status.PodIP != p.Status.HostIP {
		t.Errorf("on the node's network it has the address %s", p.Status.PodIP)
	}
	a.loseJournal()
	a.Remove("moves.yaml")
	a.start()
	a.put(newPod("moves", idle, named))
	p = a.pod("moves", "ready with an address of its own", func(p *corev1.Pod) bool {
		return ready(p) && p.Status.PodIP != "" && p.Status.PodIP != p.Status.HostIP
	})
	if n := container(p, "main").RestartCount; n != 1 {
		t.Errorf("it reports %d restarts", n)
	}
}

// runsOnce checks that each of n pods runs, and that nothing of it ran before.
func runsOnce(t *testing.T, a *agent, n int) {
	t.Helper()
	canceled := canceledSandboxes(t, a)
	for _, s := range a.sandboxes() {
		m := s.GetMetadata()
		if s.GetState() != cri.PodSandboxState_SANDBOX_READY || m.GetAttempt() != canceled[m.GetUid()] {
			t.Errorf("sandbox of %s: %s, attempt %d", m.GetName(), s.GetState(), m.GetAttempt())
		}
	}
	aborted, running := map[string]uint32{}, map[string]uint32{}
	for _, c := range a.containers() {
		s, pod, attempt := containerStatus(t, c.GetId()), c.GetLabels()[node.PodNameLabel], c.GetMetadata().GetAttempt()
		switch {
		case c.GetState() == cri.ContainerState_CONTAINER_RUNNING:
			running[pod] = attempt
		case c.GetState() == cri.ContainerState_CONTAINER_EXITED && s.GetReason() == startError &&
			strings.Contains(s.GetMessage(), contextCanceled):
			// containerd cancels a start when its caller goes away, and kills the process if it already runs.
			aborted[pod]++
			t.Logf("the runtime canceled the start of %s when the agent was killed", pod)
		default:
			t.Errorf("container of %s: %s, attempt %d, %s %s", pod, c.GetState(), attempt, s.GetReason(), s.GetMessage())
		}
	}
	for pod, attempt := range running {
		if attempt != aborted[pod] {
			t.Errorf("container of %s runs as attempt %d after %d canceled ones", pod, attempt, aborted[pod])
		}
	}
	a.wantSandboxes(n)
	if len(running) != n {
		t.Errorf("%d pods have a running container, want %d", len(running), n)
	}
}

// canceledSandboxes counts, for each pod, the sandboxes whose creation the runtime canceled because the agent was
// killed.
func canceledSandboxes(t *testing.T, a *agent) map[string]uint32 {
	t.Helper()
	n := map[string]uint32{}
	events, _ := a.journal.seen()
	for _, f := range events {
		out := event(t, f).GetCallFinished()
		uid, isPod := strings.CutPrefix(out.GetRequester(), "pod/")
		if isPod && strings.Contains(out.GetMessage(), "was canceled while the runtime created it") {
			t.Logf("the runtime canceled sandbox %s when the agent was killed", out.GetSandboxId())
			n[uid]++
		}
	}
	return n
}

// How containerd reports a container whose start it canceled.
const (
	startError      = "StartError"
	contextCanceled = "context canceled"
)
