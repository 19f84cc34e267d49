//go:build integration

package integration

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/node"
)

// strangers makes a pod as a kubelet would, behind the agent's back.
func strangers(t *testing.T) (sandbox, container string) {
	t.Helper()
	labels := map[string]string{node.PodNameLabel: "etcd-elsewhere", node.PodNamespaceLabel: "kube-system", node.PodUIDLabel: "stranger-" + t.Name()}
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: "etcd-elsewhere", Namespace: "kube-system", Uid: "stranger-" + t.Name()},
		LogDirectory: t.TempDir(), Labels: labels,
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}}},
	}
	ctx, cancel := node.Bounded()
	defer cancel()
	s, err := setup.Runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { setup.Runtime.RemoveSandbox(s.GetPodSandboxId()) })
	c, err := setup.Runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: s.GetPodSandboxId(), SandboxConfig: config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "etcd"}, Image: &cri.ImageSpec{Image: testImage()}, Command: []string{"sleep", "100000"},
			Labels:      map[string]string{node.PodNameLabel: "etcd-elsewhere", node.PodNamespaceLabel: "kube-system", node.PodUIDLabel: labels[node.PodUIDLabel], node.ContainerNameLabel: "etcd"},
			Annotations: map[string]string{"io.kubernetes.container.restartCount": "0"}, LogPath: "etcd.log",
		},
	})
	if err == nil {
		_, err = setup.Runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.GetContainerId()})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.GetPodSandboxId(), c.GetContainerId()
}

func TestWhatIsNotOursIsNeverTouched(t *testing.T) {
	t.Parallel()
	sandbox, id := strangers(t)
	before := containerStatus(t, id)
	a := started(t, nil)
	// The folder is empty; a pod that comes and goes shows that the agent has looked at the runtime and cleaned up.
	a.Put("own.yaml", manifest(newPod("own", idle)))
	a.pod("own", "ready", ready)
	a.Remove("own.yaml")
	a.gone()
	a.Stop()
	a.start()
	a.Put("own.yaml", manifest(newPod("own", idle)))
	a.pod("own", "ready again", ready)

	after := containerStatus(t, id)
	if after.GetState() != cri.ContainerState_CONTAINER_RUNNING || after.GetStartedAt() != before.GetStartedAt() {
		t.Errorf("the stranger is now %v", after)
	}
	ctx, cancel := node.Bounded()
	defer cancel()
	s, err := setup.Runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil || s.GetStatus().GetState() != cri.PodSandboxState_SANDBOX_READY {
		t.Errorf("the stranger's sandbox is now %v, %v", s.GetStatus(), err)
	}
	events, _ := a.journal.seen()
	for _, f := range events {
		if strings.Contains(string(f.Data), sandbox) || strings.Contains(string(f.Data), "stranger-") {
			t.Errorf("record %d tells of the stranger: %s %s", f.Seq, f.Event, f.Data)
		}
	}
}

// fakeKubelet is a process that looks like a kubelet on a runtime's socket, and does nothing.
func fakeKubelet(t *testing.T, socket string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "/bin/sh")
	cmd.Args = []string{"kubelet", "-c", "read wait", "kubelet", "--container-runtime-endpoint=unix://" + socket}
	in, err := cmd.StdinPipe() // it ends when this does
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		cancel()
		_ = cmd.Wait() // killed or ended, both are well
	})
}

func TestTheAgentDoesNotStartBesideAKubeletUnlessTold(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	// A socket of its own, so that the agents of other tests see no kubelet on theirs.
	p := a.behindProxy()
	p.open()
	fakeKubelet(t, p.path)

	r := node.Run(t, "", nil, nil, setup.Program, a.Args()...)
	code := r.Ended(t)
	text := r.Text()
	if code == 0 || !strings.Contains(text, "kubelet (pid ") || !strings.Contains(text, "--allow-beside-kubelet") {
		t.Errorf("beside a kubelet the agent ended with %d and said:\n%s", code, text)
	}
	a.Flags = append(a.Flags, "--allow-beside-kubelet")
	a.Put("own.yaml", manifest(newPod("own", idle)))
	a.start()
	a.pod("own", "ready", ready)
}
