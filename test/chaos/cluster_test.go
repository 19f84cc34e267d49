//go:build chaos && cluster

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/journalet/journalet/test/cluster"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// stormFor is how long storms and calms follow each other. The last calm ends later.
var stormFor = flag.Duration("chaos.for", 5*time.Minute, "how long a cluster is harmed")

const (
	// nodeName is the name of the one node, namespace the namespace of all its workloads.
	nodeName  = "chaos"
	namespace = "chaos"
	// shortestStorm and longestStorm bound the time between two calms.
	shortestStorm, longestStorm = 45 * time.Second, 2 * time.Minute
	// clusterSettle bounds the time from the end of a storm until everything is as desired, on a machine that runs other
	// tests as well. A pod of a Job that failed is replaced after 10 s, the next after 20 s and so on.
	clusterSettle = 5 * time.Minute
	// requestTimeout bounds a test's request of the API server, which may be frozen.
	requestTimeout = 10 * time.Second
)

// site is a cluster of one node with everything that is done to it and observed of it.
type site struct {
	t       *testing.T
	cluster *cluster.Cluster
	client  *kubernetes.Clientset
	node    cluster.Node
	agent   *agent // its directories; it is started by the cluster
	lab     labPlaces
	before  census
	witness string // the directory where containers record what they do

	observer *observer
	churn    *clusterChurn
	kills    *kills
	calms    times
	adopted  int // containers that kills of the agent and of containerd in calms left as they were, summed up

	missing, doubles int // of what the witness has recorded, what was reported
}

// Everything of a cluster is killed at random moments, while Deployments, StatefulSets and Jobs change. In each calm
// the replicas are as desired, no pod is lost, doubled or stuck, and no container was replaced. At the end nothing is
// left.
func TestNoPodIsLostOrDoubledWhileTheClusterIsKilled(t *testing.T) {
	must.OK(t, cluster.Built(t.Context()))
	r := choices(t)
	s := newSite(t, r)
	begun := time.Now()
	for n := 1; n == 1 || time.Since(begun) < *stormFor; n++ {
		s.storm(shortestStorm + time.Duration(r.Int64N(int64(longestStorm-shortestStorm))))
		s.calm()
		t.Logf("storm %d is over, %s: %s", n, time.Since(begun).Round(time.Second), s)
	}
	s.clear()
	t.Logf("after %s: %s", time.Since(begun).Round(time.Second), s)
}

// newSite starts a control plane with an agent as its node, and the first workloads.
func newSite(t *testing.T, r *rand.Rand) *site {
	t.Helper()
	s := &site{t: t, lab: placesOfLab(t), node: cluster.Node{
		Name: nodeName, Endpoint: setup.Runtime.Endpoint, Config: configurationOfNode,
	}}
	if left := s.sandboxes(); len(left) > 0 {
		t.Fatalf("the lab has %d other sandboxes: take it down first, deploy/lab/lab.sh down", len(left))
	}
	t.Cleanup(s.removeSandboxes) // after the end of the agent, which the clean-up of the cluster brings
	s.cluster = cluster.Up(t, cluster.Options{})
	must.OK(t, s.cluster.StartAgent(t.Context(), setup.Program, s.node))
	dir := s.cluster.NodeDir(nodeName)
	s.agent = &agent{&node.Agent{
		T: t, Dir: dir, Root: filepath.Join(dir, "root"), PodLogs: filepath.Join(dir, "logs"),
		ContainerLogs: filepath.Join(dir, "links"), Program: setup.Program, Node: nodeName,
		CgroupRoot: fmt.Sprintf("jl-cluster-%d-%s", s.cluster.APIPort, nodeName),
	}}
	var err error
	s.before, err = s.agent.count(s.lab)
	must.OK(t, err)
	config, err := s.cluster.Config()
	must.OK(t, err)
	config.Timeout = requestTimeout
	s.client, err = kubernetes.NewForConfig(config)
	must.OK(t, err)
	s.provideWitness()
	s.provideNamespace()
	s.observer = observe(t, s.cluster.MustClient(t))
	s.churn = newClusterChurn(s, rand.New(rand.NewPCG(r.Uint64(), 1)))
	s.kills = newKills(s, rand.New(rand.NewPCG(r.Uint64(), 2)))
	return s
}

// configurationOfNode bounds the back-off of containers that a cancelled start has failed.
const configurationOfNode = "crashLoopBackOff: {maxContainerRestartPeriod: 5s}"

// provideWitness builds the containers' program into a directory of the host.
func (s *site) provideWitness() {
	s.t.Helper()
	s.witness = filepath.Join(s.cluster.Dir, "witness") // kept with the rest if the test fails
	for _, dir := range []string{"bin", "locks", "pods"} {
		must.OK(s.t, os.MkdirAll(filepath.Join(s.witness, dir), 0o755))
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), clusterSettle)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(s.witness, "bin", "witness"), "./witness")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the image has no C library
	if out, err := build.CombinedOutput(); err != nil {
		s.t.Fatalf("build the witness: %v\n%s", err, out)
	}
}

