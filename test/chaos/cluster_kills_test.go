//go:build chaos && cluster

package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/journalet/journalet/test/cluster"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// victim is what is killed: a part of the control plane, by the name of its program, or one of these.
type victim string

const (
	theAgent   victim = "agent"
	theRuntime victim = "containerd"
	// theFrozen is the API server that is stopped for a while instead of killed: connections stay, answers do not come.
	theFrozen victim = "frozen API server"
)

const (
	// longestPeace bounds the time between two kills.
	longestPeace = 8 * time.Second
	// watchEvery is the time between two checks of what runs.
	watchEvery = 100 * time.Millisecond
	// shortestFreeze and longestFreeze bound a frozen API server. A client learns of it after 30 s at best.
	shortestFreeze, longestFreeze = 20 * time.Second, 60 * time.Second
)

// outages bounds how long a victim stays away. The weights are the odds of being one.
var outages = []struct {
	victim  victim
	weight  int
	longest time.Duration
}{
	{theAgent, 40, 4 * time.Second},
	{theRuntime, 16, 3 * time.Second},
	{victim(cluster.APIServer), 14, 10 * time.Second},
	{victim(cluster.Etcd), 10, 8 * time.Second},
	{victim(cluster.ControllerManager), 8, 6 * time.Second},
	{victim(cluster.Scheduler), 6, 6 * time.Second},
	{theFrozen, 6, longestFreeze},
}

// kills ends parts of a cluster and starts them again. Only the test's goroutine uses it.
type kills struct {
	s     *site
	r     *rand.Rand
	until map[victim]time.Time // when what is away is started again
	did   map[victim]int
	ended map[victim]int // how often each ended by itself, because what it needs was killed
}

func newKills(s *site, r *rand.Rand) *kills {
	return &kills{s: s, r: r, until: map[victim]time.Time{}, did: map[victim]int{}, ended: map[victim]int{}}
}

// run kills until the context ends.
func (k *kills) run(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	next := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		k.start(time.Now())
		if time.Now().After(next) {
			k.strike()
			next = time.Now().Add(time.Duration(k.r.Int64N(int64(longestPeace))))
		}
	}
}

// strike kills a victim that runs, by chance.
func (k *kills) strike() {
	all := 0
	for _, o := range outages {
		all += o.weight
	}
	dice := k.r.IntN(all)
	for _, o := range outages {
		if dice -= o.weight; dice >= 0 {
			continue
		}
		away := time.Duration(k.r.Int64N(int64(o.longest)))
		if o.victim == theFrozen {
			away = max(away, shortestFreeze)
		}
		if _, is := k.until[o.victim]; !is {
			k.kill(o.victim)
			if _, is = k.until[o.victim]; !is {
				return // it had ended before, for want of another
			}
			k.until[o.victim] = time.Now().Add(away)
			k.s.t.Logf("%s killed %s for %s", time.Now().Format(time.TimeOnly), o.victim, away.Round(time.Millisecond))
		}
		return
	}
}

// kill ends a victim and returns when the victim is gone. It does nothing if the victim has ended by itself.
func (k *kills) kill(v victim) {
	k.s.t.Helper()
	target := v
	if v == theFrozen {
		target = victim(cluster.APIServer)
	}
	if !k.running(target) {
		return
	}
	k.did[v]++
	k.until[v] = time.Now()
	var err error
	switch v {
	case theAgent:
		err = k.s.cluster.KillNode(nodeName)
	case theRuntime:
		_, err = node.Lab("kill-containerd")
	case theFrozen:
		err = k.s.cluster.Signal(cluster.APIServer, syscall.SIGSTOP)
	default:
		err = k.s.cluster.Kill(cluster.Program(v))
	}
	must.OK(k.s.t, err)
}

// running reports whether a victim runs. An agent that has ended by itself fails the test.
func (k *kills) running(v victim) bool {
	var pid int
	var err error
	switch v {
	case theAgent:
		pid, err = k.s.cluster.RunningNode(nodeName)
		if pid == 0 {
			k.s.t.Errorf("the agent has ended by itself (%v); the end of its log:\n%s", err, k.s.cluster.TailNode(nodeName))
		}
	case theRuntime, theFrozen:
		return true // the first is started by its lab, the second is the API server's
	default:
		pid, err = k.s.cluster.Running(cluster.Program(v))
	}
	must.OK(k.s.t, err)
	return pid != 0
}

// start starts what has been away long enough, and what has ended by itself, in the order of outages reversed: etcd
// before the API server.
func (k *kills) start(now time.Time) {
	k.s.t.Helper()
	for _, o := range slices.Backward(outages) {
		until, away := k.until[o.victim]
		if away && now.Before(until) {
			continue
		}
		if !away {
			if k.running(o.victim) {
				continue
			}
			k.ended[o.victim]++
		}
		delete(k.until, o.victim)
		must.OK(k.s.t, k.spawn(o.victim))
	}
}

func (k *kills) spawn(v victim) error {
	switch v {
	case theAgent:
		return k.s.cluster.SpawnAgent(setup.Program, k.s.node)
	case theRuntime:
		_, err := node.Lab("up")
		return err
	case theFrozen:
		if !k.running(victim(cluster.APIServer)) {
			return nil // killed meanwhile
		}
		return k.s.cluster.Signal(cluster.APIServer, syscall.SIGCONT)
	}
	if k.running(v) {
		return nil // it was frozen when it was to be killed, or it had ended by itself
	}
	return k.s.cluster.Spawn(cluster.Program(v))
}

// revive starts everything that is away, and waits until all of it is ready.
func (k *kills) revive() {
	k.s.t.Helper()
	for v := range k.until {
		k.until[v] = time.Time{}
	}
	node.Eventually(k.s.t, clusterSettle, "the control plane and the node", func() error {
		k.start(time.Now())
		ctx, cancel := context.WithTimeout(k.s.t.Context(), requestTimeout)
		defer cancel()
		for _, p := range cluster.Parts() {
			if err := k.s.cluster.Healthy(ctx, p); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
		return k.s.cluster.NodeReady(ctx, nodeName)
	})
}

func (k *kills) String() string {
	var text []string
	for _, v := range slices.Sorted(maps.Keys(k.did)) {
		text = append(text, fmt.Sprintf("%s %d", v, k.did[v]))
	}
	own := 0
	for _, n := range k.ended {
		own += n
	}
	return fmt.Sprintf("kills: %s; ended without them %d", strings.Join(text, ", "), own)
}
