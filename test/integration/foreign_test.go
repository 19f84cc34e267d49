//go:build integration

package integration

import (
	"context"
	"maps"
	"os/exec"
	"strings"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// foreignPod creates a pod as a kubelet would, without the agent's mark.
func foreignPod(t *testing.T) (sandbox, container string) {
	t.Helper()
	uid := "foreign-" + t.Name()
	labels := map[string]string{
		node.PodNameLabel: "etcd-elsewhere", node.PodNamespaceLabel: "kube-system", node.PodUIDLabel: uid,
	}
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: "etcd-elsewhere", Namespace: "kube-system", Uid: uid},
		LogDirectory: t.TempDir(), Labels: labels,
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{
			NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE},
		}},
	}
	ctx, cancel := node.Bounded()
	defer cancel()
	s, err := setup.Runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	must.OK(t, err)
	t.Cleanup(func() { setup.Runtime.RemoveSandbox(s.GetPodSandboxId()) })
	own := maps.Clone(labels)
	own[node.ContainerNameLabel] = "etcd"
	c, err := setup.Runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: s.GetPodSandboxId(), SandboxConfig: config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "etcd"}, Labels: own, LogPath: "etcd.log",
			Image: &cri.ImageSpec{Image: testImage(), UserSpecifiedImage: testImage()}, Command: []string{"sleep", "100000"},
			Annotations: map[string]string{"io.kubernetes.container.restartCount": "0"},
		},
	})
	if err == nil {
		_, err = setup.Runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.GetContainerId()})
	}
	must.OK(t, err)
	return s.GetPodSandboxId(), c.GetContainerId()
}

func TestForeignPodIsNeverTouched(t *testing.T) {
	t.Parallel()
	sandbox, id := foreignPod(t)
	before := containerStatus(t, id)
	a := started(t, nil)
	// The start and end of a pod of its own show that the agent has inspected the runtime and cleaned up.
	a.put(newPod("own", idle))
	a.pod("own", "ready", ready)
	a.Remove("own.yaml")
	a.gone()
	a.Stop()
	a.start()
	a.put(newPod("own", idle))
	a.pod("own", "ready again", ready)

	after := containerStatus(t, id)
	if after.GetState() != cri.ContainerState_CONTAINER_RUNNING || after.GetStartedAt() != before.GetStartedAt() {
		t.Errorf("the foreign container is now %v", after)
	}
	ctx, cancel := node.Bounded()
	defer cancel()
	s, err := setup.Runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil || s.GetStatus().GetState() != cri.PodSandboxState_SANDBOX_READY {
		t.Errorf("the foreign sandbox is now %v, %v", s.GetStatus(), err)
	}
	events, _ := a.journal.seen()
	for _, f := range events {
		if strings.Contains(string(f.Data), sandbox) || strings.Contains(string(f.Data), "foreign-") {
			t.Errorf("record %d names the foreign pod: %s %s", f.Seq, f.Event, f.Data)
		}
	}
}

// fakeKubelet runs a process with the command line of a kubelet on a runtime's socket. It does nothing.
func fakeKubelet(t *testing.T, socket string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "/bin/sh")
	cmd.Args = []string{"kubelet", "-c", "read wait", "kubelet", "--container-runtime-endpoint=unix://" + socket}
	in, err := cmd.StdinPipe() // its end ends the process
	if err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	t.Cleanup(func() {
		_ = in.Close()
		cancel()
		_ = cmd.Wait() // killed or ended
	})
}

func TestAgentStartsBesideAKubeletOnlyWithItsFlag(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	// A socket of its own, so that the agents of other tests find no kubelet on theirs.
	p := a.behindProxy()
	p.open()
	fakeKubelet(t, p.path)

	a.failsToStart("kubelet (pid ", "--allow-beside-kubelet")
	a.Flags = append(a.Flags, "--allow-beside-kubelet")
	a.put(newPod("own", idle))
	a.start()
	a.pod("own", "ready", ready)
}
