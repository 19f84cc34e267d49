//go:build reports

package reports

import (
	"fmt"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
)

// mostLeft is how many processes of its probes a pod may have at a time: the two of the probe that runs, and the two of
// a probe that is ending.
const mostLeft = 4

// The commands of probes that time out leave no process behind with each period (kubernetes/kubernetes#110070, #124226,
// containerd/containerd#4594).
func TestProbesThatTimeOutLeaveNoProcesses(t *testing.T) {
	everywhere(t, func(p *place) {
		p.pod(pod("web", "while :; do sleep 1; done", func(pod *core.Pod) {
			pod.Spec.Containers[0].ReadinessProbe = &core.Probe{
				PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1000,
				ProbeHandler: core.ProbeHandler{Exec: &core.ExecAction{Command: []string{
					"sh", "-c", "echo $(date) >> /tmp/probes; sleep 888 & sleep 888; true",
				}}},
			}
		}))
		p.await("web", "running", func(pod *core.Pod) bool { return pod.Status.Phase == core.PodRunning })
		var probes, left int
		p.until("ten probes to have run", func() error {
			probes = len(strings.Split(strings.TrimSpace(p.exec("web", "sh", "-c", "cat /tmp/probes; true")), "\n"))
			if probes < 10 {
				return fmt.Errorf("%d have", probes)
			}
			return nil
		})
		for _, line := range strings.Split(p.exec("web", "ps"), "\n") {
			if strings.Contains(line, "sleep 888") && !strings.Contains(line, "sh -c") {
				left++
			}
		}
		if left > mostLeft {
			p.Errorf("%d probes have left %d processes, want %d at most", probes, left, mostLeft)
		}
	})
}
