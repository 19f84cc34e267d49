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

// A restart of the agent leaves pods as they are: a pod that has ended stays so (kubernetes/kubernetes#37447), a ready
// pod stays ready (#131303), an init container that was removed since does not run again (#86531, #62362), and what
// ends beside a sidecar afterwards starts again (PR #137146).
func TestRestartOfTheAgentLeavesPodsAsTheyAre(t *testing.T) {
	everywhere(t, func(p *place) {
		p.pod(pod("ended", "exit 0", node.Restarts(core.RestartPolicyNever)))
		p.pod(pod("slow", node.Idle, func(p *core.Pod) {
			p.Spec.Containers[0].ReadinessProbe = &core.Probe{
				ProbeHandler: core.ProbeHandler{Exec: shell("true")}, InitialDelaySeconds: 10,
			}
		}))
		p.pod(pod("inits", node.Idle, func(p *core.Pod) {
			p.Spec.InitContainers = []core.Container{node.Shell("init", node.Image, "exit 0")}
		}))
		p.pod(pod("sidecar", node.Idle, sidecar("touch /v/started; "+node.Idle)))
		before := map[string]*core.Pod{"ended": p.ended("ended")}
		for _, name := range []string{"slow", "inits", "sidecar"} {
			before[name] = p.ready(name)
		}
		p.down(p.T, func() {
			ctx, cancel := context.WithTimeout(context.Background(), node.Attempt)
			defer cancel()
			init := before["inits"].Status.InitContainerStatuses[0].ContainerID
			_, err := p.runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: node.BareID(init)})
			must.OK(p.T, err)
		})
		p.pod(pod("later", node.Idle))
		p.ready("later") // the agent has gone through its pods
		p.end("sidecar")
		p.await("sidecar", "restarted", func(pod *core.Pod) bool {
			return node.Ready(pod) && node.Container(pod, "main").RestartCount == 1
		})
		delete(before, "sidecar")
		for name, was := range before {
			now := p.get(name)
			if a, b := node.Container(was, "main"), node.Container(now, "main"); a.ContainerID != b.ContainerID {
				p.Errorf("pod %s has container %v, had %v", name, b, a)
			}
			if a, b := readySince(was), readySince(now); a != b {
				p.Errorf("pod %s: %s, was %s", name, b, a)
			}
			for _, init := range now.Status.InitContainerStatuses {
				if init.RestartCount != 0 {
					p.Errorf("pod %s: init container %v", name, init)
				}
			}
		}
	})
}

// readySince is the condition Ready with its time.
func readySince(pod *core.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == core.PodReady {
			return string(c.Status) + " since " + c.LastTransitionTime.String()
		}
	}
	return "no condition"
}

// end ends process 1 of the container "main" of a pod, and with it perhaps the command that does so.
func (p *place) end(name string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), node.Attempt)
	defer cancel()
	_, err := p.runtime.ExecSync(ctx, &cri.ExecSyncRequest{
		ContainerId: node.BareID(node.Container(p.get(name), "main").ContainerID), Cmd: []string{"kill", "1"},
	})
	if err != nil {
		p.Logf("%v", err) // the test waits for the restart
	}
}
