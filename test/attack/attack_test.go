//go:build attack

package attack

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/test/node"
	"github.com/journalet/journalet/test/strict"
)

// The judge's bounds.
const (
	// maxSlowdown bounds how much longer a pod's start takes during an attack than on a quiet node beside it, at the same
	// time on the same machine. Of two hundred starts on two idle cores none took three times as long.
	maxSlowdown = 5
	// maxTenantSlowdown bounds the same where the API server and the node read a hundred megabytes meanwhile, which is
	// most of the two cores of a small machine, and this process is the API server.
	maxTenantSlowdown = 30
	// maxStart bounds, on a quiet machine, the slowest start during an attack. Without one it takes half a second on two
	// fast cores. On a slower machine slowestSlowdown bounds it, by the slowest start on the quiet node meanwhile.
	maxStart        = 2 * time.Second
	slowestSlowdown = 2
	// maxMemory bounds the agent's peak resident memory.
	maxMemory = 256 << 20
	// killMemory ends an agent out of control, before it takes the machine's memory.
	killMemory = 4 * maxMemory
	// maxRestart bounds, on a quiet machine, the start of an agent that was killed during the attack. On any machine
	// node.Soon bounds it.
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
	first   func(*target) // has the agent start, before the attack, what it keeps from the first use on
	begin   func(*target) // starts the attack, and returns when it is under way
	cluster bool          // the agent is a node of a cluster: see cluster_test.go
	tenants bool          // so it is, and other tenants of the cluster are the judges: see tenants_test.go
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
	world *world      // nil without a cluster
	ns    *namespaces // nil without tenants
	// quiet is a node that nobody attacks. Whatever else makes the machine slow makes its starts slow, too.
	quiet *node.Agent
	pods  int             // bystanders so far
	calm  time.Duration   // what the start of one took before the attack
	took  []time.Duration // what the starts took during the attack
	aside []time.Duration // what the same starts took on the quiet node
	peak  int             // bytes of resident memory of the agents that were killed
	err   error           // of the memory's watcher
}

// run attacks an agent and judges it.
func (a attack) run(t *testing.T) {
	t.Helper()
	g := newTarget(t, a)
	if a.prepare != nil {
		a.prepare(g)
	}
	g.quiet.Start()
	g.Start()
	if a.first != nil {
		a.first(g)
	}
	g.bystander() // what the agent starts once, and keeps, exists from here on
	before := g.holdings()
	g.calm, g.took, g.aside = g.took[0], nil, nil
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
	if a.tenants {
		g.served()
	}
	if a.check != nil {
		a.check(g)
	}
	if a.end != nil {
		a.end(g)
	}
	g.removePods()
	if a.tenants {
		g.fits()
	}
	node.Eventually(t, settle, "every pod to be gone", g.Gone)
	node.Eventually(t, settle, "health after the attack", func() error { return g.healthyBut(a.unhealthy) })
	node.Eventually(t, settle, "the agent to hold no more than before", func() error {
		return g.holdings().beyond(before)
	})
	stop()
	g.inTime()
	g.unharmed(cmp.Or(a.memory, maxMemory))
}

func newTarget(t *testing.T, a attack) *target {
	t.Helper()
	port := node.Port(t)
	if a.memory > 0 || a.tenants {
		t.Setenv("GOMEMLIMIT", "384MiB") // as the unit in deploy/systemd
	}
	flags := append([]string{"--healthz-port", strconv.Itoa(port), "--profiling"}, a.flags...)
	g := &target{
		Agent: setup.NewAgent(t, settle, nil, flags...), T: t, port: port, quiet: setup.NewAgent(t, settle, nil),
	}
	if a.cluster || a.tenants {
		g.world = newWorld(g, a.tenants && *realAPI != "")
	}
	if a.tenants {
		g.ns = newNamespaces(g)
	}
	if *other != "" {
		g.Program = *other
	}
	return g
}

