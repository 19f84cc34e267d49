//go:build chaos

package chaos

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/node"
)

const (
	// earlyKill is within an agent's start, lateKill well behind it.
	earlyKill = 250 * time.Millisecond
	lateKill  = 1800 * time.Millisecond
	// startingPods is how many start at once while the agent is killed; their containers' starts take startSpan or so.
	startingPods = 20
	startSpan    = 2 * time.Second
)

func TestAgentKilledAtRandomMomentsWhilePodsChurn(t *testing.T) {
	r := choices(t)
	a := newAgent(t)
	c, before := newChurn(a, r, length{12, 30}.now())
	c.fill()
	n := roundsOr(length{15, 200})
	for range n {
		// Mostly while it works, now and then while it starts.
		span := lateKill
		if r.IntN(4) == 0 {
			span = earlyKill
		}
		c.runFor(time.Duration(r.Int64N(int64(span))))
		a.Process.End(t, syscall.SIGKILL)
		a.Spawn()
	}
	a.Connect()
	a.freeHalfStarted()
	t.Logf("%d kills, pods: %s", n, c)
	a.recovered(c.wanted, before)
}

// A start of a container is the call that a kill may leave half done: the runtime gives it up when its caller goes away.
func TestAgentKilledWhileContainersStart(t *testing.T) {
	r := choices(t)
	a := newAgent(t)
	c, before := newChurn(a, r, 0)
	n := roundsOr(length{1, 40})
	for range n {
		for i := range startingPods {
			c.put(fmt.Sprintf("starting-%02d", i), []kind{idles, idles, succeeds}[r.IntN(3)])
		}
		node.Eventually(t, settle, "the first container's start", a.starts)
		for end := time.After(startSpan); ; {
			select {
			case <-time.After(time.Duration(r.Int64N(int64(earlyKill)))):
				a.Kill()
				a.Spawn()
				continue
			case <-end:
			}
			break
		}
	}
	a.Connect()
	a.freeHalfStarted()
	a.recovered(c.wanted, before)
}

// starts tells why no start of a container can be under way: none was made that has not run.
func (a *agent) starts() error {
	_, containers, err := a.OnRuntime()
	if err != nil {
		return err
	}
	for _, c := range containers {
		if c.GetState() == cri.ContainerState_CONTAINER_CREATED {
			return nil
		}
	}
	return fmt.Errorf("none of %d containers is about to start", len(containers))
}

// halfStarted is how containerd 2.4 tells that a start was given up between the making of a task and the question for its
// process. It calls the container exited and keeps the task, and then refuses each removal of the container: "cannot delete
// running task". Of CRI no call helps. When it starts the next time it finds a task that is created and a container that is
// exited, ends the task, and calls the container unknown, which can be removed. Of starts that are cancelled at a random
// moment about one in a hundred ends so.
const halfStarted = "failed to get task pid"

// freeHalfStarted restarts containerd if it holds such tasks, which the agent cannot make it give up. That they are free
// shows when their pods end: none of them could be removed.
func (a *agent) freeHalfStarted() {
	a.T.Helper()
	held := a.halfStarted()
	if len(held) == 0 {
		return
	}
	if _, err := lab("restart-containerd"); err != nil {
		a.T.Fatal(err)
	}
	a.T.Logf("containerd kept the tasks of %v and was restarted", held)
}

// halfStarted names the pods with containers that were given up within their start, by id.
func (a *agent) halfStarted() map[string]string {
	a.T.Helper()
	_, containers, err := a.OnRuntime()
	if err != nil {
		a.T.Fatal(err)
	}
	held := map[string]string{}
	for _, c := range containers {
		s, err := setup.Runtime.Container(c.GetId())
		if err == nil && strings.Contains(s.GetMessage(), halfStarted) {
			held[c.GetId()] = c.GetLabels()[node.PodNameLabel]
		}
	}
	return held
}
