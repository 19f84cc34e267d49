//go:build cluster

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/must"
)

const busybox = "docker.io/library/busybox:1.36"

// workload is what the test's pods run: it prints a Secret, a ConfigMap and whether its token is there, once a second.
const workload = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: hello}
---
apiVersion: v1
kind: Secret
metadata: {name: credentials}
stringData: {password: canary}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      volumes: [{name: settings, configMap: {name: settings}}]
      containers:
      - name: web
        image: docker.io/library/busybox:1.36
        command:
        - sh
        - -c
        - while :; do echo $PASSWORD $(cat /settings/greeting) $(ls $TOKENS) $KUBERNETES_SERVICE_HOST; sleep 1; done
        env:
        - {name: PASSWORD, valueFrom: {secretKeyRef: {name: credentials, key: password}}}
        - {name: TOKENS, value: /var/run/secrets/kubernetes.io/serviceaccount}
        volumeMounts: [{name: settings, mountPath: /settings}]
        readinessProbe: {exec: {command: ['true']}, periodSeconds: 1}
`

// ours is an agent of ours as a node of a cluster.
type ours struct {
	*Cluster
	program string
	node    Node
}

// newOurs starts a control plane, and builds the agent, which is to be the node ours.
func newOurs(t *testing.T, o Options) *ours {
	t.Helper()
	endpoint := os.Getenv("JOURNALET_TEST_CRI_ENDPOINT")
	if endpoint == "" {
		t.Fatal("JOURNALET_TEST_CRI_ENDPOINT is empty: run `make cluster-test`")
	}
	n := &ours{
		Cluster: Up(t, o), program: filepath.Join(t.TempDir(), "journalet"),
		node: Node{Name: "ours", Endpoint: endpoint},
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", n.program, "../../cmd/journalet").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return n
}

// TestAgentIsANodeOfACluster does with an agent of ours what people do with a node.
func TestAgentIsANodeOfACluster(t *testing.T) {
	n := newOurs(t, Options{})
	must.OK(t, n.StartAgent(t.Context(), n.program, n.node))
	t.Run("deployment becomes ready", n.deploys)
	t.Run("kubectl works in pods", n.kubectlInPods)
	t.Run("kubectl explains pods", n.explains)
	t.Run("kubectl debug sees the processes of its target", n.debugs)
	t.Run("readiness gate is read", n.gates)
	t.Run("ended pod keeps its exit code", n.exitCode)
	t.Run("killed agent loses and repeats nothing", n.killed)
	t.Run("devices of claims have their health", n.claims)
	t.Run("trust bundles are followed", n.trusts)
	t.Run("certificates are issued", n.certifies)
	t.Run("what is not supported is rejected", n.rejects)
	t.Run("deleted Node returns", n.deletedNodeReturns)
	t.Run("deleted pods are gone", n.deletes)
}

// kubectl returns what kubectl prints, and fails the test if it fails.
func (n *ours) kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	cmd := n.Command(t.Context(), args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (n *ours) pods(t *testing.T) []core.Pod {
	t.Helper()
	list, err := n.MustClient(t).CoreV1().Pods("default").List(t.Context(), meta.ListOptions{LabelSelector: "app=web"})
	must.OK(t, err)
	return list.Items
}

func (n *ours) deploys(t *testing.T) {
	begun := time.Now()
	n.kubectl(t, workload, "apply", "-f", "-")
	n.kubectl(t, "", "rollout", "status", "deployment/web", "--timeout=60s")
	t.Logf("three pods are ready after %s", time.Since(begun).Round(time.Millisecond))
}

func (n *ours) kubectlInPods(t *testing.T) {
	pod := n.pods(t)[0].Name
	eventually(t, func() error {
		out, err := n.Command(t.Context(), "logs", pod).CombinedOutput()
		if err == nil && !strings.Contains(string(out), "canary hello ca.crt namespace token 10.") {
			err = fmt.Errorf("the container printed %q", out)
		}
		return err
	})
	if out := n.kubectl(t, "typed", "exec", "-i", pod, "--", "cat"); out != "typed" {
		t.Errorf("exec returned %q", out)
	}
	var exit *exec.ExitError
	err := n.Command(t.Context(), "exec", pod, "--", "sh", "-c", "exit 7").Run()
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("exec of exit 7 ended with %v", err)
	}
	var summary struct{ Pods []any }
	out := n.kubectl(t, "", "get", "--raw", "/api/v1/nodes/ours/proxy/stats/summary")
	must.OK(t, json.Unmarshal([]byte(out), &summary))
	if len(summary.Pods) < 3 {
		t.Errorf("the Summary API has %d pods", len(summary.Pods))
	}
	if out := n.kubectl(t, "", "get", "events", "-o", "jsonpath={.items[*].reason}"); !strings.Contains(out, "Started") {
		t.Errorf("events: %s", out)
	}
}

// debugs adds an ephemeral container to a pod. Its program is given on its standard input.
func (n *ours) debugs(t *testing.T) {
	pod := n.pods(t)[0].Name
	n.kubectl(t, "tr '\\0' ' ' </proc/1/cmdline; exit 4\n", "debug", "-i", pod, "--image", busybox,
		"--container", "debug", "--target", "web", "--profile", "sysadmin", "--", "sh")
	eventually(t, func() error {
		p, err := n.MustClient(t).CoreV1().Pods("default").Get(t.Context(), pod, meta.GetOptions{})
		if err != nil {
			return err
		}
		s := p.Status.EphemeralContainerStatuses
		if len(s) != 1 || s[0].State.Terminated == nil || s[0].State.Terminated.ExitCode != 4 {
			return fmt.Errorf("its status is %v", s)
		}
		return nil
	})
	// Not from what kubectl has printed: the runtime attaches the input before the output.
	if out := n.kubectl(t, "", "logs", pod, "-c", "debug"); !strings.Contains(out, "while :; do echo $PASSWORD") {
		t.Errorf("the first process of the target is %q", out)
	}
	eventually(t, func() error {
		events := n.kubectl(t, "", "get", "events", "-o", "jsonpath={.items[*].involvedObject.fieldPath}")
		if !strings.Contains(events, "spec.ephemeralContainers{debug}") {
			return fmt.Errorf("events of %s", events)
		}
		return nil
	})
}

// gates has another client set the condition of a readiness gate.
func (n *ours) gates(t *testing.T) {
	n.kubectl(t, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gated"}, "spec": {
		"readinessGates": [{"conditionType": "example.com/lb"}], "containers": [{
		"name": "c", "image": "`+busybox+`", "command": ["sleep", "1000"]}]}}`, "apply", "-f", "-")
	n.kubectl(t, "", "wait", "--for=condition=ContainersReady", "pod/gated", "--timeout=30s")
	const path = `jsonpath={.status.conditions[?(@.type=="Ready")].reason}`
	if out := n.kubectl(t, "", "get", "pod", "gated", "-o", path); out != "ReadinessGatesNotReady" {
		t.Errorf("without the condition the pod is not ready for %q", out)
	}
	for _, status := range []string{"True", "False"} {
		n.kubectl(t, "", "patch", "pod", "gated", "--subresource=status", "-p",
			`{"status": {"conditions": [{"type": "example.com/lb", "status": "`+status+`"}]}}`)
		n.kubectl(t, "", "wait", "--for=condition=Ready="+status, "pod/gated", "--timeout=10s")
	}
}

