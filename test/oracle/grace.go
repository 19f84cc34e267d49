package oracle

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/journalet/journalet/test/oracle/pods"
)

// generateGrace returns a pod whose container may have a preStop hook that sleeps. The kubelet's side takes as long as
// the hook does.
func generateGrace(m *pods.Generator) string {
	p := m.Small()
	grace := pods.Pick[int64](m, 1, 2, 3, 4, 5, 30)
	p.Spec.TerminationGracePeriodSeconds = &grace
	p.Spec.RestartPolicy, p.Spec.InitContainers, p.Spec.Containers = corev1.RestartPolicyAlways, nil, p.Spec.Containers[:1]
	c := &p.Spec.Containers[0]
	c.Lifecycle, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil, nil
	if m.Chance(80) {
		sleep := &corev1.SleepAction{Seconds: pods.Pick[int64](m, 0, 1, 1, 2, 3)}
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: sleep}}
	}
	return podAnd(p, nil)
}

// compareGrace compares the grace period that is left for a container after its preStop hook.
func compareGrace(c *testCase) {
	s, manifest, ok := readHistory(c.text)
	if !ok || len(s.Pod.Spec.Containers) != 1 || len(s.Pod.Spec.InitContainers) > 0 {
		return
	}
	w := c.world(manifest)
	if w == nil {
		return
	}
	defer w.close()
	ctx, kl := context.Background(), w.newKubelet()
	check("the kubelet", kl.Settle(ctx, w.parsed.Pod.DeepCopy()))
	check("the kubelet", kl.End(ctx, w.parsed.Pod.DeepCopy()))
	clock := clocktesting.NewFakeClock(begin)
	w.ours.fake.Now = clock.Now
	decider := w.newDecider(nil)
	decider.Sleep = clock.Step
	check("our decider", decider.Remove(ctx))
	ours, theirs := stops(w.ours), stops(w.theirs)
	if theirs == "" {
		c.count("nothing to stop")
	}
	c.differs("grace period", ours, theirs)
}

// stops returns the stops of containers with their grace periods.
func stops(s side) string {
	var out []string
	calls, _ := callsOf(s)
	for _, d := range calls {
		if d.what == stopsIt {
			out = append(out, d.line)
		}
	}
	return strings.Join(out, "\n")
}