// provideNamespace creates the namespace, and waits for what every pod needs.
func (s *site) provideNamespace() {
	s.t.Helper()
	_, err := s.client.CoreV1().Namespaces().Create(s.t.Context(), &core.Namespace{
		ObjectMeta: meta.ObjectMeta{Name: namespace},
	}, meta.CreateOptions{})
	must.OK(s.t, err)
	_, err = s.client.CoreV1().Secrets(namespace).Create(s.t.Context(), &core.Secret{
		ObjectMeta: meta.ObjectMeta{Name: "credentials"}, StringData: map[string]string{"password": "canary"},
	}, meta.CreateOptions{})
	must.OK(s.t, err)
	node.Eventually(s.t, settle, "the default service account", func() error {
		_, err := s.client.CoreV1().ServiceAccounts(namespace).Get(s.t.Context(), "default", meta.GetOptions{})
		return err
	})
}

// storm harms the cluster for a time, while its workloads change.
func (s *site) storm(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	var changes sync.WaitGroup
	changes.Go(func() { s.churn.run(ctx) })
	s.kills.run(ctx)
	changes.Wait()
}

// calm checks that everything becomes as desired, once all that was killed runs again, and that kills of the agent
// and of containerd then change nothing.
func (s *site) calm() {
	s.t.Helper()
	s.kills.revive()
	s.reportWitnessed()
	begun := time.Now()
	node.Eventually(s.t, clusterSettle, "the changes of the storm", s.churn.repeat)
	node.Eventually(s.t, clusterSettle, "everything to be as desired", s.settles)
	s.calms.add(time.Since(begun))
	s.t.Logf("everything was as desired after %s", time.Since(begun).Round(100*time.Millisecond))
	before := s.instances()
	for _, v := range []victim{theAgent, theRuntime} {
		s.kills.kill(v)
		s.kills.revive()
		node.Eventually(s.t, clusterSettle, "commands in pods", s.commands)
		node.Eventually(s.t, clusterSettle, "everything to be as desired", s.settles)
		for id, was := range before {
			if is := s.instances()[id]; is != was {
				s.t.Errorf("%s was killed: %s is %s, was %s", v, id, is, was)
			}
		}
		s.adopted += len(before)
	}
}

// settles returns every difference from the desired state. It starts again what has ended by itself: the scheduler
// exits when its cache contradicts the API server.
func (s *site) settles() error {
	s.kills.start(time.Now())
	return s.fits()
}

// clear deletes all workloads and checks that nothing of them is left.
func (s *site) clear() {
	s.t.Helper()
	s.churn.removeAll()
	node.Eventually(s.t, clusterSettle, "deletion of all workloads", s.churn.repeat)
	node.Eventually(s.t, clusterSettle, "every pod to be gone", func() error {
		list, err := s.client.CoreV1().Pods(namespace).List(s.t.Context(), meta.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods are left, such as %s", len(list.Items), list.Items[0].Name)
		}
		return err
	})
	must.OK(s.t, collectGarbage())
	node.Eventually(s.t, settle, "nothing to be left", func() error {
		now, err := s.agent.count(s.lab)
		if err != nil {
			return err
		}
		return errors.Join(s.withoutContainerds(now), s.withoutAgents(now).beyond(s.before))
	})
	s.reportWitnessed()
	s.agent.Verified()
	must.OK(s.t, s.cluster.StopNode(s.t.Context(), nodeName))
}

// containerds are the kinds of things that a killed containerd leaves, and does not know of when it runs again: its
// CNI plugin's rules, leases, which it keeps for a day, and what was half deleted (ADR 050).
var containerds = []string{
	lostShims, "containerd leases", "iptables rules", "state/io.containerd.runtime.v2.task/k8s.io",
}

// leftByAKill bounds how many things of each kind one kill of containerd leaves: the three iptables rules of a sandbox
// that it was about to create.
const leftByAKill = 3

// withoutContainerds takes out what killed containerds have left. It returns an error if that is more than kills
// explain.
func (s *site) withoutContainerds(now census) (err error) {
	for _, kind := range containerds {
		left := len(now[kind]) - len(s.before[kind])
		if most := leftByAKill * s.kills.did[theRuntime]; left > most {
			err = errors.Join(err, fmt.Errorf("%d %s are left, and kills of containerd explain %d", left, kind, most))
		} else if left > 0 {
			s.t.Logf("left by killed containerds: %d %s", left, kind)
		}
		delete(now, kind)
	}
	return err
}

// withoutAgents takes the files that the agent keeps for itself, and creates with the first pods, from what is left.
func (s *site) withoutAgents(now census) census {
	const kind = "files in the root directory"
	own := []string{"objects.key", "events.cursor", "offline", "pods"}
	now[kind] = slices.DeleteFunc(now[kind], func(path string) bool {
		return filepath.Dir(path) == s.agent.Root && slices.Contains(own, filepath.Base(path))
	})
	return now
}

// removeSandboxes removes what a failed test has left on the runtime.
func (s *site) removeSandboxes() {
	for _, box := range s.sandboxes() {
		setup.Runtime.RemoveSandbox(box.GetId())
	}
}

func (s *site) String() string {
	return fmt.Sprintf("%s; %s; %s; %d times two at once after a deletion by force; calm after %s; %d times a container "+
		"was left as it was", s.kills, s.churn, s.observer, s.doubles, &s.calms, s.adopted)
}

// ignored returns err unless it is an answer of the kinds that a change of what others change, too, may have.
func ignored(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
