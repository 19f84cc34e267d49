package oracle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/test/oracle/agent"
	"github.com/journalet/journalet/test/oracle/fakecri"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// life is a case of a container that ends again and again.
type life struct {
	Pod *corev1.Pod `json:"pod"`
	// Runs are how long each run of the first container lasts, in seconds, and how it ends.
	Runs []oneRun `json:"runs"`
	// MaxBackOff is the longest back-off, in seconds; 0: the default.
	MaxBackOff int `json:"maxBackOff,omitempty"`
}

type oneRun struct {
	Seconds  int   `json:"seconds"`
	ExitCode int32 `json:"exitCode,omitempty"`
}

// makeLife makes up a container that ends again and again.
func makeLife(m *pods.Maker) string {
	p := m.Small()
	p.Spec.Containers = p.Spec.Containers[:1]
	l := life{MaxBackOff: pods.Pick(m, 0, 0, 1, 7, 60, 300)}
	for range 1 + m.N(12) {
		l.Runs = append(l.Runs, oneRun{Seconds: pods.Pick(m, 1, 1, 5, 9, 10, 11, 20, 299, 599, 600, 601, 1201), ExitCode: pods.Pick[int32](m, 0, 1, 1, 137)})
	}
	data, err := yaml.Marshal(map[string]any{"runs": l.Runs, "maxBackOff": l.MaxBackOff})
	if err != nil {
		panic(fmt.Sprintf("a life is no YAML: %v", err))
	}
	return "pod:\n  " + indent2(text(p)) + "\n" + string(data)
}

// compareRestarts holds the waits between the runs of a container to the kubelet's.
func compareRestarts(c *testCase) {
	l := life{}
	if yaml.Unmarshal([]byte(c.text), &l) != nil || l.Pod == nil || len(l.Pod.Spec.Containers) == 0 {
		return
	}
	_, manifest, ok := readStory(c.text)
	if !ok || slices.ContainsFunc(l.Runs, func(r oneRun) bool { return r.Seconds <= 0 }) {
		return // two instances made at one time have no order in the kubelet
	}
	w := c.world(manifest)
	if w == nil {
		return
	}
	defer w.close()
	w.ours.opts.MaxBackOff, w.theirs.opts.MaxBackOff = time.Duration(l.MaxBackOff)*time.Second, time.Duration(l.MaxBackOff)*time.Second
	theirs := w.livesAsTheKubelets(l.Runs)
	ours := w.livesAsOurs(l.Runs)
	c.differs("waits before restarts", ours, theirs)
}

// livesAsTheKubelets tells how long the kubelet waits before each restart.
func (w *world) livesAsTheKubelets(runs []oneRun) string {
	ctx := context.Background()
	clock := clocktesting.NewFakeClock(begin)
	w.theirs.opts.Clock, w.theirs.fake.Now = clock, clock.Now
	kl, err := kubelet.New(w.theirs.opts, w.theirs.fake)
	if err != nil {
		panic(fmt.Sprintf("no kubelet: %v", err))
	}
	pod := w.parsed.Pod.DeepCopy()
	name := pod.Spec.Containers[0].Name
	sync := func() {
		if err := kl.Settle(ctx, pod); err != nil {
			panic(fmt.Sprintf("the kubelet cannot sync: %v", err))
		}
	}
	sync()
	var waits []string
	for _, r := range runs {
		clock.Step(time.Duration(r.Seconds) * time.Second)
		if !w.theirs.fake.Exit(name, r.ExitCode) {
			break
		}
		sync()
		waited := time.Duration(0)
		if len(w.theirs.fake.Running()) == 0 {
			if waited = kl.BackOff(pod, &pod.Spec.Containers[0]); waited > 0 {
				clock.Step(waited)
				sync()
			}
		}
		waits = append(waits, wait(w.theirs.fake, waited))
	}
	return strings.Join(waits, " ")
}

// livesAsOurs tells how long we wait.
func (w *world) livesAsOurs(runs []oneRun) string {
	ctx := context.Background()
	clock := clocktesting.NewFakeClock(begin)
	w.ours.fake.Now = clock.Now
	decider, err := agent.NewPod(ctx, w.ours.opts, w.ours.fake, w.parsed, nil)
	if err != nil {
		panic(fmt.Sprintf("our decider: %v", err))
	}
	name := w.parsed.Pod.Spec.Containers[0].Name
	var waits []string
	for _, r := range runs {
		clock.Step(time.Duration(r.Seconds) * time.Second)
		if !w.ours.fake.Exit(name, r.ExitCode) {
			break
		}
		if err := decider.Look(ctx); err != nil {
			panic(fmt.Sprintf("our decider: %v", err))
		}
		waited := time.Duration(0)
		if next := decider.Next(); len(w.ours.fake.Running()) == 0 && next.Before(begin.AddDate(1, 0, 0)) {
			waited = next.Sub(clock.Now())
			clock.SetTime(next)
			if err := decider.Fire(ctx); err != nil {
				panic(fmt.Sprintf("our decider: %v", err))
			}
		}
		waits = append(waits, wait(w.ours.fake, waited))
	}
	return strings.Join(waits, " ")
}

func wait(fake *fakecri.Runtime, waited time.Duration) string {
	if len(fake.Running()) == 0 {
		return "never"
	}
	return waited.String()
}
