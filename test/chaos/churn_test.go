//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/node"
)

// kind is a pod's behaviour.
type kind string

const (
	idles    kind = "idle"    // runs until it is stopped
	crashes  kind = "crasher" // exits with an error after each restart
	succeeds kind = "job"     // exits with 0, and is not restarted
	fails    kind = "failure" // exits with an error, and is not restarted
)

const (
	// stablePrefix begins the names of pods whose manifests never change.
	stablePrefix = "stable-"
	// stablePods counts the pods with such names.
	stablePods = 3
	turnLabel  = "turn"
	// longestPause bounds the time between two changes.
	longestPause = 150 * time.Millisecond
)

// recordRun writes a line for each run of a container, to its pod's volume, which outlives containers and sandboxes,
// and to its log, which outlives the volume of a terminated pod. It waits a moment before: a runtime whose caller
// dies during a start cancels the start and kills the process, which may run already.
const recordRun = "sleep 0.3; echo ran | tee -a /v/runs; "

var scripts = map[kind]string{
	idles:    "trap 'exit 0' TERM; " + recordRun + node.Idle,
	crashes:  recordRun + "sleep 0.2; exit 1",
	succeeds: recordRun,
	fails:    recordRun + "exit 3",
}

// runsFile is the file that recordRun writes, below a pod's directory.
const runsFile = "volumes/kubernetes.io~empty-dir/v/runs"

// want is a pod's desired state. Each change of its manifest has a new turn.
type want struct {
	kind     kind
	turn     int
	crashed  bool  // the test stopped its container, or may have
	restarts int32 // least number of restarts
	padding  int   // additional length of the manifest, in bytes
}

// sandboxes returns the number of ready sandboxes: a terminated pod has none.
func (w want) sandboxes() int {
	if w.kind == idles || w.kind == crashes {
		return 1
	}
	return 0
}

// fits compares the pod with the agent's report of it.
func (w want) fits(p *corev1.Pod) error {
	s := p.Status
	switch {
	case p.DeletionTimestamp != nil:
		return errors.New("is still terminating")
	case p.Labels[turnLabel] != strconv.Itoa(w.turn):
		return fmt.Errorf("is of turn %s, want %d", p.Labels[turnLabel], w.turn)
	case len(s.ContainerStatuses) != 1:
		return fmt.Errorf("%s has %d containers", w.kind, len(s.ContainerStatuses))
	case w.kind == idles && node.Ready(p) && s.ContainerStatuses[0].RestartCount >= w.restarts,
		w.kind == crashes && s.Phase == corev1.PodRunning && s.ContainerStatuses[0].RestartCount > 0,
		w.kind == succeeds && s.Phase == corev1.PodSucceeded,
		w.kind == fails && s.Phase == corev1.PodFailed,
		w.mayBeLost(p):
		return nil
	}
	return fmt.Errorf("%s is %s %s %v", w.kind, s.Phase, s.Reason, s.ContainerStatuses)
}

// mayBeLost reports whether a pod that runs once has failed because it is unknown whether its container had started.
func (w want) mayBeLost(p *corev1.Pod) bool {
	if w.kind != succeeds && w.kind != fails || p.Status.Phase != corev1.PodFailed {
		return false
	}
	end := node.Container(p, "main").State.Terminated
	return end != nil && end.Reason == "ContainerStatusUnknown" && end.ExitCode == 137
}

// manifest returns the pod as YAML.
func (w want) manifest(name string) string {
	policy := corev1.RestartPolicyAlways
	if w.kind == succeeds || w.kind == fails {
		policy = corev1.RestartPolicyNever
	}
	marks := func(p *corev1.Pod) {
		p.Labels = map[string]string{turnLabel: strconv.Itoa(w.turn)}
		p.Annotations = map[string]string{"padding": strings.Repeat("x", w.padding)}
	}
	return node.Manifest(node.Pod(name, node.Image, scripts[w.kind], node.Restarts(policy), node.Scratch, marks))
}

// churn changes an agent's manifests at random and holds the desired state.
type churn struct {
	a      *agent
	r      *rand.Rand
	slots  int // pods that are added, changed and removed
	turn   int
	wanted map[string]want
	did    map[string]int
}

// newChurn starts the agent with its stable pods, and waits until they run.
func newChurn(a *agent, r *rand.Rand, slots int) (*churn, map[string]string) {
	a.T.Helper()
	c := &churn{a: a, r: r, slots: slots, wanted: map[string]want{}, did: map[string]int{}}
	for i := range stablePods {
		c.put(fmt.Sprintf("%s%d", stablePrefix, i), idles)
	}
	a.Start()
	node.Eventually(a.T, settle, "the stable pods", func() error { return a.holds(c.wanted) })
	return c, a.stable()
}

func (c *churn) put(name string, k kind) {
	c.a.T.Helper()
	c.putPadded(name, k, 0)
}

func (c *churn) putPadded(name string, k kind, padding int) {
	c.a.T.Helper()
	c.turn++
	w := want{kind: k, turn: c.turn, padding: padding}
	c.wanted[name] = w
	c.a.Put(name+".yaml", w.manifest(name))
}

func (c *churn) remove(name string) {
	c.a.T.Helper()
	delete(c.wanted, name)
	c.a.Remove(name + ".yaml")
}

// fill adds every missing pod.
func (c *churn) fill() {
	for i := range c.slots {
		name := fmt.Sprintf("churn-%02d", i)
		if _, ok := c.wanted[name]; !ok {
			c.put(name, c.anyKind())
		}
	}
}

// anyKind returns a random kind; half of them idle.
func (c *churn) anyKind() kind {
	return []kind{idles, idles, idles, crashes, succeeds, fails}[c.r.IntN(6)]
}

// runFor changes one pod after another for a time.
func (c *churn) runFor(d time.Duration) {
	end := time.After(d)
	for {
		select {
		case <-end:
			return
		case <-time.After(time.Duration(c.r.Int64N(int64(longestPause)))):
			c.change()
		}
	}
}

// change adds, removes, changes or crashes one pod.
func (c *churn) change() {
	name := fmt.Sprintf("churn-%02d", c.r.IntN(c.slots))
	w, there := c.wanted[name]
	k, dice := c.anyKind(), c.r.IntN(100)
	switch {
	case !there:
		c.did["added"]++
		c.put(name, k)
	case dice < 20:
		c.did["removed"]++
		c.remove(name)
	case dice < 45 || w.kind != idles:
		c.did["changed"]++
		c.put(name, k)
	default:
		if c.a.crash(name) {
			c.did["crashed"]++
			w.crashed = true
			c.wanted[name] = w
		}
	}
}

// crash stops a pod's running container as another CRI client. It returns false without such a container, and without a
// runtime.
func (a *agent) crash(name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r, err := setup.Runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		State:         &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{node.PodNameLabel: name + "-" + a.Node},
	}})
	if err != nil || len(r.GetContainers()) == 0 {
		return false
	}
	// Even if the call times out, the container may have been stopped.
	_, _ = setup.Runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: r.GetContainers()[0].GetId()})
	return true
}

func (c *churn) String() string {
	return strings.TrimPrefix(fmt.Sprint(c.did), "map")
}
