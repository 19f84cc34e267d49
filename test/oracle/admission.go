package oracle

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/agent"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// crowd is a case of several pods that ask to run on one node, one after the other.
type crowd struct {
	Pods    []any `json:"pods"`
	MaxPods int64 `json:"maxPods,omitempty"`
}

// makeCrowd makes up several pods.
func makeCrowd(m *pods.Maker) string {
	all := "pods:\n"
	for i := range 1 + m.N(5) {
		p := m.Pod()
		p.Name, p.Namespace = fmt.Sprintf("p%d", i), ""
		p.UID = ""
		if m.Chance(40) {
			// What fits to the last byte, or does not by one.
			p.Spec.Containers = p.Spec.Containers[:1]
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse(pods.Pick(m, "4", "2", "2001m", "1", "0")),
				corev1.ResourceMemory: resource.MustParse(pods.Pick(m, "7Gi", "3584Mi", "3584Mi", "1", "0")),
			}}
		}
		if m.Chance(10) {
			p.Labels = map[string]string{corev1.LabelOSStable: pods.Pick(m, "linux", "windows")}
		}
		if m.Chance(50) {
			p.Spec.NodeSelector, p.Spec.Affinity = nil, nil
		}
		if p.Spec.SecurityContext != nil && m.Chance(60) {
			p.Spec.SecurityContext.Sysctls = nil
		}
		all += "- " + indent2(text(p)) + "\n"
	}
	return all + fmt.Sprintf("maxPods: %d\n", pods.Pick(m, 1, 3, 110))
}

// compareAdmission holds who may run on a node to what the kubelet says: for each pod the verdict, the reason, its words.
func compareAdmission(c *testCase) {
	all := crowd{}
	if yaml.Unmarshal([]byte(c.text), &all) != nil || all.MaxPods < 0 {
		return
	}
	var parsed []manifest.Parsed
	for _, p := range all.Pods {
		data, err := yaml.Marshal(p)
		if err != nil {
			return
		}
		one, problems := manifest.Decode(manifestPath, data, manifest.Options{NodeName: nodeName})
		if len(problems) > 0 || len(one) != 1 {
			c.count("refused")
			continue
		}
		one[0].Pod.Spec.Priority = nil // who ends for whom is for the comparer of preemption
		parsed = append(parsed, one[0])
	}
	opts := nodeOptions()
	opts.Allocatable = opts.Allocatable.DeepCopy()
	opts.Allocatable[corev1.ResourcePods] = quantity(all.MaxPods)
	ours, theirs := agent.NewNode(opts), kubelet.NewDoor(opts)
	for _, p := range parsed {
		o, err := ours.Ask(p)
		if err != nil {
			panic(fmt.Sprintf("our node: %v", err))
		}
		t := theirs.Ask(p.Pod.DeepCopy())
		if o == t {
			c.count("alike")
			continue
		}
		reason, _, _ := strings.Cut(t, ":")
		mine, _, _ := strings.Cut(o, ":")
		c.differs(fmt.Sprintf("we say %s, the kubelet %s", mine, reason), o, t)
		return // what comes after follows from this
	}
}
