//go:build chaos

package chaos

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/journalet/journalet/test/node"
)

// hangSeconds is longer than callDeadline, so that the agent's own deadline passes while the call hangs.
var hangSeconds = length{12, 60}

const (
	callDeadline = "runtimeRequestTimeout: 8s"
	// othersSettle bounds the start and restart of other pods during the hang. Alone they take a second or two.
	othersSettle = 20 * time.Second
)

func TestHungCallsOfOnePodDelayNoOther(t *testing.T) {
	a := newAgent(t, callDeadline)
	p := a.behindProxy()
	c, before := newChurn(a, choices(t), 0)
	c.put("hung-old", idles)
	c.put("victim", idles)
	node.Eventually(t, settle, "all pods", func() error { return a.holds(c.wanted) })

	// A running pod, by all its names, and a pod that is about to start.
	p.hang(append(a.namesOf("hung-old"), "hung-new-"+a.Node)...)
	end := time.Now().Add(time.Duration(hangSeconds.now()) * time.Second)
	c.crash("hung-old")
	c.put("hung-new", idles)
	node.Eventually(t, node.Soon, "a call of each hung pod", p.holdsBoth)
	round := 0
	for ; round == 0 || time.Now().Before(end); round++ {
		name := fmt.Sprintf("during-%d", round%2)
		c.put(name, idles)
		c.crash("victim")
		node.Eventually(t, othersSettle, fmt.Sprintf("start and restart of others, round %d", round), func() error {
			others := map[string]want{}
			for n, w := range c.wanted {
				if n != "hung-old" && n != "hung-new" {
					others[n] = w
				}
			}
			return a.holdsAtLeast(others)
		})
		if a.holdsAtLeast(map[string]want{"hung-new": c.wanted["hung-new"]}) == nil {
			t.Fatal("the hung pod runs: nothing was held")
		}
		c.remove(name)
	}
	t.Logf("others started and restarted %d times while %d calls were held", round, p.release())
	a.recovered(c.wanted, before)
}

// crash stops a pod's container, which must run.
func (c *churn) crash(name string) {
	c.a.T.Helper()
	node.Eventually(c.a.T, node.Soon, "a container of "+name+" to end", func() error {
		if !c.a.crash(name) {
			return errors.New("none runs")
		}
		return nil
	})
	w := c.wanted[name]
	w.crashed, w.restarts = true, w.restarts+1
	c.wanted[name] = w
}
