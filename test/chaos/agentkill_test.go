//go:build chaos

package chaos

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// earlyKill is within an agent's start, lateKill well behind it.
	earlyKill = 250 * time.Millisecond
	lateKill  = 1800 * time.Millisecond
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
		a.end(syscall.SIGKILL)
		a.spawn()
	}
	a.connect()
	a.freeHalfStarted()
	t.Logf("%d kills, pods: %s", n, c)
	a.recovered(c.wanted, before)
}

// freeHalfStarted takes away what no call of CRI removes: where an agent dies within a start, containerd 2.4 may say
// "failed to get task pid: context canceled", call the container exited, and keep its task, which holds up its removal
// until containerd is restarted.
func (a *agent) freeHalfStarted() {
	a.t.Helper()
	_, containers, err := a.onRuntime()
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range containers {
		s, err := statusOf(c.GetId())
		if err != nil || !strings.Contains(s.GetMessage(), "failed to get task pid") {
			continue
		}
		_, err = lab("restart-containerd")
		a.t.Logf("containerd kept the task of %.12s and was restarted: %v", c.GetId(), err)
		return
	}
}
