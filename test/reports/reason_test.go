//go:build reports

package reports

import (
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/test/node"
)

// hog is a command that the kernel kills for lack of memory, and that ends by itself if it cannot.
const hog = "head -c 300000000 /dev/zero | tail >/dev/null"

func small(p *core.Pod) {
	p.Spec.RestartPolicy = core.RestartPolicyNever
	p.Spec.Containers[0].Resources.Limits = core.ResourceList{core.ResourceMemory: resource.MustParse("40Mi")}
}

// The reason of a container's end belongs to this end, not to a kill of one of its processes before it
// (kubernetes/kubernetes#140716, kubernetes/kubernetes#131530).
func TestReasonOOMKilledIsOfThisEnd(t *testing.T) {
	everywhere(t, func(p *place) {
		for name, script := range map[string]string{
			"completed": hog + "; echo killed $?; sleep 3; exit 0",
			"term":      hog + "; echo killed $?; sleep 3; exit 143",
			"oom":       hog + "; sleep 3; exit 137",
		} {
			p.pod(pod(name, script, small))
		}
		reasons := map[int32]string{0: "Completed", 143: "Error", 137: "OOMKilled"} // of process 1, if it was killed
		for _, name := range []string{"completed", "term", "oom"} {
			state := node.Container(p.ended(name), "main").State.Terminated
			if state == nil || reasons[state.ExitCode] != state.Reason {
				p.Errorf("pod %s ended: %v", name, state)
				continue
			}
			if state.ExitCode != 137 && p.output(name, "main", "killed ") != "137" {
				p.Errorf("no process of pod %s was killed", name)
			}
		}
	})
}
