//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/node"
)

func TestRestartPoliciesDecideWhoRunsAgain(t *testing.T) {
	t.Parallel()
	manifests := map[string]string{}
	for name, p := range map[string]*corev1.Pod{
		"never-good":  newPod("never-good", "exit 0", restarts(corev1.RestartPolicyNever)),
		"never-bad":   newPod("never-bad", "exit 7", restarts(corev1.RestartPolicyNever)),
		"onfail-good": newPod("onfail-good", "exit 0", restarts(corev1.RestartPolicyOnFailure)),
		// The second run finds the first one's file.
		"onfail-bad": newPod("onfail-bad", "test -e /v/ran && exit 0; touch /v/ran; exit 7", restarts(corev1.RestartPolicyOnFailure), scratch),
		"always":     newPod("always", "test -e /v/ran && { "+idle+"; }; touch /v/ran; exit 0", scratch),
	} {
		manifests[name+".yaml"] = manifest(p)
	}
	a := started(t, manifests)
	pods := a.pods("all pods at their ends", func(pods map[string]*corev1.Pod) bool {
		good, bad := phase(corev1.PodSucceeded), phase(corev1.PodFailed)
		return len(pods) == 5 && good(pods["never-good"]) && bad(pods["never-bad"]) && good(pods["onfail-good"]) && good(pods["onfail-bad"]) &&
			ready(pods["always"]) && container(pods["always"], "main").RestartCount > 0
	})
	for name, want := range map[string]int32{"never-good": 0, "never-bad": 0, "onfail-good": 0, "onfail-bad": 1, "always": 1} {
		if n := container(pods[name], "main").RestartCount; n != want {
			t.Errorf("%s was restarted %d times, want %d", name, n, want)
		}
	}
	c := container(pods["always"], "main")
	if wait := c.State.Running.StartedAt.Sub(c.LastTerminationState.Terminated.FinishedAt.Time); wait > 5*time.Second {
		t.Errorf("the first restart came after %s; want it without a back-off", wait)
	}
}

func TestAContainerStoppedBehindTheAgentsBackIsStartedOnceMore(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("victim", idle))
	before := container(a.pod("victim", "ready", ready), "main")
	stopContainer(t, before.ContainerID)
	after := a.pod("victim", "runs again", func(p *corev1.Pod) bool { return ready(p) && container(p, "main").RestartCount > 0 })
	c := container(after, "main")
	if c.RestartCount != 1 || c.ContainerID == before.ContainerID || c.LastTerminationState.Terminated == nil {
		t.Errorf("after the stop: %+v", c)
	}
	if n := len(a.containers()); n != 2 {
		t.Errorf("%d containers are there, want the dead one and its successor", n)
	}
	if n := len(a.sandboxes()); n != 1 {
		t.Errorf("%d sandboxes are there, want the one of the beginning", n)
	}
}

func TestAChangedManifestEndsTheOldPodBeforeTheNewOneStarts(t *testing.T) {
	t.Parallel()
	// Slow to end, so that an overlap would show.
	a := started(t, onePod("changing", "trap 'sleep 1; exit 0' TERM; sleep 100000 & wait"))
	old := a.pod("changing", "ready", ready)
	oldID := container(old, "main").ContainerID
	a.Put("changing.yaml", manifest(newPod("changing", idle)))
	now := a.pod("changing", "ready with its new content", func(p *corev1.Pod) bool { return ready(p) && p.UID != old.UID })

	// Every observation of both, in order: the new one's container is never seen before the old one's end.
	ended, begun := uint64(0), uint64(0)
	events, _ := a.journal.seen()
	for _, f := range events {
		o := event(t, f).GetPodObserved()
		for _, c := range o.GetContainers() {
			switch {
			case o.GetUid() == string(old.UID) && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED:
				ended = max(ended, f.Seq)
			case o.GetUid() == string(now.UID) && begun == 0:
				begun = f.Seq
			}
		}
	}
	if ended == 0 || begun < ended {
		t.Errorf("the old container's end was seen at record %d, the new container at %d", ended, begun)
	}
	start := containerStatus(t, container(now, "main").ContainerID).GetStartedAt()
	if end := endOf(t, a, string(old.UID), node.BareID(oldID)); start < end.UnixNano() {
		t.Errorf("the new container started %s before the old one had ended", end.Sub(time.Unix(0, start)))
	}
	a.journal.wait(t, 0, settle, "the old pod's end", named("pod_forgotten", string(old.UID)))
	if n := len(a.sandboxes()); n != 1 {
		t.Errorf("%d sandboxes are left, want the new pod's", n)
	}
}

