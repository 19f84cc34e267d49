package simulation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pods with CPU and memory as a whole (spec.resources). What a container has is written here a second time, independent
// of actors/resources.

// Sized returns the plan of a seed where most pods have CPU and memory as a whole, and are resized often.
func Sized(seed uint64) *Plan {
	p := PlanOf(seed)
	p.config.sized = true
	r := stream(seed, "plan of sized pods")
	for i, o := range p.Ops {
		if o.Kind == "write" && !chance(r, 4) {
			p.Ops[i].body = withSize(r, o.body)
		}
	}
	for at := between(r, 0, p.end/10); at < p.end; at += between(r, 0, p.end/5) {
		p.Ops = append(p.Ops, Op{At: at, Kind: "resize", pick: r.Uint64()})
	}
	p.inOrder()
	return p
}

// withSize returns the manifest of a pod with CPU and memory as a whole. Some of its containers have no resources of
// their own. A body that is no pod stays.
func withSize(r *rand.Rand, body []byte) []byte {
	var m map[string]any
	if json.Unmarshal(body, &m) != nil {
		return body
	}
	spec, _ := m["spec"].(map[string]any)
	for _, key := range []string{"initContainers", "containers"} {
		all, _ := spec[key].([]any)
		for _, c := range all {
			if c, ok := c.(map[string]any); ok && chance(r, 2) {
				delete(c, "resources")
			}
		}
	}
	cpu, memory := 1+r.IntN(3000), 1+r.IntN(4000)
	spec["resources"] = map[string]any{
		"requests": map[string]any{"cpu": fmt.Sprintf("%dm", cpu), "memory": fmt.Sprintf("%dMi", memory)},
		"limits": map[string]any{
			"cpu": fmt.Sprintf("%dm", cpu+r.IntN(2000)), "memory": fmt.Sprintf("%dMi", memory+r.IntN(2000)),
		},
	}
	coverContainers(spec)
	out, err := json.Marshal(m)
	if err != nil {
		return body
	}
	return out
}

// coverContainers raises the resources of a pod as a whole, if it has some, to what its containers have: others are no
// valid manifest.
func coverContainers(spec map[string]any) {
	whole, ok := spec["resources"].(map[string]any)
	if !ok {
		return
	}
	for _, name := range []string{"cpu", "memory"} {
		sum, most := resource.Quantity{}, resource.Quantity{}
		for _, key := range []string{"initContainers", "containers"} {
			all, _ := spec[key].([]any)
			for _, c := range all {
				c, _ := c.(map[string]any)
				res, _ := c["resources"].(map[string]any)
				limit, limited := quantityOf(res, "limits", name)
				if request, requested := quantityOf(res, "requests", name); requested {
					sum.Add(request)
				} else if limited {
					sum.Add(limit) // its default
				}
				if limit.Cmp(most) > 0 {
					most = limit
				}
			}
		}
		raise(whole, "requests", name, sum)
		if request, ok := quantityOf(whole, "requests", name); ok && request.Cmp(most) > 0 {
			most = request
		}
		raise(whole, "limits", name, most)
	}
}

func quantityOf(res map[string]any, part, name string) (resource.Quantity, bool) {
	list, _ := res[part].(map[string]any)
	text, ok := list[name].(string)
	if !ok {
		return resource.Quantity{}, false
	}
	return resource.MustParse(text), true
}

// raise sets a value that is there to least, if it is below.
func raise(res map[string]any, part, name string, least resource.Quantity) {
	if has, ok := quantityOf(res, part, name); ok && has.Cmp(least) < 0 {
		res[part].(map[string]any)[name] = least.String()
	}
}

// ownOrPods returns a container's requests and limits. For a limit that it lacks it gets the pod's limit as a whole.
func ownOrPods(m *corev1.Pod, spec *corev1.Container) *corev1.ResourceRequirements {
	if m == nil || m.Spec.Resources == nil {
		return &spec.Resources
	}
	out := spec.Resources.DeepCopy()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		own, whole := out.Limits[name], m.Spec.Resources.Limits[name]
		if !own.IsZero() || whole.IsZero() {
			continue
		}
		if out.Limits == nil {
			out.Limits = corev1.ResourceList{}
		}
		out.Limits[name] = whole
	}
	return out
}

// ofWhole returns what a pod requests as a whole, where it says so.
func ofWhole(m *corev1.Pod, sum share) share {
	if m.Spec.Resources == nil {
		return sum
	}
	if cpu, ok := m.Spec.Resources.Requests[corev1.ResourceCPU]; ok {
		sum.cpu = cpu.MilliValue()
	}
	if memory, ok := m.Spec.Resources.Requests[corev1.ResourceMemory]; ok {
		sum.memory = memory.Value()
	}
	return sum
}

// judgeSize: without faults the sandbox has the limits and the CPU request that are allocated to the pod as a whole. Of
// one whose record is lost the agent does not know them.
func (s *sim) judgeSize(allocated *corev1.Pod, o *objects, say func(string, ...any)) {
	whole := allocated.Spec.Resources
	if whole == nil {
		return
	}
	for _, x := range o.sandboxes {
		if !x.ready || x.has == nil || s.judge.intents[x.intent] == nil {
			continue
		}
		cpu, limit, memory := whole.Requests.Cpu(), whole.Limits.Cpu(), whole.Limits.Memory()
		if shares := max(2, cpu.MilliValue()*1024/1000); cpu.MilliValue() > 0 && x.has.GetCpuShares() != shares {
			say("its sandbox has %d CPU shares, and %s is allocated to the pod", x.has.GetCpuShares(), cpu)
		}
		if quota := max(1000, limit.MilliValue()*100); !limit.IsZero() && x.has.GetCpuQuota() != quota {
			say("its sandbox has a CPU quota of %d, and the pod's limit is %s", x.has.GetCpuQuota(), limit)
		}
		if !memory.IsZero() && x.has.GetMemoryLimitInBytes() != memory.Value() {
			say("its sandbox may use %d bytes, and the pod's limit is %s", x.has.GetMemoryLimitInBytes(), memory)
		}
	}
}

// setSize records the resources of a sandbox's pod as a whole.
func (w *world) setSize(id string, to *runtimeapi.LinuxContainerResources) {
	if x := w.sandbox(id); x != nil {
		x.has = to
	}
}
