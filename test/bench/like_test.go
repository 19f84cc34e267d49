package main

import (
	"os"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestFloorRepeatsTheAgentsRequestsForItsOwnPod(t *testing.T) {
	l := &like{
		sandbox: &cri.PodSandboxConfig{
			Metadata: &cri.PodSandboxMetadata{Name: "theirs", Uid: "u"}, Labels: map[string]string{podNameLabel: "theirs"},
			Linux: &cri.LinuxPodSandboxConfig{CgroupParent: "/pods"},
		},
		container: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "main"}, Labels: map[string]string{podNameLabel: "theirs"},
			Mounts: []*cri.Mount{{ContainerPath: "/etc/hosts", HostPath: "/gone"}},
		},
		dir: t.TempDir(),
	}
	least := &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: "raw-1", Uid: "raw-1"},
		LogDirectory: "/logs/raw-1"}
	box := l.sandboxAs(least)
	if box.Metadata.Uid != "raw-1" || box.Labels[podNameLabel] != "raw-1" || box.LogDirectory != "/logs/raw-1" ||
		box.Linux.CgroupParent != "/pods" {
		t.Errorf("sandbox %v", box)
	}
	c, err := l.containerAs(&cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "main", Attempt: 1},
		Labels:   map[string]string{podNameLabel: "raw-1"}, LogPath: "main.log",
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Attempt != 1 || c.LogPath != "main.log" || c.Mounts[0].ContainerPath != "/etc/hosts" {
		t.Errorf("container %v", c)
	}
	if _, err := os.Stat(c.Mounts[0].HostPath); err != nil {
		t.Errorf("its mount does not exist: %v", err)
	}
	if l.sandbox.Metadata.Name != "theirs" || l.container.Mounts[0].HostPath != "/gone" {
		t.Error("the agent's own request was changed")
	}
}