// endOf is when a container ended, as the agent saw it.
func endOf(t *testing.T, a *agent, uid, id string) time.Time {
	t.Helper()
	var end time.Time
	a.journal.wait(t, 0, settle, "the end of "+id, func(f bus.Flat) bool {
		for _, c := range event(t, f).GetPodObserved().GetContainers() {
			if c.GetId() == id && c.GetFinishedAt() != nil && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED {
				end = c.GetFinishedAt().AsTime()
				return true
			}
		}
		return false
	})
	return end
}

func TestAnEditWithoutMeaningTouchesNothing(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("same", idle))
	before := a.pod("same", "ready", ready)
	a.Put("same.yaml", "# a remark\n"+manifest(newPod("same", idle)))
	// Files are told in order, so the other pod's coming shows that the edit was read.
	a.Put("tocsin.yaml", manifest(newPod("tocsin", idle)))
	after := a.pods("the other pod", allReady(2))["same"]
	if before.UID != after.UID || container(before, "main").ContainerID != container(after, "main").ContainerID {
		t.Errorf("a remark in the manifest made another pod of it")
	}
}

func TestADeletedPodHasItsGracePeriodAndLeavesNothing(t *testing.T) {
	t.Parallel()
	memory := func(p *corev1.Pod) {
		scratch(p)
		p.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory
	}
	a := started(t, map[string]string{
		"polite.yaml":   manifest(newPod("polite", "trap 'sleep 1; exit 0' TERM; echo deaf; sleep 100000 & wait", memory)),
		"stubborn.yaml": manifest(newPod("stubborn", "trap '' TERM; echo deaf; while true; do sleep 1; done", scratch)),
	})
	pods := a.pods("both pods", allReady(2))
	for _, p := range pods {
		// Right after the start runc may still be there in the shell's place, and it dies of a signal.
		a.logged(p, "main", "deaf")
	}
	after := a.journal.last()
	a.Remove("polite.yaml")
	a.Remove("stubborn.yaml")
	ends := map[string]*journaletv1.ContainerObservation{}
	for name, p := range pods {
		a.journal.wait(t, after, settle, "the end of "+name, func(f bus.Flat) bool {
			o := event(t, f).GetPodObserved()
			for _, c := range o.GetContainers() {
				if o.GetUid() == string(p.UID) && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED {
					ends[name] = c
				}
			}
			return ends[name] != nil
		})
	}
	if c := ends["polite"]; c.GetExitCode() != 0 {
		t.Errorf("polite ended with %d, want 0: it had time", c.GetExitCode())
	}
	if c := ends["stubborn"]; c.GetExitCode() != 137 {
		t.Errorf("stubborn ended with %d, want 137: killed", c.GetExitCode())
	}
	stop := a.journal.wait(t, after, settle, "the order to stop stubborn", func(f bus.Flat) bool {
		c := event(t, f).GetCallRequested()
		return c.GetPodUid() == string(pods["stubborn"].UID) && c.GetStopContainer() != nil
	})
	asked, err := time.Parse(time.RFC3339Nano, stop.Time)
	if err != nil {
		t.Fatal(err)
	}
	if took := ends["stubborn"].GetFinishedAt().AsTime().Sub(asked); took < 1900*time.Millisecond || took > 10*time.Second {
		t.Errorf("stubborn was killed after %s, want its grace period of 2 s", took)
	}
	a.gone()
	for _, dir := range []string{filepath.Join(a.Root, "pods"), a.PodLogs, a.ContainerLogs} {
		if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
			t.Errorf("%s still holds %v (%v)", dir, names, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), a.Dir+"/") {
		t.Errorf("a mount is left below %s (%v)", a.Dir, err)
	}
}
