package oracle

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/journalet/journalet/test/oracle/agent"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// makeFarewell makes up a pod that is ended, of which the container may have a preStop hook that sleeps. The kubelet's side takes as long
// as the hook does.
func makeFarewell(m *pods.Maker) string {
	p := m.Small()
	grace := pods.Pick[int64](m, 1, 2, 3, 4, 5, 30)
	p.Spec.TerminationGracePeriodSeconds = &grace
	p.Spec.RestartPolicy, p.Spec.InitContainers, p.Spec.Containers = corev1.RestartPolicyAlways, nil, p.Spec.Containers[:1]
	c := &p.Spec.Containers[0]
	c.Lifecycle, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil, nil
	if m.Chance(80) {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: pods.Pick[int64](m, 0, 1, 1, 2, 3)}}}
	}
	return "pod:\n  " + indent2(text(p)) + "\n"
}

// compareFarewells holds what a container gets to end by itself, after its preStop hook, to what the kubelet gives it.
func compareFarewells(c *testCase) {
	s, manifest, ok := readStory(c.text)
	if !ok || len(s.Pod.Spec.Containers) != 1 || len(s.Pod.Spec.InitContainers) > 0 {
		return
	}
	w := c.world(manifest)
	if w == nil {
		return
	}
	defer w.close()
	ctx := context.Background()
	kl, err := kubelet.New(w.theirs.opts, w.theirs.fake)
	if err == nil {
		err = kl.Settle(ctx, w.parsed.Pod.DeepCopy())
	}
	if err == nil {
		err = kl.End(ctx, w.parsed.Pod.DeepCopy())
	}
	if err != nil {
		panic(fmt.Sprintf("the kubelet: %v", err))
	}
	clock := clocktesting.NewFakeClock(begin)
	w.ours.fake.Now = clock.Now
	decider, err := agent.NewPod(ctx, w.ours.opts, w.ours.fake, w.parsed, nil)
	if err == nil {
		decider.Sleep = clock.Step
		err = decider.Remove(ctx)
	}
	if err != nil {
		panic(fmt.Sprintf("our decider: %v", err))
	}
	ours, theirs := stops(w.ours), stops(w.theirs)
	if theirs == "" {
		c.count("nothing to stop")
	}
	c.differs("what a container gets to end", ours, theirs)
}

// stops are the stops of containers with what they get.
func stops(s side) string {
	var out []string
	for _, d := range deeds(s) {
		if strings.HasPrefix(d, "stop container") {
			out = append(out, d)
		}
	}
	return strings.Join(out, "\n")
}
