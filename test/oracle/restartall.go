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

	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// resetCode is the exit code that a rule may restart all containers for.
const resetCode = 42

// generateRestartAll returns a pod whose first container ends. A rule of it, or of another one, may restart all.
func generateRestartAll(m *pods.Generator) string {
	p := m.Small()
	always := corev1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = nil
	if m.Chance(40) {
		p.Spec.InitContainers = []corev1.Container{{Name: "side", Image: "busybox", RestartPolicy: &always}}
	}
	p.Spec.RestartPolicy = pods.Pick(m, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure,
		corev1.RestartPolicyNever)
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.Lifecycle, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil, nil
		c.RestartPolicy, c.RestartPolicyRules = nil, nil
		if i > 0 && m.Chance(70) {
			continue
		}
		policy := pods.Pick(m, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure, always)
		c.RestartPolicy = &policy
		for range 1 + m.N(2) {
			c.RestartPolicyRules = append(c.RestartPolicyRules, corev1.ContainerRestartRule{
				Action: pods.Pick[corev1.ContainerRestartRuleAction](m,
					"RestartAllContainers", "RestartAllContainers", "Restart"),
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
					Operator: pods.Pick[corev1.ContainerRestartRuleOnExitCodesOperator](m, "In", "NotIn"),
					Values:   []int32{pods.Pick[int32](m, 1, resetCode, resetCode)},
				},
			})
		}
	}
	return podAnd(p, nil)
}

// compareRestartAll compares the calls that follow a container's end: which containers are stopped, with what grace
// period, and how often each is created. Attempt numbers differ, because the kubelet removes the old instances.
func compareRestartAll(c *testCase) {
	s, manifest, ok := readHistory(c.text)
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
	kl := w.newKubelet()
	pod := w.parsed.Pod.DeepCopy()
	err := kl.Settle(ctx, pod)
	clock.Step(time.Second)
	if err == nil && w.theirs.fake.Exit(name, resetCode) {
		err = kl.Settle(ctx, pod)
	}
	if errors.Is(err, kubelet.ErrUnsettled) {
		c.count("the kubelet does not settle")
		return
	}
	check("the kubelet cannot sync", err)
	decider := w.newDecider(nil)
	clock.Step(time.Second)
	if w.ours.fake.Exit(name, resetCode) {
		check("our decider", decider.Observe(ctx))
	}
	if slices.ContainsFunc(w.theirs.fake.Calls(), func(m proto.Message) bool {
		_, removes := m.(*runtimeapi.RemoveContainerRequest)
		return removes
	}) {
		c.count("all restarted")
	}
	c.differs("creations and stops", creations(w.ours), creations(w.theirs))
}

// creations returns the creation of each container, and the grace period of each stop, sorted.
func creations(s side) string {
	var out []string
	for _, call := range s.fake.Calls() {
		switch q := call.(type) {
		case *runtimeapi.CreateContainerRequest:
			out = append(out, "create "+q.GetConfig().GetMetadata().GetName())
		case *runtimeapi.StopContainerRequest:
			id, _, _ := strings.Cut(q.GetContainerId(), "/")
			out = append(out, fmt.Sprintf("stop %s within %d s", strings.TrimRight(id, "-0123456789"), q.GetTimeout()))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