func (n *ours) exitCode(t *testing.T) {
	n.kubectl(t, "", "run", "once", "--image", busybox, "--restart=Never", "--", "sh", "-c", "exit 3")
	n.kubectl(t, "", "wait", "--for=jsonpath={.status.phase}=Failed", "pod/once", "--timeout=30s")
	const path = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"
	if out := n.kubectl(t, "", "get", "pod", "once", "-o", path); out != "3" {
		t.Errorf("exit code %s", out)
	}
}

// instances returns the pods' UIDs with their containers' ids and restarts.
func (n *ours) instances(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range n.pods(t) {
		for _, c := range p.Status.ContainerStatuses {
			out[string(p.UID)] = fmt.Sprintf("%s, %d restarts", c.ContainerID, c.RestartCount)
		}
		for _, c := range p.Status.EphemeralContainerStatuses {
			out[string(p.UID)] += fmt.Sprintf(", %s %s", c.Name, c.ContainerID)
		}
	}
	return out
}

func (n *ours) killed(t *testing.T) {
	before := n.instances(t)
	must.OK(t, n.KillNode("ours"))
	n.kubectl(t, "", "run", "meanwhile", "--image", busybox, "--restart=Never", "--", "true")
	must.OK(t, n.StartAgent(t.Context(), n.program, n.node))
	n.kubectl(t, "", "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/meanwhile", "--timeout=30s")
	after := n.instances(t)
	for uid, was := range before {
		if after[uid] != was {
			t.Errorf("pod %s: %s, was %s", uid, after[uid], was)
		}
	}
}

func (n *ours) rejects(t *testing.T) {
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "iscsi"}, Spec: core.PodSpec{
		NodeName: "ours",
		Containers: []core.Container{{
			Name: "c", Image: busybox, Command: []string{"sleep", "1000"},
		}},
		Volumes: []core.Volume{{Name: "v", VolumeSource: core.VolumeSource{
			ISCSI: &core.ISCSIVolumeSource{TargetPortal: "192.0.2.1", IQN: "iqn.2026-11.example:v"},
		}}},
	}}
	_, err := n.MustClient(t).CoreV1().Pods("default").Create(t.Context(), pod, meta.CreateOptions{})
	must.OK(t, err)
	n.kubectl(t, "", "wait", "--for=jsonpath={.status.phase}=Failed", "pod/iscsi", "--timeout=30s")
	if out := n.kubectl(t, "", "get", "pod", "iscsi", "-o", "jsonpath={.status.reason}"); out != "PodFeatureUnsupported" {
		t.Errorf("the reason is %s", out)
	}
}

func (n *ours) deletedNodeReturns(t *testing.T) {
	nodes := n.MustClient(t).CoreV1().Nodes()
	was, err := nodes.Get(t.Context(), "ours", meta.GetOptions{})
	must.OK(t, err)
	must.OK(t, nodes.Delete(t.Context(), "ours", meta.DeleteOptions{}))
	eventually(t, func() error {
		now, err := nodes.Get(t.Context(), "ours", meta.GetOptions{})
		if err == nil && now.UID == was.UID {
			return errors.New("the Node is still there")
		}
		return errors.Join(err, n.NodeReady(t.Context(), "ours"))
	})
}

func (n *ours) deletes(t *testing.T) {
	n.kubectl(t, "", "delete", "deployment/web", "--timeout=60s")
	n.kubectl(t, "", "delete", "pod", "--all", "--timeout=60s")
	eventually(t, func() error {
		list, err := n.MustClient(t).CoreV1().Pods("default").List(t.Context(), meta.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			return fmt.Errorf("%d pods are left", len(list.Items))
		}
		return err
	})
}
