//go:build reports

package reports

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/journalet/journalet/test/node"
)

// A probe that its container cannot run counts as failed: a liveness or startup probe restarts the container, a
// readiness probe keeps it from being ready, and an event says why (kubernetes/kubernetes#106682).
func TestProbeThatCannotBeRunFails(t *testing.T) {
	everywhere(t, func(p *place) {
		command := func(command ...string) core.ProbeHandler {
			return core.ProbeHandler{Exec: &core.ExecAction{Command: command}}
		}
		port := intstr.FromString("none")
		tries := map[string]struct {
			handler core.ProbeHandler
			says    string
		}{
			"missing":    {command("/nope"), "no such file"},
			"directory":  {command("/etc"), "is a directory"},
			"no-program": {command("/etc/passwd"), "permission denied"},
			"http":       {core.ProbeHandler{HTTPGet: &core.HTTPGetAction{Port: port}}, `port "none" not found`},
			"tcp":        {core.ProbeHandler{TCPSocket: &core.TCPSocketAction{Port: port}}, `port "none" not found`},
		}
		for name, try := range tries {
			probe := &core.Probe{ProbeHandler: try.handler, PeriodSeconds: 1, FailureThreshold: 2}
			p.pod(pod(name, node.Idle, func(pod *core.Pod) { pod.Spec.Containers[0].LivenessProbe = probe }))
			p.pod(pod("startup-"+name, node.Idle, func(pod *core.Pod) { pod.Spec.Containers[0].StartupProbe = probe }))
		}
		for name, try := range tries {
			for _, name := range []string{name, "startup-" + name} {
				p.await(name, "restarted", func(pod *core.Pod) bool { return node.Container(pod, "main").RestartCount > 0 })
				if out := p.kubectl("", "describe", "pod", p.full(name)); !strings.Contains(out, try.says) {
					p.Errorf("no event of pod %s says %q:\n%s", name, try.says, out)
				}
			}
		}
	})
}
