//go:build chaos

package chaos

import (
	"testing"
	"time"

	"github.com/journalet/journalet/test/node"
)

const (
	// longestOutage bounds the time from containerd's end to its next start.
	longestOutage = time.Second
	// longestCalm bounds the time from its start to its next end.
	longestCalm = 4 * time.Second
)

func TestContainerdKilledUnderRunningPods(t *testing.T) {
	r := choices(t)
	a := newAgent(t)
	c, before := newChurn(a, r, length{8, 16}.now())
	c.fill()
	n := roundsOr(length{3, 20})
	for range n {
		c.runFor(time.Duration(r.Int64N(int64(longestCalm))))
		if _, err := node.Lab("kill-containerd"); err != nil {
			t.Fatal(err)
		}
		c.runFor(time.Duration(r.Int64N(int64(longestOutage))))
		if _, err := node.Lab("up"); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, pods: %s", n, c)
	a.recovered(c.wanted, before)
}
