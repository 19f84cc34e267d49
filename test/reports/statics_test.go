//go:build reports

package reports

import (
	"context"
	"testing"

	core "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// A static pod runs whose manifest was taken away and put back while it ended, several times
// (kubernetes/kubernetes#104648, #107733, #116880).
func TestManifestTakenAwayAndPutBack(t *testing.T) {
	ofFiles(t, func(p *place) {
		web := pod("web", "trap 'sleep 3; exit 0' TERM; "+endless+" & wait", grace(20))
		p.pod(web)
		before := node.Container(p.ready("web"), "main").ContainerID
		for range 5 {
			p.remove("web")
			p.pod(web)
		}
		p.remove("web")
		p.until("the pod to end", func() error { return p.left("web") })
		p.pod(web)
		p.await("web", "another one", func(pod *core.Pod) bool {
			return node.Ready(pod) && node.Container(pod, "main").ContainerID != before
		})
	})
}

// The mirror pod of a static pod comes back after its deletion, and the pod runs on or stays ended
// (kubernetes/kubernetes#22625, #79147, #116483).
func TestDeletedMirrorPodComesBack(t *testing.T) {
	ofFiles(t, func(p *place) {
		p.pod(pod("runs", node.Idle))
		p.pod(pod("ended", "exit 0", node.Restarts(core.RestartPolicyNever)))
		before := map[string]*core.Pod{"runs": p.ready("runs"), "ended": p.ended("ended")}
		for name, pod := range before {
			p.kubectl("", "delete", "pod", p.full(name), "--wait=false")
			now := p.await(name, "another mirror pod", func(now *core.Pod) bool {
				return now.UID != pod.UID && now.Status.Phase == pod.Status.Phase
			})
			container, was := node.Container(now, "main"), node.Container(pod, "main")
			if container.ContainerID != was.ContainerID || container.RestartCount != 0 {
				p.Errorf("pod %s has container %v", name, container)
			}
		}
	})
}

// A container that somebody removes from the runtime is started again.
func TestContainerThatWasRemovedFromTheRuntime(t *testing.T) {
	everywhere(t, func(p *place) {
		p.pod(pod("web", node.Idle))
		id := node.Container(p.ready("web"), "main").ContainerID
		ctx, cancel := context.WithTimeout(context.Background(), node.Attempt)
		defer cancel()
		_, err := p.runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: node.BareID(id)})
		must.OK(p.T, err)
		p.await("web", "running in another container", func(pod *core.Pod) bool {
			return node.Ready(pod) && node.Container(pod, "main").ContainerID != id
		})
	})
}
