package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages/journaletv1"
)

// updatable is a pod with an init container, a sidecar and two main containers.
func updatable() *corev1.Pod {
	sized := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
	}
	p := podOf(
		corev1.Container{Name: "main", Image: "app:1", ImagePullPolicy: corev1.PullIfNotPresent, Resources: *sized.DeepCopy()},
		corev1.Container{Name: "other", Image: "app:1"})
	p.Name, p.Namespace = "p", "d"
	p.Spec.InitContainers = []corev1.Container{
		{Name: "init", Image: "app:1"},
		{Name: "side", Image: "app:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: sized},
	}
	p.Spec.ActiveDeadlineSeconds = ptr.To[int64](100)
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
	p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	return p
}

func TestAnUpdateIsWhatTheAPIServerAllowsOfAPodThatRuns(t *testing.T) {
	main := func(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
	cpu, memory := corev1.ResourceCPU, corev1.ResourceMemory
	for name, c := range map[string]struct {
		allowed bool
		change  func(p *corev1.Pod)
	}{
		"nothing":                       {true, func(*corev1.Pod) {}},
		"an image":                      {true, func(p *corev1.Pod) { main(p).Image = "app:2" }},
		"an image and its pull policy":  {true, func(p *corev1.Pod) { main(p).Image, main(p).ImagePullPolicy = "app", corev1.PullAlways }},
		"an image of an init container": {true, func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "app:2" }},
		"labels and annotations": {true, func(p *corev1.Pod) {
			p.Labels, p.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
		}},
		"a lower deadline":          {true, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](99) }},
		"another toleration":        {true, func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "b"}) }},
		"a toleration's seconds":    {true, func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = ptr.To[int64](5) }},
		"a request":                 {true, func(p *corev1.Pod) { main(p).Resources.Requests[cpu] = resource.MustParse("2") }},
		"a limit that is new":       {true, func(p *corev1.Pod) { main(p).Resources.Limits[cpu] = resource.MustParse("2") }},
		"a request of a sidecar":    {true, func(p *corev1.Pod) { p.Spec.InitContainers[1].Resources.Requests[memory] = resource.MustParse("1Mi") }},
		"a name":                    {false, func(p *corev1.Pod) { p.Name = "q" }},
		"a pull policy":             {false, func(p *corev1.Pod) { main(p).ImagePullPolicy = corev1.PullAlways }},
		"a higher deadline":         {false, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](101) }},
		"no deadline":               {false, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil }},
		"a toleration that is gone": {false, func(p *corev1.Pod) { p.Spec.Tolerations = nil }},
		"another grace period":      {false, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](10) }},
		"a request that is gone":    {false, func(p *corev1.Pod) { delete(main(p).Resources.Requests, cpu) }},
		"a limit that is gone":      {false, func(p *corev1.Pod) { main(p).Resources.Limits = nil }},
		"another resource": {false, func(p *corev1.Pod) {
			main(p).Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
		}},
		"a resize policy": {false, func(p *corev1.Pod) { main(p).ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: cpu}} }},
		"resources of the pod": {false, func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: main(p).Resources.Requests}
		}},
		"an environment":         {false, func(p *corev1.Pod) { main(p).Env = []corev1.EnvVar{{Name: "A"}} }},
		"a container that comes": {false, func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "third"}) }},
		"a container that goes":  {false, func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] }},
		"containers in another order": {false, func(p *corev1.Pod) {
			p.Spec.Containers[0], p.Spec.Containers[1] = p.Spec.Containers[1], p.Spec.Containers[0]
		}},
		"a container with another name":     {false, func(p *corev1.Pod) { main(p).Name = "third" }},
		"a volume":                          {false, func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v"}} }},
		"the host's network":                {false, func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
		"a restart policy":                  {false, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }},
		"an overhead":                       {false, func(p *corev1.Pod) { p.Spec.Overhead = main(p).Resources.Requests }},
		"a runtime class":                   {false, func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr.To("box") }},
		"an init container's restartPolicy": {false, func(p *corev1.Pod) { p.Spec.InitContainers[1].RestartPolicy = nil }},
	} {
		p := updatable()
		c.change(p)
		if got := updateAllowed(updatable(), p); got != c.allowed {
			t.Errorf("%s: allowed %t", name, got)
		}
	}
}

func TestAnotherQOSClassIsNoUpdate(t *testing.T) {
	limited := func() *corev1.Pod {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		return podOf(corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}})
	}
	p := limited()
	p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("2")
	if updateAllowed(limited(), p) {
		t.Error("a pod that is Guaranteed may become Burstable")
	}
}

func TestWhatARuntimeClassBringsEndsNoPod(t *testing.T) {
	classed := func() *corev1.Pod {
		p := updatable()
		p.Spec.RuntimeClassName = ptr.To("box")
		return p
	}
	p := classed()
	p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	p.Spec.NodeSelector, p.Spec.Tolerations = map[string]string{"a": "b"}, nil
	if !updateAllowed(classed(), p) {
		t.Error("a class that changed ends the pods that have it")
	}
}

func TestAChangeBeforeAdmissionIsAnotherIncarnation(t *testing.T) {
	a := newAsker(t, map[string]*corev1.Pod{
		"old": podOf(corev1.Container{Name: "main", Image: "app:1"}), "new": podOf(corev1.Container{Name: "main", Image: "app:2"}),
	})
	a.updated(add, "old")
	first := a.Pod().GetIncarnation()
	a.updated(changed, "new")
	if s := a.Pod().GetStage(); s != finished {
		t.Fatalf("its stage is %s", s)
	}
	a.updated(add, "new")
	a.see(&journaletv1.Event{Kind: &journaletv1.Event_AdmissionDecided{
		AdmissionDecided: &journaletv1.AdmissionDecided{Uid: "u", Admitted: true, Incarnation: first},
	}}, "")
	if s := a.Pod().GetStage(); s != admitting {
		t.Errorf("the answer to the first incarnation leads to %s", s)
	}
}

func TestAnUpdateWithOtherContainersEndsTheIncarnationThatRuns(t *testing.T) {
	one := corev1.Container{Name: "main", Image: "app:1"}
	a := newAsker(t, map[string]*corev1.Pod{"one": podOf(one), "two": podOf(one, corev1.Container{Name: "side", Image: "app:1"})})
	a.updated(add, "one")
	a.admitted()
	a.updated(changed, "two")
	if s := a.Pod(); s.GetStage() != terminating || !s.GetRemoved() || s.GetPod().GetDigest() != "one" {
		t.Errorf("its state is %v", s)
	}
}
