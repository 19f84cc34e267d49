package upgrade

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/node"
)

const (
	// nodeName is the node of every recording: a journal belongs to one name.
	nodeName = "upgrade"
	// settle bounds what the agent does on a runtime that answers at once.
	settle = time.Minute
	// manifests is the folder of manifests, by a path that is the same in each recording and for each reader: it goes into
	// the pods' UIDs.
	manifests = "/proc/self/cwd/pods"
	// looks is how many times the agent must have looked at the whole runtime before nothing more is expected of it.
	looks = 3
)

func TestWhatOlderBuildsLeftIsTakenOverUntouched(t *testing.T) {
	if *record != "" {
		t.Run("record", recordBuild)
	}
	program, err := node.Build(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	recordings, err := filepath.Glob("testdata/*.tar.gz")
	if err != nil || len(recordings) == 0 {
		t.Fatalf("no recordings in testdata: %v", err)
	}
	for _, path := range recordings {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".tar.gz"), func(t *testing.T) { takesOver(t, program, path) })
	}
}

func takesOver(t *testing.T, program, recording string) {
	old := &frozen{}
	a := newAgent(t, program, old)
	past := unpack(t, recording, a.Dir)
	old.show(t, past, markOf(a.Root))
	a.Start()

	node.Eventually(t, settle, "every pod as the old build reported it", func() error {
		now, err := views(a)
		if err == nil && !maps.Equal(now, past.Views) {
			err = fmt.Errorf("they are\n%s\nand were\n%s", lines(now), lines(past.Views))
		}
		return err
	})
	// A pod that comes shows that the agent is at work; what it does to the others would stand before that.
	a.Put("new.yaml", node.Manifest(node.Pod("new", node.Image, node.Idle)))
	node.Eventually(t, settle, "the new pod's sandbox, and more looks at all pods", func() error {
		calls, listed := old.asked()
		if listed < looks || !slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "RunPodSandbox new-"+nodeName) }) {
			return fmt.Errorf("%d looks, calls: %v", listed, calls)
		}
		return nil
	})
	calls, _ := old.asked()
	for _, c := range calls {
		if !strings.Contains(c, "new-"+nodeName) {
			t.Errorf("the runtime was to be changed: %s", c)
		}
	}
	now, err := views(a)
	delete(now, "new-"+nodeName)
	if err != nil || !maps.Equal(now, past.Views) {
		t.Errorf("the pods are\n%s\nand were\n%s\n%v", lines(now), lines(past.Views), err)
	}
	a.Verified()

	// An old build did not keep that it had stopped them: once more, and from then on it is kept, over a restart too.
	dead := old.stoppedDead()
	if len(slices.Compact(slices.Clone(dead))) != len(dead) {
		t.Errorf("dead sandboxes were stopped more than once: %v", dead)
	}
	a.Kill()
	a.Start()
	_, before := old.asked()
	node.Eventually(t, settle, "looks at all pods after a restart", func() error {
		if _, listed := old.asked(); listed < before+looks {
			return fmt.Errorf("%d looks, and %d before", listed, before)
		}
		return nil
	})
	if again := old.stoppedDead(); !slices.Equal(again, dead) {
		t.Errorf("dead sandboxes were stopped again after a restart: %v, and before %v", again, dead)
	}

	// What the old build began, this one ends: the right container of the right pod.
	a.Remove("web.yaml")
	want := "StopContainer " + past.container("web-"+nodeName)
	node.Eventually(t, settle, want, func() error {
		if calls, _ := old.asked(); !slices.Contains(calls, want) {
			return fmt.Errorf("calls: %v", calls)
		}
		return nil
	})
	a.Kill()
	old.forget()
}

// newAgent prepares an agent on a runtime that is no real one.
func newAgent(t *testing.T, program string, rt server) *node.Agent {
	t.Helper()
	endpoint := serve(t, rt)
	runtime, err := node.Dial(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runtime.Conn().Close() })
	a := (&node.Setup{Program: program, Runtime: runtime}).NewAgent(t, settle, nil,
		"--static-pod-path", manifests, "--allow-beside-kubelet", "--resolv-conf", "", "--cgroups-per-qos=false")
	a.Node = nodeName
	return a
}

// views is what pods report, by name.
func views(a *node.Agent) (map[string]string, error) {
	pods, err := a.Pods()
	out := map[string]string{}
	for _, p := range pods {
		out[p.Name] += view(&p) // two of one name are another view
	}
	return out, err
}

func view(p *corev1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %s %s", p.UID, p.Status.Phase, p.Status.Reason, p.Status.PodIP, at(p.Status.StartTime))
	for _, c := range p.Status.Conditions {
		fmt.Fprintf(&b, " %s=%s@%s", c.Type, c.Status, at(&c.LastTransitionTime))
	}
	for _, c := range p.Status.ContainerStatuses {
		fmt.Fprintf(&b, " %s/%s/%d/%t", c.Name, c.ContainerID, c.RestartCount, c.Ready)
		for _, s := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			switch {
			case s.Running != nil:
				fmt.Fprintf(&b, "/running@%s", at(&s.Running.StartedAt))
			case s.Terminated != nil:
				fmt.Fprintf(&b, "/%s-%d@%s", s.Terminated.Reason, s.Terminated.ExitCode, at(&s.Terminated.FinishedAt))
			case s.Waiting != nil:
				fmt.Fprintf(&b, "/%s", s.Waiting.Reason)
			}
		}
	}
	return b.String()
}

func at(t *metav1.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func lines(views map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(views)) {
		fmt.Fprintf(&b, "  %s %s\n", name, views[name])
	}
	return b.String()
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
