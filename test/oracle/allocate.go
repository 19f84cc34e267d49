package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/test/oracle/agent"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// allocationCase is a case of pods on one node that are resized or end.
type allocationCase struct {
	Pods    []share  `json:"pods"`
	Changes []change `json:"changes"`
}

type share struct {
	CPU        string `json:"cpu"`
	Memory     string `json:"memory"`
	Priority   int32  `json:"priority,omitempty"`
	Guaranteed bool   `json:"guaranteed,omitempty"`
}

// change resizes or ends the pod with an index.
type change struct {
	Pod    int    `json:"pod"`
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
	End    bool   `json:"end,omitempty"`
}

// generateAllocations returns pods and their changes. The node has 4 CPUs and 7 GiB.
func generateAllocations(m *pods.Generator) string {
	cpu := func() string { return pods.Pick(m, "100m", "500m", "1", "1", "1500m", "2", "3", "4", "5") }
	memory := func() string { return pods.Pick(m, "1Gi", "1Gi", "2Gi", "3Gi", "3584Mi", "7Gi", "8Gi") }
	s := allocationCase{}
	ends := 15
	if m.Chance(60) {
		// A full node: several resizes wait, and each end of a pod frees resources for some of them.
		cpu = func() string { return pods.Pick(m, "700m", "1", "1300m", "1500m") }
		memory = func() string { return pods.Pick(m, "1Gi", "1Gi", "1Gi", "2Gi") }
		s.Pods, ends = append(s.Pods, share{CPU: "700m", Memory: "1Gi"}, share{CPU: "1", Memory: "1Gi", Priority: 10}), 30
	}
	for range 2 + m.N(4) {
		s.Pods = append(s.Pods, share{
			CPU: cpu(), Memory: memory(), Guaranteed: m.Chance(40),
			Priority: pods.Pick[int32](m, 0, 0, 0, 10, 1000, critical, critical+1000),
		})
	}
	for range 3 + m.N(10) {
		s.Changes = append(s.Changes, change{Pod: m.N(len(s.Pods)), CPU: cpu(), Memory: memory(), End: m.Chance(ends)})
	}
	return toYAML(s)
}

// critical is the least priority of a critical pod, which may preempt others.
const critical = 2_000_000_000

// noRoom begins the kubelet's message for a critical pod that no preemption makes room for. Ours names the resource.
const noRoom = "Deferred: Unexpected error while attempting to recover from admission failure: " +
	"preemption: error finding a set of pods"

// compareAllocations compares what pods are allocated, why their resizes wait, and the victims of critical pods'
// resizes, with the kubelet's allocation manager. The pods are the API server's, because the kubelet does not resize
// static pods.
func compareAllocations(c *testCase) {
	s := allocationCase{}
	if yaml.Unmarshal([]byte(c.text), &s) != nil {
		return
	}
	ours, theirs := agent.NewAllocations(nodeOptions()), kubelet.NewAllocations(nodeOptions())
	var running, order []int
	for i := range s.Pods {
		order = append(order, i)
	}
	// The higher priority first: comparePreemption compares the preemption of new pods.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Pods[b].Priority, s.Pods[a].Priority) })
	for _, i := range order {
		p, ok := parsedOf(shareOf(i, s.Pods[i]))
		if !ok {
			return
		}
		mine, err := ours.Add(p)
		check("compare", err)
		if there := theirs.Add(fromAPI(p.Pod)); mine != there {
			c.differs("admission", mine, there)
			return
		}
		if mine {
			running = append(running, i)
		}
	}
	var last []string // what pods had before a change
	for n, x := range s.Changes {
		at := slices.Index(running, x.Pod)
		if at < 0 {
			continue
		}
		if x.End {
			running = slices.Delete(running, at, at+1)
			theirs.End(uidOf(x.Pod))
			check("compare", ours.End(string(uidOf(x.Pod))))
		} else {
			to := s.Pods[x.Pod]
			to.CPU, to.Memory = x.CPU, x.Memory
			p, ok := parsedOf(shareOf(x.Pod, to))
			if !ok {
				return
			}
			theirs.Resize(fromAPI(p.Pod))
			check("compare", ours.Resize(p))
		}
		c.count("changes")
		var mine, there []string
		for i := range s.Pods {
			mine = append(mine, fmt.Sprintf("%d: %s", i, ours.Has(string(uidOf(i)))))
			there = append(there, fmt.Sprintf("%d: %s", i, theirs.Has(uidOf(i))))
			if at, _, found := strings.Cut(there[i], noRoom); found && strings.HasPrefix(mine[i], at+"Deferred: ") {
				c.count("resizes that no preemption helps")
				there[i] = mine[i]
			}
		}
		if !slices.Equal(mine, there) {
			key, after := "what pods have", fmt.Sprintf("after change %d\n", n)
			if last != nil && !x.End && strings.Contains(last[x.Pod], "Deferred: ") {
				key += " after a waiting resize has changed"
			}
			c.differs(key, after+strings.Join(mine, "\n"), after+strings.Join(there, "\n"))
			return
		}
		running = slices.DeleteFunc(running, func(i int) bool { return theirs.Has(uidOf(i)) == "gone" })
		last = mine
	}
	if ours.Preempted() > 0 {
		c.count("cases with victims of a resize")
	}
}

// fromAPI returns a copy of a pod as if it came from the API server.
func fromAPI(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	delete(p.Annotations, "kubernetes.io/config.source")
	return p
}

func uidOf(i int) types.UID { return types.UID(fmt.Sprintf("%032d", i)) }

func shareOf(i int, s share) *corev1.Pod {
	p := &corev1.Pod{}
	p.APIVersion, p.Kind, p.Name, p.UID = "v1", "Pod", fmt.Sprintf("p%d", i), uidOf(i)
	p.Spec.Priority = &s.Priority
	cpu, err1 := resource.ParseQuantity(s.CPU)
	memory, err2 := resource.ParseQuantity(s.Memory)
	if err1 != nil || err2 != nil {
		return p // invalid: it has no containers
	}
	list := corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
	c := corev1.Container{Name: "main", Image: pods.GoodImages[0], Resources: corev1.ResourceRequirements{Requests: list}}
	if s.Guaranteed {
		c.Resources.Limits = list.DeepCopy()
	}
	p.Spec.Containers = []corev1.Container{c}
	return p
}
