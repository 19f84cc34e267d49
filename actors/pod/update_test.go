package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/actors/apparmor"
)

// updatable is a pod with an init container, a sidecar and two main containers.
func updatable() *corev1.Pod {
	limited := corev1.ResourceRequirements{
		Requests: listOf("100m", "64Mi"), Limits: listOf("", "128Mi"),
	}
	p := podOf(
		corev1.Container{
			Name: "main", Image: "app:1", ImagePullPolicy: corev1.PullIfNotPresent, Resources: *limited.DeepCopy(),
		},
		corev1.Container{Name: "other", Image: "app:1"})
	p.Name, p.Namespace = "p", "d"
	p.Spec.InitContainers = []corev1.Container{
		{Name: "init", Image: "app:1"},
		{Name: "side", Image: "app:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: limited},
	}
	p.Spec.ActiveDeadlineSeconds = ptr.To[int64](100)
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
	p.Spec.Tolerations = []corev1.Toleration{
		{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	return p
}

func TestUpdateIsWhatTheAPIServerAllows(t *testing.T) {
	main := func(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
	cpu, memory := corev1.ResourceCPU, corev1.ResourceMemory
	for name, c := range map[string]struct {
		allowed bool
		change  func(p *corev1.Pod)
	}{
		"no change": {true, func(*corev1.Pod) {}},
		"an image":  {true, func(p *corev1.Pod) { main(p).Image = "app:2" }},
		"an image and its pull policy": {true, func(p *corev1.Pod) {
			main(p).Image, main(p).ImagePullPolicy = "app", corev1.PullAlways
		}},
		"an image of an init container": {true, func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "app:2" }},
		"labels and annotations": {true, func(p *corev1.Pod) {
			p.Labels, p.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
		}},
		"an AppArmor annotation": {false, func(p *corev1.Pod) {
			p.Annotations = map[string]string{apparmor.AnnotationPrefix + "main": "runtime/default"}
		}},
		"a lower deadline": {true, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](99) }},
		"another toleration": {true, func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "b"})
		}},
		"a toleration's seconds": {true, func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = ptr.To[int64](5) }},
		"a request":              {true, func(p *corev1.Pod) { main(p).Resources.Requests[cpu] = resource.MustParse("2") }},
		"a new limit":            {true, func(p *corev1.Pod) { main(p).Resources.Limits[cpu] = resource.MustParse("2") }},
		"a request of a sidecar": {true, func(p *corev1.Pod) {
			p.Spec.InitContainers[1].Resources.Requests[memory] = resource.MustParse("1Mi")
		}},
		"a name":               {false, func(p *corev1.Pod) { p.Name = "q" }},
		"a pull policy":        {false, func(p *corev1.Pod) { main(p).ImagePullPolicy = corev1.PullAlways }},
		"a higher deadline":    {false, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](101) }},
		"no deadline":          {false, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil }},
		"a removed toleration": {false, func(p *corev1.Pod) { p.Spec.Tolerations = nil }},
		"another grace period": {false, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](10) }},
		"a removed request":    {false, func(p *corev1.Pod) { delete(main(p).Resources.Requests, cpu) }},
		"a removed limit":      {false, func(p *corev1.Pod) { main(p).Resources.Limits = nil }},
		"another resource": {false, func(p *corev1.Pod) {
			main(p).Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
		}},
		"a resize policy": {false, func(p *corev1.Pod) {
			main(p).ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: cpu}}
		}},
		"resources of the pod": {true, func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: main(p).Resources.Requests}
		}},
		"huge pages of the pod": {false, func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceHugePagesPrefix + "2Mi": resource.MustParse("2Mi"),
			}}
		}},
		"an environment": {false, func(p *corev1.Pod) { main(p).Env = []corev1.EnvVar{{Name: "A"}} }},
		"another container": {false, func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "third"})
		}},
		"a removed container": {false, func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] }},
		"containers in another order": {false, func(p *corev1.Pod) {
			p.Spec.Containers[0], p.Spec.Containers[1] = p.Spec.Containers[1], p.Spec.Containers[0]
		}},
		"a container with another name": {false, func(p *corev1.Pod) { main(p).Name = "third" }},
		"a volume":                      {false, func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v"}} }},
		"the host's network":            {false, func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
		"a restart policy": {false, func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
		}},
		"an overhead":                       {false, func(p *corev1.Pod) { p.Spec.Overhead = main(p).Resources.Requests }},
		"a runtime class":                   {false, func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr.To("box") }},
		"an init container's restartPolicy": {false, func(p *corev1.Pod) { p.Spec.InitContainers[1].RestartPolicy = nil }},
	} {
		p := updatable()
		c.change(p)
		if got := UpdateAllowed(updatable(), p); got != c.allowed {
			t.Errorf("%s: allowed %t", name, got)
		}
	}
}

