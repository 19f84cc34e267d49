//go:build reports

package reports

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/test/node"
)

// requests asks for CPU and memory, without limits.
func requests(cpu, memory string) func(*core.Pod) {
	return func(p *core.Pod) {
		list := core.ResourceList{}
		if cpu != "" {
			list[core.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			list[core.ResourceMemory] = resource.MustParse(memory)
		}
		p.Spec.Containers[0].Resources.Requests = list
	}
}

func (p *place) resize(name, resources string) {
	p.Helper()
	p.kubectl("", "patch", "pod", name, "--subresource=resize", "--patch",
		`{"spec": {"containers": [{"name": "main", "resources": `+resources+`}]}}`)
}

// A resize that changes requests only ends (kubernetes/kubernetes#126388, #128977, #125559), volumes show it (#130801),
// and an impossible resize has no effect, also not at a restart (#126033).
func TestResizes(t *testing.T) {
	ofAPI(t, func(p *place) {
		p.pod(pod("cpu", node.Idle, requests("10m", "16Mi"), func(p *core.Pod) {
			cpu := &core.ResourceFieldSelector{
				ContainerName: "main", Resource: "requests.cpu", Divisor: resource.MustParse("1m"),
			}
			items := []core.DownwardAPIVolumeFile{{Path: "cpu", ResourceFieldRef: cpu}}
			source := &core.DownwardAPIVolumeSource{Items: items}
			p.Spec.Volumes = []core.Volume{{Name: "names", VolumeSource: core.VolumeSource{DownwardAPI: source}}}
			p.Spec.Containers[0].VolumeMounts = []core.VolumeMount{{Name: "names", MountPath: "/names"}}
		}))
		p.pod(pod("memory", node.Idle, requests("", "16Mi")))
		p.pod(pod("larger", node.Idle, func(p *core.Pod) {
			cpu := core.ResourceList{core.ResourceCPU: resource.MustParse("50m")}
			p.Spec.Containers[0].Resources = core.ResourceRequirements{Requests: cpu, Limits: cpu}
		}))
		for _, name := range []string{"cpu", "memory", "larger"} {
			p.ready(name)
		}
		p.resize("cpu", `{"requests": {"cpu": "20m"}}`)
		p.resize("memory", `{"requests": {"memory": "24Mi"}}`)
		all := p.kubectl("", "get", "node", nodeName, "-o", "jsonpath={.status.allocatable.cpu}") // others have some of it
		p.resize("larger", `{"requests": {"cpu": "`+all+`"}, "limits": {"cpu": "`+all+`"}}`)
		for name, want := range map[string]string{"cpu": "20m", "memory": "24Mi"} {
			p.await(name, "resized", func(pod *core.Pod) bool {
				has := node.Container(pod, "main").Resources
				if has == nil {
					return false
				}
				cpu, memory := has.Requests[core.ResourceCPU], has.Requests[core.ResourceMemory]
				return (cpu.String() == want || memory.String() == want) && resizing(pod) == ""
			})
		}
		p.until("the volume to have the CPU", func() error {
			if out := p.exec("cpu", "cat", "/names/cpu"); out != "20" {
				return errNot(out)
			}
			return nil
		})
		p.await("larger", "without room", func(pod *core.Pod) bool {
			return strings.HasPrefix(resizing(pod), string(core.PodResizePending))
		})
		p.end("larger")
		again := p.await("larger", "restarted", func(pod *core.Pod) bool {
			return node.Ready(pod) && node.Container(pod, "main").RestartCount == 1
		})
		if has := node.Container(again, "main").Resources; has == nil || has.Limits.Cpu().String() != "50m" {
			p.Errorf("the container has %v", has)
		}
	})
}

// resizing has the conditions of a resize that is not over.
func resizing(pod *core.Pod) (out string) {
	for _, c := range pod.Status.Conditions {
		if c.Type == core.PodResizePending || c.Type == core.PodResizeInProgress {
			out += string(c.Type) + " " + c.Reason + " "
		}
	}
	return out
}
