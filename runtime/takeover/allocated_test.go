package takeover

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/runtime/kubeletstate"
)

// cpus are requests, and limits if there are any.
func cpus(request, limit string) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}}
	if limit != "" {
		r.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
	}
	return r
}

func TestPodHasWhatAKubeletHadAllocated(t *testing.T) {
	whole := func(request string) *corev1.ResourceRequirements {
		r := cpus(request, "")
		return &r
	}
	containers := func(r corev1.ResourceRequirements) kubeletstate.PodResources {
		return kubeletstate.PodResources{Containers: map[string]corev1.ResourceRequirements{"side": r, "main": r, "gone": r}}
	}
	for what, c := range map[string]struct {
		had   kubeletstate.PodResources
		whole *corev1.ResourceRequirements // of the spec
		want  string                       // the CPUs of main, of the sidecar and of the pod as a whole; "": the spec counts
	}{
		"pending":                     {had: containers(cpus("1", "")), want: "1 1 0"},
		"the same":                    {had: containers(cpus("8000m", ""))},
		"of another QoS class":        {had: containers(corev1.ResourceRequirements{})},
		"with a limit that is gone":   {had: containers(cpus("1", "2"))},
		"a pod that was never noted":  {},
		"the pod as a whole":          {had: kubeletstate.PodResources{Pod: whole("9")}, whole: whole("12"), want: "8 8 9"},
		"a whole that is not noted":   {had: containers(cpus("1", "")), whole: whole("12"), want: "1 1 12"},
		"a whole that the spec lacks": {had: kubeletstate.PodResources{Pod: whole("9")}},
	} {
		always := corev1.ContainerRestartPolicyAlways
		spec := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1"}, Spec: corev1.PodSpec{
			Resources:      c.whole,
			InitContainers: []corev1.Container{{Name: "side", RestartPolicy: &always, Resources: cpus("8", "")}},
			Containers:     []corev1.Container{{Name: "main", Resources: cpus("8", "")}},
		}}
		got := ""
		if p := (Allocated{"u1": c.had}).Pod(spec); p != nil {
			s, w := &p.Spec, corev1.ResourceRequirements{}
			if s.Resources != nil {
				w = *s.Resources
			}
			got = s.Containers[0].Resources.Requests.Cpu().String() + " " +
				s.InitContainers[0].Resources.Requests.Cpu().String() + " " + w.Requests.Cpu().String()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", what, got, c.want)
		}
		if has := spec.Spec.Containers[0].Resources.Requests.Cpu().String(); has != "8" {
			t.Errorf("%s: the spec itself has %s CPUs now", what, has)
		}
	}
	if p := Allocated(nil).Pod(&corev1.Pod{}); p != nil {
		t.Errorf("without a file: %v", p)
	}
}
