//go:build integration

package integration

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/strict"
)

func TestRestartPoliciesDecideWhatRunsAgain(t *testing.T) {
	t.Parallel()
	never, onFailure := restarts(corev1.RestartPolicyNever), restarts(corev1.RestartPolicyOnFailure)
	a := started(t, manifests(
		newPod("never-good", "exit 0", never),
		newPod("never-bad", "exit 7", never),
		newPod("onfail-good", "exit 0", onFailure),
		// The second run finds the first one's file.
		newPod("onfail-bad", "test -e /v/ran && exit 0; touch /v/ran; exit 7", onFailure, scratch),
		newPod("always", "test -e /v/ran && { "+idle+"; }; touch /v/ran; exit 0", scratch),
	))
	pods := a.pods("all pods in their last state", func(pods map[string]*corev1.Pod) bool {
		good, bad := phase(corev1.PodSucceeded), phase(corev1.PodFailed)
		return len(pods) == 5 && good(pods["never-good"]) && bad(pods["never-bad"]) &&
			good(pods["onfail-good"]) && good(pods["onfail-bad"]) &&
			ready(pods["always"]) && container(pods["always"], "main").RestartCount > 0
	})
	wants := map[string]int32{"never-good": 0, "never-bad": 0, "onfail-good": 0, "onfail-bad": 1, "always": 1}
	for name, want := range wants {
		if n := container(pods[name], "main").RestartCount; n != want {
			t.Errorf("%s was restarted %d times, want %d", name, n, want)
		}
	}
	// The first restart comes without a back-off: no timer leads to it.
	again := request(a, 0, pods["always"], "the first restart", func(c *journaletv1.CallRequested) bool {
		return c.GetStartContainer().GetAttempt() == 1
	})
	cause := a.journal.wait(t, 0, settle, "its cause", func(f messages.Flat) bool { return f.Seq == again.Cause })
	if cause.Event == "timer_fired" {
		t.Errorf("the first restart follows from a timer: %s", cause.Data)
	}
	c := container(pods["always"], "main")
	wait := c.State.Running.StartedAt.Sub(c.LastTerminationState.Terminated.FinishedAt.Time)
	strict.Within(t, "the first restart", wait, 5*time.Second)
}

func TestContainerStoppedByAnotherClientIsRestarted(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("victim", idle))
	before := container(a.pod("victim", "ready", ready), "main")
	stopContainer(t, before.ContainerID)
	c := container(a.pod("victim", "ready again", restarted), "main")
	if c.RestartCount != 1 || c.ContainerID == before.ContainerID || c.LastTerminationState.Terminated == nil {
		t.Errorf("after the stop: %+v", c)
	}
	if n := len(a.containers()); n != 2 {
		t.Errorf("the pod has %d containers, want the dead one and the running one", n)
	}
	a.wantSandboxes(1)
}

func TestChangedManifestEndsTheOldPodBeforeTheNewOneStarts(t *testing.T) {
	t.Parallel()
	// Slow to end, so that an overlap would show.
	a := started(t, onePod("changing", "trap 'sleep 1; exit 0' TERM; sleep 100000 & wait"))
	old := a.pod("changing", "ready", ready)
	a.put(newPod("changing", idle))
	now := a.pod("changing", "ready with its new content", func(p *corev1.Pod) bool {
		return ready(p) && p.UID != old.UID
	})

	// All observations of both, in order: the first one of the new container follows the last end of the old one.
	exited, begun := uint64(0), uint64(0)
	events, _ := a.journal.seen()
	for _, f := range events {
		o := event(t, f).GetPodObserved()
		for _, c := range o.GetContainers() {
			switch {
			case o.GetUid() == string(old.UID) && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED:
				exited = max(exited, f.Seq)
			case o.GetUid() == string(now.UID) && begun == 0:
				begun = f.Seq
			}
		}
	}
	if exited == 0 || begun < exited {
		t.Errorf("the old container's end was observed at record %d, the new container at %d", exited, begun)
	}
	start := time.Unix(0, containerStatus(t, container(now, "main").ContainerID).GetStartedAt())
	if end := ended(a, 0, old, "main").GetFinishedAt().AsTime(); start.Before(end) {
		t.Errorf("the new container started %s before the old one had ended", end.Sub(start))
	}
	a.journal.wait(t, 0, settle, "the old pod's end", named("pod_forgotten", string(old.UID)))
	a.wantSandboxes(1)
}

func TestCommentInAManifestChangesNothing(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("same", idle))
	before := a.pod("same", "ready", ready)
	a.Put("same.yaml", "# a comment\n"+manifest(newPod("same", idle)))
	// The source reports files in order, so the other pod shows that it has read the edit.
	a.put(newPod("tocsin", idle))
	after := a.pods("the other pod", allReady(2))["same"]
	if before.UID != after.UID || container(before, "main").ContainerID != container(after, "main").ContainerID {
		t.Error("a comment in the manifest replaced the pod")
	}
}

func TestDeletedPodHasItsGracePeriodAndLeavesNothing(t *testing.T) {
	t.Parallel()
	memory := func(p *corev1.Pod) {
		scratch(p)
		p.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory
	}
	a := started(t, manifests(
		newPod("polite", "trap 'sleep 1; exit 0' TERM; echo trapped; sleep 100000 & wait", memory),
		newPod("stubborn", "trap '' TERM; echo trapped; while true; do sleep 1; done", scratch),
	))
	pods := a.pods("both pods", allReady(2))
	polite, stubborn := pods["polite"], pods["stubborn"]
	for _, p := range pods {
		// Right after the start the process may still be runc, which a signal ends.
		a.logged(p, "main", "trapped")
	}
	after := a.journal.last()
	a.Remove("polite.yaml")
	a.Remove("stubborn.yaml")
	if code := ended(a, after, polite, "main").GetExitCode(); code != 0 {
		t.Errorf("polite ended with %d, want 0 within its grace period", code)
	}
	// Its grace period is 2 s.
	stop := stopRequest(a, after, stubborn, "main")
	wantRest(a, stop, removed(a, after, stubborn).Add(2*time.Second))
	wantEnd(t, ended(a, after, stubborn, "main"), 137, moment(t, stop), 2*time.Second, 10*time.Second)
	a.gone()
	a.wantNoFiles()
	if strings.Contains(readFile(t, "/proc/self/mounts"), a.Dir+"/") {
		t.Errorf("a mount is left below %s", a.Dir)
	}
}