// bystander starts a pod that has nothing to do with the attack, and one on the quiet node, and waits until both run.
func (g *target) bystander() {
	g.Helper()
	g.pods++
	name := fmt.Sprintf("bystander-%d", g.pods)
	pod := node.Pod(name, node.Image, node.Idle)
	began := time.Now()
	g.quiet.Put(name+".yaml", node.Manifest(pod))
	if g.ns != nil {
		g.create(g.ns.others, pod)
	} else {
		g.Put(name+".yaml", node.Manifest(pod))
	}
	g.took = append(g.took, g.started(name, g.Node).Sub(began))
	g.aside = append(g.aside, g.started(name, g.quiet.Node).Sub(began))
}

// started waits until the one container of a node's pod runs, and returns since when.
func (g *target) started(name, nodeName string) (at time.Time) {
	g.Helper()
	node.Eventually(g.T, settle, name+" to run on "+nodeName, func() (err error) {
		at, err = startOf(name, nodeName)
		return err
	})
	return at
}

func median(all []time.Duration) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// startOf returns when the runtime started the one container of a node's pod. The agent is not asked: an attack may
// keep it from answering.
func startOf(pod, nodeName string) (time.Time, error) {
	ctx, cancel := node.Bounded()
	defer cancel()
	all, err := setup.Runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		State:         &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{node.PodNameLabel: pod + "-" + nodeName},
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
	g.peak = max(g.peak, peak(g.Process))
	g.Kill()
	began := time.Now()
	g.Start() // ends the test after a minute or two
	strict.Within(g.T, "the start of the agent during the attack", time.Since(began), maxRestart)
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
			if now := memory(p); now > killMemory {
				g.err = fmt.Errorf("the agent took %d MiB and was killed", now>>20)
				_ = p.Cmd.Process.Kill()
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// inTime judges the starts of the bystanders during the attack, by what they took on the quiet node at the same time,
// or before the attack if that was longer.
func (g *target) inTime() {
	g.Helper()
	during, calm, most := median(g.took), max(g.calm, median(g.aside)), time.Duration(maxSlowdown)
	if g.ns != nil {
		most = maxTenantSlowdown
	} else {
		strict.Within(g.T, "the slowest start of another pod", slices.Max(g.took),
			max(maxStart, slowestSlowdown*slices.Max(g.aside)))
	}
	g.Logf("another pod's start: %s during the attack, %s without it", during.Round(time.Millisecond),
		calm.Round(time.Millisecond))
	if during > most*calm {
		g.Errorf("other pods started in %s (median) during the attack, and in %s without it: want %d times that at most",
			during.Round(time.Millisecond), calm.Round(time.Millisecond), most)
	}
}

// unharmed judges the agent after the attack.
func (g *target) unharmed(memory int) {
	g.Helper()
	g.peak = max(g.peak, peak(g.Process))
	g.Logf("peak memory %d MiB", g.peak>>20)
	if g.peak > memory {
		g.Errorf("the agent's memory reached %d MiB, want %d at most", g.peak>>20, memory>>20)
	}
	if g.err != nil {
		g.Error(g.err)
	}
	if !g.Process.Running() {
		g.Errorf("the agent ended: %s", g.Process.Cmd.ProcessState)
	}
	log, _ := g.Log.Text()
	if at := strings.Index(log, defect.Remedy); at >= 0 {
		g.Errorf("the agent has a defect: %.4096s", log[max(0, at-512):])
	}
}

// removePods empties the manifest directory, and the namespaces of tenants.
func (g *target) removePods() {
	g.Helper()
	if g.ns != nil {
		g.emptyNamespaces()
	}
	var err error
	for _, dir := range []string{g.Manifests, g.quiet.Manifests} {
		entries, unread := os.ReadDir(dir)
		err = errors.Join(err, unread)
		for _, e := range entries {
			err = errors.Join(err, os.Remove(dir+"/"+e.Name()))
		}
	}
	if err != nil {
		g.Fatal(err)
	}
}