func TestUpdateKeepsQOSClass(t *testing.T) {
	limited := func() *corev1.Pod {
		return podOf(corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: listOf("1", "1Gi"), Limits: listOf("1", "1Gi"),
		}})
	}
	p := limited()
	p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("2")
	if UpdateAllowed(limited(), p) {
		t.Error("a pod that is Guaranteed may become Burstable")
	}
}

func TestChangedRuntimeClassIsAnUpdate(t *testing.T) {
	classed := func() *corev1.Pod {
		p := updatable()
		p.Spec.RuntimeClassName = ptr.To("box")
		return p
	}
	p := classed()
	p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	p.Spec.NodeSelector, p.Spec.Tolerations = map[string]string{"a": "b"}, nil
	if !UpdateAllowed(classed(), p) {
		t.Error("a changed class ends its pods")
	}
}

func TestChangeBeforeAdmissionBeginsAnotherIncarnation(t *testing.T) {
	p := newTestPod(t, map[string]*corev1.Pod{
		"old": podOf(corev1.Container{Name: "main", Image: "app:1"}),
		"new": podOf(corev1.Container{Name: "main", Image: "app:2"}),
	})
	p.updated(add, "old")
	first := p.Pod().GetIncarnation()
	p.updated(update, "new")
	if s := p.Pod().GetStage(); s != finished {
		t.Fatalf("its stage is %s", s)
	}
	p.updated(add, "new")
	p.admitted(first)
	if s := p.Pod().GetStage(); s != admitting {
		t.Errorf("the admission of the first incarnation leads to %s", s)
	}
}

func TestUpdateWithOtherContainersEndsRunningIncarnation(t *testing.T) {
	one := corev1.Container{Name: "main", Image: "app:1"}
	p := newTestPod(t, map[string]*corev1.Pod{
		"one": podOf(one), "two": podOf(one, corev1.Container{Name: "side", Image: "app:1"}),
	})
	p.updated(add, "one")
	p.admitted(p.Pod().GetIncarnation())
	p.updated(update, "two")
	if s := p.Pod(); s.GetStage() != terminating || !s.GetRemoved() || s.GetPod().GetDigest() != "one" {
		t.Errorf("its state is %v", s)
	}
}

func TestUpdateMayChangeResourcesOfThePodAndNotRemoveThem(t *testing.T) {
	whole := func(limits corev1.ResourceList) *corev1.Pod {
		p := updatable()
		p.Spec.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, Limits: limits,
		}
		return p
	}
	limit := func(name corev1.ResourceName, q string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(q)}
	}
	cpu, pages := corev1.ResourceCPU, corev1.ResourceName(corev1.ResourceHugePagesPrefix+"2Mi")
	both := func(name corev1.ResourceName, q string) corev1.ResourceList {
		return corev1.ResourceList{cpu: resource.MustParse("2"), name: resource.MustParse(q)}
	}
	for name, c := range map[string]struct {
		to      *corev1.Pod
		allowed bool
	}{
		"another limit":         {whole(limit(cpu, "3")), true},
		"another one, too":      {whole(both(corev1.ResourceMemory, "1Gi")), true},
		"a removed limit":       {whole(nil), false},
		"other huge pages":      {whole(both(pages, "2Mi")), false},
		"no resources any more": {updatable(), false},
	} {
		if got := UpdateAllowed(whole(limit(cpu, "2")), c.to); got != c.allowed {
			t.Errorf("%s: allowed %t", name, got)
		}
	}
}

func TestUpdateMayHaveEmptyResourcesOfThePod(t *testing.T) {
	was, is := updatable(), updatable()
	was.Spec.Resources, is.Spec.Resources = new(corev1.ResourceRequirements), new(corev1.ResourceRequirements)
	is.Spec.Containers[0].Image = "app:2"
	if !UpdateAllowed(was, is) {
		t.Error("another image is no update beside empty resources of the pod")
	}
}
