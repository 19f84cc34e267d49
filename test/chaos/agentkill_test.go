//go:build chaos

package chaos

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/node"
)

const (
	// earlyKill comes during an agent's start, lateKill well after it.
	earlyKill = 250 * time.Millisecond
	lateKill  = 1800 * time.Millisecond
	// startingPods counts the pods that start at once while the agent is killed. Their containers' starts take about
	// startSpan.
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
		// One kill of four comes during the agent's start.
		span := lateKill
		if r.IntN(4) == 0 {
			span = earlyKill
		}
		c.runFor(time.Duration(r.Int64N(int64(span))))
		a.Process.End(t, syscall.SIGKILL)
		a.Spawn()
	}
	a.Connect()
	t.Logf("%d kills, pods: %s", n, c)
	a.recovered(c.wanted, before)
}

// A kill may leave the start of a container half done: the runtime cancels it when its caller goes away.
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
	a.recovered(c.wanted, before)
}

// starts returns an error while no container is created and not started.
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
