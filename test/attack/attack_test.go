//go:build attack

package attack

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/node"
)

// The judge's bounds.
const (
	// maxStart bounds the time from a manifest's write until its container runs, during an attack. Without one it takes
	// half a second on two cores.
	maxStart = 2 * time.Second
	// maxMemory bounds the agent's peak resident memory.
	maxMemory = 256 << 20
	// killMemory ends an agent out of control, before it takes the machine's memory.
	killMemory = 4 * maxMemory
	// maxRestart bounds the start of an agent that was killed during the attack.
	maxRestart = 5 * time.Second
	// settle bounds the removal of the attacker's pods, and the end of what the attack started in the agent. An idle
	// connection to the API server ends after 90 s (client-go).
	settle = 2 * time.Minute
	// watchEvery is the time between two reads of the agent's memory. A thousand MiB take longer.
	watchEvery = 20 * time.Millisecond
)

// attack is one way to harm the agent. Functions may be nil.
type attack struct {
	flags   []string
	prepare func(*target) // before the agent starts
	begin   func(*target) // starts the attack, and returns when it is under way
	cluster bool          // the agent is a node of a cluster: see cluster_test.go
	restart bool          // the agent is killed during the attack, and has to start in spite of it
	check   func(*target) // what must be true besides the judge's rules, during the attack
	end     func(*target) // ends what removing all manifests does not end

	memory    int    // bound of the agent's memory; 0: maxMemory
	unhealthy string // the check of /healthz that may still fail after the attack
}

// target is an agent under attack.
type target struct {
	*node.Agent
	*testing.T
	port  int
	world *world        // nil without a cluster
	pods  int           // bystanders so far
	worst time.Duration // slowest start of a bystander
	peak  int           // bytes of resident memory
	err   error         // of the memory's watcher
}

// run attacks an agent and judges it.
func (a attack) run(t *testing.T) {
	t.Helper()
	g := newTarget(t, a)
	if a.prepare != nil {
		a.prepare(g)
	}
	g.Start()
	g.bystander() // what the agent starts once, and keeps, exists from here on
	before := g.holdings()
	stop := g.watch()
	if a.begin != nil {
		a.begin(g)
	}
	g.bystander()
	if a.restart {
		g.restart()
		g.bystander()
	}
	g.bystander()
	if a.check != nil {
		a.check(g)
	}
	if a.end != nil {
		a.end(g)
	}
	g.removeManifests()
	node.Eventually(t, settle, "every pod to be gone", g.Gone)
	node.Eventually(t, settle, "health after the attack", func() error { return g.healthyBut(a.unhealthy) })
	node.Eventually(t, settle, "the agent to hold no more than before", func() error {
		return g.holdings().beyond(before)
	})
	stop()
	g.unharmed(cmp.Or(a.memory, maxMemory))
}

func newTarget(t *testing.T, a attack) *target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close() // the agent listens there from now on
	if a.memory > 0 {
		t.Setenv("GOMEMLIMIT", "384MiB") // as the unit in deploy/systemd
	}
	flags := append([]string{"--healthz-port", strconv.Itoa(port), "--profiling"}, a.flags...)
	g := &target{Agent: setup.NewAgent(t, settle, nil, flags...), T: t, port: port}
	if a.cluster {
		g.world = newWorld(g)
	}
	if *other != "" {
		g.Program = *other
	}
	return g
}

// bystander starts a pod that has nothing to do with the attack, and checks that it runs in time.
func (g *target) bystander() {
	g.Helper()
	g.pods++
	name := fmt.Sprintf("bystander-%d", g.pods)
	began := time.Now()
	g.Put(name+".yaml", node.Manifest(node.Pod(name, node.Image, node.Idle)))
	var started time.Time
	node.Eventually(g.T, settle, name+" to run", func() (err error) {
		started, err = g.startOf(name)
		return err
	})
	g.worst = max(g.worst, started.Sub(began))
}

// startOf returns when the runtime started the one container of a pod. The agent is not asked: an attack may keep it
// from answering.
func (g *target) startOf(pod string) (time.Time, error) {
	ctx, cancel := node.Bounded()
	defer cancel()
	all, err := setup.Runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		State:         &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{node.PodNameLabel: pod + "-" + g.Node},
	}})
	if err != nil {
		return time.Time{}, err
	}
	if len(all.GetContainers()) == 0 {
		return time.Time{}, errors.New("it has no running container")
	}
	status, err := setup.Runtime.Container(all.GetContainers()[0].GetId())
	return time.Unix(0, status.GetStartedAt()), err
}

// restart kills the agent and starts it again.
func (g *target) restart() {
	g.Helper()
	g.Kill()
	began := time.Now()
	g.Start()
	if took := time.Since(began); took > maxRestart {
		g.Errorf("the agent started after %s, want %s at most", took.Round(time.Millisecond), maxRestart)
	}
}

// watch ends the agent when its memory is out of control. The returned function stops it.
func (g *target) watch() func() {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(watchEvery):
			}
			p := g.Process
			if now := memory(p); now > g.peak {
				g.peak = now
			}
			if g.peak > killMemory {
				g.err = fmt.Errorf("the agent took %d MiB and was killed", g.peak>>20)
				_ = p.Cmd.Process.Kill()
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// unharmed judges the agent after the attack.
func (g *target) unharmed(memory int) {
	g.Helper()
	g.Logf("slowest start of another pod %s, peak memory %d MiB", g.worst.Round(time.Millisecond), g.peak>>20)
	if g.worst > maxStart {
		g.Errorf("another pod started after %s, want %s at most", g.worst.Round(time.Millisecond), maxStart)
	}
	if g.peak > memory {
		g.Errorf("the agent's memory reached %d MiB, want %d at most", g.peak>>20, memory>>20)
	}
	if g.err != nil {
		g.Error(g.err)
	}
	if !g.Process.Running() {
		g.Errorf("the agent ended: %s", g.Process.Cmd.ProcessState)
	}
}

// removeManifests empties the manifest directory.
func (g *target) removeManifests() {
	g.Helper()
	entries, err := os.ReadDir(g.Manifests)
	for _, e := range entries {
		err = errors.Join(err, os.Remove(g.Manifests+"/"+e.Name()))
	}
	if err != nil {
		g.Fatal(err)
	}
}
