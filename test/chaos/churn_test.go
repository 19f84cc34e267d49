//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/node"
)

// kind is what a pod does.
type kind string

const (
	idles    kind = "idle"    // runs until it is ended
	crashes  kind = "crasher" // ends with an error, again and again
	succeeds kind = "job"     // ends well, for good
	fails    kind = "failure" // ends with an error, for good
)

const (
	// stablePrefix begins the names of pods whose manifests never change.
	stablePrefix = "stable-"
	// stablePods is how many there are of them beside those that churn.
	stablePods = 3
	turnLabel  = "turn"
	// longestPause lies between two changes of the churn.
	longestPause = 150 * time.Millisecond
)

// Each run of a container leaves a line in its pod's volume, which outlives containers and sandboxes, and in its log, which
// outlives the volume once the pod has ended. It does so after a moment: a runtime whose caller dies within a start gives
// the start up and kills the process, which may have been there already.
const leaveWord = "sleep 0.3; echo ran | tee -a /v/runs; "

var scripts = map[kind]string{
	idles: "trap 'exit 0' TERM; " + leaveWord + node.Idle, crashes: leaveWord + "sleep 0.2; exit 1", succeeds: leaveWord, fails: leaveWord + "exit 3",
}

// runsFile is where they leave it, below a pod's folder.
const runsFile = "volumes/kubernetes.io~empty-dir/v/runs"

// want is what a manifest asks for. Each change of it is another turn.
type want struct {
	kind     kind
	turn     int
	crashed  bool  // its container was ended behind the agent's back, or may have been
	restarts int32 // how many restarts there must have been at least
	padding  int   // bytes that the manifest is longer than it has to be
}

// sandboxes is how many may be ready once the pod is as wanted: an ended pod has none.
func (w want) sandboxes() int {
	if w.kind == idles || w.kind == crashes {
		return 1
	}
	return 0
}

// fits tells what the agent's report of a pod lacks.
func (w want) fits(p *corev1.Pod) error {
	s := p.Status
	switch {
	case p.DeletionTimestamp != nil:
		return fmt.Errorf("ends still")
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

// mayBeLost tells of a pod that runs once whether it has ended because nobody could tell if its container had started.
func (w want) mayBeLost(p *corev1.Pod) bool {
	if w.kind != succeeds && w.kind != fails || p.Status.Phase != corev1.PodFailed || len(p.Status.ContainerStatuses) != 1 {
		return false
	}
	end := p.Status.ContainerStatuses[0].State.Terminated
	return end != nil && end.Reason == "ContainerStatusUnknown" && end.ExitCode == 137
}

// manifest is the pod as a file.
func (w want) manifest(name string) string {
	policy := corev1.RestartPolicyAlways
	if w.kind == succeeds || w.kind == fails {
		policy = corev1.RestartPolicyNever
	}
	return node.Manifest(node.Pod(name, node.Image, scripts[w.kind], node.Restarts(policy), node.Scratch, func(p *corev1.Pod) {
		p.Labels = map[string]string{turnLabel: strconv.Itoa(w.turn)}
		p.Annotations = map[string]string{"padding": strings.Repeat("x", w.padding)}
	}))
}

// churn changes an agent's manifests at random and remembers what they want.
type churn struct {
	a      *agent
	r      *rand.Rand
	slots  int // pods that come, go and change
	turn   int
	wanted map[string]want
	did    map[string]int
}

// newChurn starts the agent with its stable pods and returns once these run.
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

// fill adds every pod that is not there.
func (c *churn) fill() {
	for i := range c.slots {
		name := fmt.Sprintf("churn-%02d", i)
		if _, ok := c.wanted[name]; !ok {
			c.put(name, c.anyKind())
		}
	}
}

// anyKind is idle half of the time.
func (c *churn) anyKind() kind {
	return []kind{idles, idles, idles, crashes, succeeds, fails}[c.r.IntN(6)]
}

// runFor changes one thing after the other for a time.
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

// crash ends a pod's running container behind the agent's back; false if there is none, or nobody to ask.
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
	// Whether the answer comes in time or not: it was asked to end.
	_, _ = setup.Runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: r.GetContainers()[0].GetId()})
	return true
}

func (c *churn) String() string {
	return strings.TrimPrefix(fmt.Sprint(c.did), "map")
}
