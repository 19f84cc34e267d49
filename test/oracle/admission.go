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

// admissionCase is a case of several pods for one node, one after another.
type admissionCase struct {
	Pods    []any `json:"pods"`
	MaxPods int64 `json:"maxPods,omitempty"`
}

// generateAdmission returns several pods.
func generateAdmission(m *pods.Generator) string {
	all := "pods:\n"
	for i := range 1 + m.N(5) {
		p := m.Pod()
		p.Name, p.Namespace = fmt.Sprintf("p%d", i), ""
		p.UID = ""
		if m.Chance(40) {
			// Sizes that fit to the last byte, or do not by one.
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

// compareAdmission compares the admission of each pod: the verdict, the reason and the message.
func compareAdmission(c *testCase) {
	all := admissionCase{}
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
			c.count("rejected")
			continue
		}
		one[0].Pod.Spec.Priority = nil // comparePreemption compares preemption
		parsed = append(parsed, one[0])
	}
	opts := nodeOptions()
	opts.Allocatable = opts.Allocatable.DeepCopy()
	opts.Allocatable[corev1.ResourcePods] = quantity(all.MaxPods)
	ours, theirs := agent.NewNode(opts), kubelet.NewAdmission(opts)
	for _, p := range parsed {
		o, err := ours.Admit(p)
		check("our node", err)
		t := theirs.Admit(p.Pod.DeepCopy())
		if o == t {
			c.count("equal")
			continue
		}
		reason, _, _ := strings.Cut(t, ":")
		mine, _, _ := strings.Cut(o, ":")
		c.differs(fmt.Sprintf("ours %s, the kubelet's %s", mine, reason), o, t)
		return // later differences follow from this one
	}
}
