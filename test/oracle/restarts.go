package oracle

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/test/oracle/fakecri"
	"github.com/journalet/journalet/test/oracle/pods"
)

// runsCase is a case of a container that ends several times.
type runsCase struct {
	Pod *corev1.Pod `json:"pod"`
	// Runs are the runs of the first container.
	Runs []oneRun `json:"runs"`
	// MaxBackOff is the longest back-off, in seconds; 0: the default.
	MaxBackOff int `json:"maxBackOff,omitempty"`
}

type oneRun struct {
	Seconds  int   `json:"seconds"`
	ExitCode int32 `json:"exitCode,omitempty"`
}

// generateRuns returns a container that ends several times.
func generateRuns(m *pods.Generator) string {
	p := m.Small()
	p.Spec.Containers = p.Spec.Containers[:1]
	l := runsCase{MaxBackOff: pods.Pick(m, 0, 0, 1, 7, 60, 300)}
	for range 1 + m.N(12) {
		l.Runs = append(l.Runs, oneRun{
			Seconds: pods.Pick(m, 1, 1, 5, 9, 10, 11, 20, 299, 599, 600, 601, 1201), ExitCode: pods.Pick[int32](m, 0, 1, 1, 137),
		})
	}
	return podAnd(p, map[string]any{"runs": l.Runs, "maxBackOff": l.MaxBackOff})
}

// compareRestarts compares the back-offs between the runs of a container.
func compareRestarts(c *testCase) {
	l := runsCase{}
	if yaml.Unmarshal([]byte(c.text), &l) != nil || l.Pod == nil || len(l.Pod.Spec.Containers) == 0 {
		return
	}
	_, manifest, ok := readHistory(c.text)
	if !ok || slices.ContainsFunc(l.Runs, func(r oneRun) bool { return r.Seconds <= 0 }) {
		return // the kubelet has no order for two instances created at one time
	}
	w := c.world(manifest)
	if w == nil {
		return
	}
	defer w.close()
	longest := time.Duration(l.MaxBackOff) * time.Second
	w.ours.opts.MaxBackOff, w.theirs.opts.MaxBackOff = longest, longest
	c.differs("waits before restarts", w.ourWaits(l.Runs), w.theirWaits(l.Runs))
}

// theirWaits returns how long the kubelet waits before each restart.
func (w *world) theirWaits(runs []oneRun) string {
	ctx := context.Background()
	clock := clocktesting.NewFakeClock(begin)
	w.theirs.opts.Clock, w.theirs.fake.Now = clock, clock.Now
	kl := w.newKubelet()
	pod := w.parsed.Pod.DeepCopy()
	name := pod.Spec.Containers[0].Name
	sync := func() {
		check("the kubelet cannot sync", kl.Settle(ctx, pod))
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

// ourWaits returns how long we wait before each restart.
func (w *world) ourWaits(runs []oneRun) string {
	ctx := context.Background()
	clock := clocktesting.NewFakeClock(begin)
	w.ours.fake.Now = clock.Now
	decider := w.newDecider(nil)
	name := w.parsed.Pod.Spec.Containers[0].Name
	var waits []string
	for _, r := range runs {
		clock.Step(time.Duration(r.Seconds) * time.Second)
		if !w.ours.fake.Exit(name, r.ExitCode) {
			break
		}
		check("our decider", decider.Observe(ctx))
		waited := time.Duration(0)
		if next := decider.Next(); len(w.ours.fake.Running()) == 0 && next.Before(begin.AddDate(1, 0, 0)) {
			waited = next.Sub(clock.Now())
			clock.SetTime(next)
			check("our decider", decider.Fire(ctx))
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
