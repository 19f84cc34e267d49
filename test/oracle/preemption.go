package oracle

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/agent"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// generatePreemption returns pods of several priorities that request more than the node has: pods of files, and in part
// of the cases of an API server. No pod of a file has a priority below a critical one of the API server: the kubelet
// preempts it if its manifest names that priority (docs/SCOPE.md).
func generatePreemption(m *pods.Generator) string {
	all, cluster, critical := "pods:\n", m.Chance(60), m.Chance(50)
	for i := range 2 + m.N(9) {
		priority := pods.Pick[int32](m, 0, 0, 1, 1000)
		p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		if p.Annotations = map[string]string{}; cluster && m.Chance(60) {
			if p.Annotations[configSource] = ofAPIServer; critical {
				priority = pods.Pick[int32](m, 0, 1, 1000, 2_000_000_000)
			}
		} else if cluster && critical {
			priority = pods.Pick[int32](m, 2_000_000_000, 2_000_001_000)
		}
		p.Spec.Priority = &priority
		p.Name = fmt.Sprintf("p%d", i)
		r := corev1.ResourceRequirements{}
		list := func(share int) corev1.ResourceList {
			l := corev1.ResourceList{}
			for name, values := range map[corev1.ResourceName][]string{
				corev1.ResourceCPU:              {"4", "2", "1", "500m", "1001m"},
				corev1.ResourceMemory:           {"7Gi", "4Gi", "2Gi", "1Gi", "1"},
				corev1.ResourceEphemeralStorage: {"50Gi", "20Gi", "1Gi"},
			} {
				if m.Chance(share) {
					l[name] = resource.MustParse(pods.Pick(m, values...))
				}
			}
			return l
		}
		if m.Chance(30) {
			r.Limits = list(90)
		} else {
			r.Requests = list(60)
		}
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example/app:1", Resources: r}}
		all += "- " + indent2(text(p)) + "\n"
	}
	return all + fmt.Sprintf("maxPods: %d\n", pods.Pick(m, 2, 5, 110))
}

// comparePreemption compares the victims of each pod.
func comparePreemption(c *testCase) {
	all := admissionCase{}
	if yaml.Unmarshal([]byte(c.text), &all) != nil || all.MaxPods < 0 {
		return
	}
	opts := nodeOptions()
	opts.Allocatable = opts.Allocatable.DeepCopy()
	opts.Allocatable[corev1.ResourcePods] = quantity(all.MaxPods)
	ours, theirs := agent.NewNode(opts), kubelet.NewPreemptingAdmission(opts)
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
		var source struct{ Metadata metav1.ObjectMeta }
		if yaml.Unmarshal(data, &source) == nil && source.Metadata.Annotations[configSource] == ofAPIServer {
			one[0].Pod.Annotations[configSource] = ofAPIServer
		}
		o, ended, err := ours.AdmitPreempting(one[0])
		check("our node", err)
		t, theirEnded := theirs.AdmitPreempting(one[0].Pod.DeepCopy())
		mine, other := strings.Join(ended, "\n"), strings.Join(theirEnded, "\n")
		switch {
		case o != t:
			c.differs(fmt.Sprintf("admitted: ours %t, the kubelet's %t", o, t), mine, other+" ")
			return
		case mine != other:
			c.differs("victims", mine, other)
			return
		case len(ended) > 0:
			c.count("equal preemptions")
		default:
			c.count("equal decisions")
		}
	}
}
