package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

// clusterNode is an agent with the simulated runtime, as a node of an API server in memory.
type clusterNode struct {
	*testing.T
	api *fakeapi.Server
	pod string
}

// startNode runs an agent until the test ends, with a pod of the API server that runs.
func startNode(t *testing.T, pod *corev1.Pod) *clusterNode { return startNodeOf(t, fakeapi.New(), pod) }

// startNodeOf is startNode with an API server of one's own.
func startNodeOf(t *testing.T, server *fakeapi.Server, pod *corev1.Pod) *clusterNode {
	return startNodeIn(t, simulatedConfig(t), server, pod, func(string) {})
}

// startNodeIn is startNodeOf with a configuration of one's own. prepare gets the pod's UID before the agent starts.
func startNodeIn(
	t *testing.T, cfg *config.Config, server *fakeapi.Server, pod *corev1.Pod, prepare func(uid string),
) *clusterNode {
	cfg.EnableServer = false // its port is the machine's
	cfg.Cluster.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must.OK(t, os.WriteFile(cfg.Cluster.Kubeconfig, []byte(fakeapi.Kubeconfig(server.Start(t), "{}")), 0o600))
	prepare(server.Create("pods", pod))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		must.OK(t, <-ended)
	})
	n := &clusterNode{T: t, api: server, pod: pod.Name}
	n.await("runs", func(s *corev1.PodStatus) bool { return s.Phase == corev1.PodRunning })
	return n
}

// apiPod returns a pod as the API server defaults it, for node-1.
func apiPod(t *testing.T, spec string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{
		NodeName: "node-1", RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSDefault,
		TerminationGracePeriodSeconds: ptr.To(int64(1)), EnableServiceLinks: ptr.To(false),
		Containers: []corev1.Container{{
			Name: "main", Image: "docker.io/library/busybox:1.36", Command: []string{"sleep", "1000"},
			ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePath: corev1.TerminationMessagePathDefault,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}},
	}}
	must.OK(t, yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	return p
}

// await returns the pod as soon as its status is ok at the API server.
func (n *clusterNode) await(what string, ok func(*corev1.PodStatus) bool) *corev1.Pod {
	n.Helper()
	for end := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		p := new(corev1.Pod)
		if n.api.Get("pods", "default", n.pod, p) && ok(&p.Status) {
			return p
		}
		if time.Now().After(end) {
			n.Fatalf("%s: the status is %v", what, p.Status)
		}
	}
}

// change replaces the pod's subresource.
func (n *clusterNode) change(subresource string, change func(*corev1.Pod)) {
	p := new(corev1.Pod)
	n.api.Change("pods", subresource, "default", n.pod, p, func() { change(p) })
}

// condition returns a condition of a status, an empty one if it is missing.
func condition(s *corev1.PodStatus, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func TestReadinessGateOfTheAPIServerDecidesOnReadinessAtOnce(t *testing.T) {
	const lb = "example.com/lb"
	n := startNode(t, apiPod(t, `readinessGates: [{conditionType: example.com/lb}]`))
	n.await("waits for its gate", func(s *corev1.PodStatus) bool {
		return condition(s, corev1.ContainersReady).Status == corev1.ConditionTrue &&
			condition(s, corev1.PodReady).Reason == "ReadinessGatesNotReady"
	})
	for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionTrue} {
		begun := time.Now()
		n.change("status", func(p *corev1.Pod) {
			for i := range p.Status.Conditions {
				if p.Status.Conditions[i].Type == lb {
					p.Status.Conditions[i].Status = status
					return
				}
			}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: lb, Status: status, Reason: "Other"})
		})
		p := n.await("follows its gate", func(s *corev1.PodStatus) bool {
			return condition(s, corev1.PodReady).Status == status
		})
		strict.Within(t, "a pod that follows its gate", time.Since(begun), time.Second)
		ready := condition(&p.Status, corev1.PodReady)
		message := ""
		if status == corev1.ConditionFalse {
			message = `the status of pod readiness gate "example.com/lb" is not "True", but False`
		}
		if ready.Message != message || condition(&p.Status, lb).Reason != "Other" {
			t.Errorf("conditions: %v", p.Status.Conditions)
		}
	}
}

func TestEphemeralContainerOfTheAPIServerRunsOnce(t *testing.T) {
	n := startNode(t, apiPod(t, `{}`))
	add := func(name string, command ...string) {
		n.change("ephemeralcontainers", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
				TargetContainerName: "main", EphemeralContainerCommon: corev1.EphemeralContainerCommon{
					Name: name, Image: "docker.io/library/busybox:1.36", Command: command,
					ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
					TerminationMessagePath: corev1.TerminationMessagePathDefault,
				},
			})
		})
	}
	add("a", "sleep", "1000")
	p := n.await("runs the ephemeral container", func(s *corev1.PodStatus) bool {
		return len(s.EphemeralContainerStatuses) == 1 && s.EphemeralContainerStatuses[0].State.Running != nil
	})
	if s := p.Status; s.ObservedGeneration != 2 || s.EphemeralContainerStatuses[0].Ready ||
		s.EphemeralContainerStatuses[0].Started != nil || condition(&s, corev1.PodReady).ObservedGeneration != 2 {
		t.Errorf("status: %v", s)
	}
	add("b", "sh", "-c", "exit 3")
	p = n.await("ends the second one", func(s *corev1.PodStatus) bool {
		return len(s.EphemeralContainerStatuses) == 2 && s.EphemeralContainerStatuses[1].State.Terminated != nil
	})
	b := p.Status.EphemeralContainerStatuses[1]
	if b.State.Terminated.ExitCode != 3 || b.RestartCount != 0 || p.Status.Phase != corev1.PodRunning ||
		condition(&p.Status, corev1.PodReady).Status != corev1.ConditionTrue {
		t.Errorf("status: %v", p.Status)
	}
	n.api.Delete("pods", "default", n.pod, 1)
	must.Eventually(t, time.Minute, "the pod is still there", func() (string, bool) {
		return p.Status.String(), !n.api.Get("pods", "default", n.pod, p)
	})
	if ended := p.Status.EphemeralContainerStatuses; ended[0].State.Terminated == nil ||
		ended[1].ContainerID != b.ContainerID {
		t.Errorf("at the end: %v", ended)
	}
}

func TestResizeOfTheAPIServerIsObserved(t *testing.T) {
	pod := apiPod(t, `{}`)
	request := func(p *corev1.Pod, cpu string) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	request(pod, "100m")
	n := startNode(t, pod)
	for i, c := range []struct{ cpu, allocated, pending string }{
		{"200m", "200m", ""}, {"100k", "200m", corev1.PodReasonDeferred}, {"50m", "50m", ""},
	} {
		generation := int64(i + 2)
		n.change("resize", func(p *corev1.Pod) { request(p, c.cpu) })
		p := n.await("observes the resize to "+c.cpu, func(s *corev1.PodStatus) bool {
			return s.ObservedGeneration == generation && len(s.ContainerStatuses) == 1 &&
				condition(s, corev1.PodResizePending).Reason == c.pending &&
				condition(s, corev1.PodResizeInProgress).Type == "" &&
				s.ContainerStatuses[0].AllocatedResources.Cpu().String() == c.allocated &&
				s.ContainerStatuses[0].Resources.Requests.Cpu().String() == c.allocated
		})
		for _, is := range p.Status.Conditions {
			if is.ObservedGeneration != generation {
				t.Errorf("after the resize to %s: condition %v, want the generation %d", c.cpu, is, generation)
			}
		}
		if p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("after the resize to %s the container was restarted", c.cpu)
		}
	}
}
