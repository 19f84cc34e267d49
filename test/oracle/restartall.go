package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/journalet/journalet/test/oracle/agent"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// resetCode is the exit code for which a rule may have all containers begin again.
const resetCode = 42

// makeAnew makes up a pod whose first container ends; a rule of it, or of another one, may have all begin again.
func makeAnew(m *pods.Maker) string {
	p := m.Small()
	always := corev1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = nil
	if m.Chance(40) {
		p.Spec.InitContainers = []corev1.Container{{Name: "side", Image: "busybox", RestartPolicy: &always}}
	}
	p.Spec.RestartPolicy = pods.Pick(m, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.Lifecycle, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.RestartPolicy, c.RestartPolicyRules = nil, nil, nil, nil, nil, nil
		if i > 0 && m.Chance(70) {
			continue
		}
		policy := pods.Pick(m, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure, always)
		c.RestartPolicy = &policy
		for range 1 + m.N(2) {
			c.RestartPolicyRules = append(c.RestartPolicyRules, corev1.ContainerRestartRule{
				Action: pods.Pick(m, corev1.ContainerRestartRuleActionRestartAllContainers, corev1.ContainerRestartRuleActionRestartAllContainers, corev1.ContainerRestartRuleActionRestart),
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
					Operator: pods.Pick(m, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn),
					Values:   []int32{pods.Pick[int32](m, 1, resetCode, resetCode)},
				},
			})
		}
	}
	return "pod:\n  " + indent2(text(p)) + "\n"
}

// compareAnew holds what follows from the end of a container to what follows for the kubelet: who is stopped and with
// what grace, how often each is made, what the pod then reports. Attempt numbers differ, since the kubelet removes what was.
func compareAnew(c *testCase) {
	s, manifest, ok := readStory(c.text)
	if !ok || len(s.Pod.Spec.Containers) == 0 {
		return
	}
	w := c.world(manifest)
	if w == nil {
		return
	}
	defer w.close()
	ctx, name := context.Background(), w.parsed.Pod.Spec.Containers[0].Name
	clock := clocktesting.NewFakeClock(begin)
	w.theirs.opts.Clock, w.theirs.fake.Now, w.ours.fake.Now = clock, clock.Now, clock.Now
	kl, err := kubelet.New(w.theirs.opts, w.theirs.fake)
	if err != nil {
		panic(fmt.Sprintf("no kubelet: %v", err))
	}
	pod := w.parsed.Pod.DeepCopy()
	err = kl.Settle(ctx, pod)
	clock.Step(time.Second)
	if err == nil && w.theirs.fake.Exit(name, resetCode) {
		err = kl.Settle(ctx, pod)
	}
	switch {
	case errors.Is(err, kubelet.ErrRestless):
		c.count("the kubelet does not come to rest")
		return
	case err != nil:
		panic(fmt.Sprintf("the kubelet cannot sync: %v", err))
	}
	decider, err := agent.NewPod(ctx, w.ours.opts, w.ours.fake, w.parsed, nil)
	clock.Step(time.Second)
	if err == nil && w.ours.fake.Exit(name, resetCode) {
		err = decider.Look(ctx)
	}
	if err != nil {
		panic(fmt.Sprintf("our decider: %v", err))
	}
	if slices.ContainsFunc(w.theirs.fake.Calls(), func(m proto.Message) bool { _, gone := m.(*runtimeapi.RemoveContainerRequest); return gone }) {
		c.count("all began again")
	}
	c.differs("what is made and stopped", made(w.ours), made(w.theirs))
}

// made tells how often each container was made, and what each stop gave.
func made(s side) string {
	var out []string
	for _, call := range s.fake.Calls() {
		switch q := call.(type) {
		case *runtimeapi.CreateContainerRequest:
			out = append(out, "make "+q.GetConfig().GetMetadata().GetName())
		case *runtimeapi.StopContainerRequest:
			id, _, _ := strings.Cut(q.GetContainerId(), "/")
			out = append(out, fmt.Sprintf("stop %s within %d s", strings.TrimRight(id, "-0123456789"), q.GetTimeout()))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
