package manifest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func gatePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret},
	}}
}

func TestAPodOnWhichTheGateFailsIsRefused(t *testing.T) {
	if why := gateBy(gatePod(), func(*corev1.Pod) string { panic("a defect") }); why != Defect {
		t.Errorf("it is refused for %q", why)
	}
}

func TestWhatAPodMayHave(t *testing.T) {
	many := func(n int, add func(s *corev1.PodSpec, i int)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for i := range n {
				add(&p.Spec, i)
			}
		}
	}
	container := func(s *corev1.PodSpec, i int) {
		s.Containers = append(s.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "i"})
	}
	ephemeral := func(s *corev1.PodSpec, i int) {
		c := corev1.EphemeralContainer{}
		c.Name = fmt.Sprint("e", i)
		s.EphemeralContainers = append(s.EphemeralContainers, c)
	}
	volume := func(s *corev1.PodSpec, i int) { s.Volumes = append(s.Volumes, corev1.Volume{Name: fmt.Sprint("v", i)}) }
	reference := func(s *corev1.PodSpec, i int) {
		s.ImagePullSecrets = append(s.ImagePullSecrets, corev1.LocalObjectReference{Name: fmt.Sprint("s", i)})
	}
	port := func(s *corev1.PodSpec, i int) {
		s.Containers[0].Ports = append(s.Containers[0].Ports, corev1.ContainerPort{HostPort: int32(i + 1)})
	}
	gate := func(s *corev1.PodSpec, i int) {
		s.ReadinessGates = append(s.ReadinessGates, corev1.PodReadinessGate{ConditionType: "t"})
	}
	containerPort := func(s *corev1.PodSpec, i int) {
		s.Containers[0].Ports = append(s.Containers[0].Ports, corev1.ContainerPort{ContainerPort: int32(i + 1)})
	}
	toleration := func(s *corev1.PodSpec, i int) {
		s.Tolerations = append(s.Tolerations, corev1.Toleration{
			Key: fmt.Sprintf("%0100d", i), Operator: corev1.TolerationOpExists,
		})
	}
	node := func(s *corev1.PodSpec, i int) {
		if i == 0 {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname}},
				}}},
			}}
		}
		in := &s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
		in.Values = append(in.Values, fmt.Sprintf("node-%04d.of.a-cluster.example.org", i))
	}
	tiny := func(s *corev1.PodSpec, i int) {
		c := &s.Containers[0]
		if i == 0 {
			c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{}}
		}
		c.SecurityContext.Capabilities.Add = append(c.SecurityContext.Capabilities.Add, "A")
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   string // what the refusal begins with; empty: none
	}{
		"a small one": {func(*corev1.Pod) {}, ""},
		"1 MiB of arguments": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Args = []string{strings.Repeat("<", 1<<20)}
		}, ""},
		"1 MiB of variables": {many(16, func(s *corev1.PodSpec, i int) {
			s.Containers[0].Env = append(s.Containers[0].Env, corev1.EnvVar{Name: "E", Value: strings.Repeat("x", 64<<10)})
		}), ""},
		"too many bytes": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Args = []string{strings.Repeat("x", MaxPodBytes)}
		}, "a pod of 1"},
		"managed fields": {func(p *corev1.Pod) {
			p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(string(make([]byte, MaxPodBytes)))}}
		}, ""},
		"containers": {many(MaxContainers-1, container), ""},
		"too many containers": {many(MaxContainers, container),
			"spec.containers and spec.initContainers of 81 entries, more than 80"},
		"ephemeral":           {many(maxEphemeral, ephemeral), ""},
		"too many ephemeral":  {many(maxEphemeral+1, ephemeral), "spec.ephemeralContainers of 101"},
		"volumes":             {many(maxVolumes, volume), ""},
		"too many volumes":    {many(maxVolumes+1, volume), "spec.volumes of 1001"},
		"references":          {many(maxReferences-1, reference), ""},
		"too many references": {many(maxReferences+1, reference), "references to objects of 1001 entries"},
		"host ports":          {many(maxHostPorts, port), ""},
		"too many host ports": {many(maxHostPorts+1, port), "spec.containers with host ports of 10001"},
		"long host IPs and resources": {many(maxHostPorts, func(s *corev1.PodSpec, i int) {
			c := &s.Containers[0]
			c.Ports = append(c.Ports, corev1.ContainerPort{HostPort: 1, HostIP: fmt.Sprintf("%064d", i)})
			if i < 100 {
				if i == 0 {
					c.Resources.Limits = corev1.ResourceList{}
				}
				c.Resources.Limits[corev1.ResourceName(fmt.Sprintf("vendor.com/%04000d", i))] = resource.MustParse("1")
			}
		}), "host ports and extended resources of"},
		"a long host IP": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostIP: strings.Repeat("1", 65)}}
		}, "spec.containers[0].ports[0].hostIP of 65 bytes"},
		"too many gates":           {many(maxReadinessGates+1, gate), "spec.readinessGates of 101"},
		"ports of 1 MiB of memory": {many(19_000, containerPort), "spec without arguments, variables and the like of 1"},
		"tolerations":              {many(3000, toleration), ""},
		"too many tolerations":     {many(11_000, toleration), "spec without arguments, variables and the like of "},
		"the nodes of a cluster":   {many(5000, node), ""},
		"tiny values":              {many(80_000, tiny), "spec without arguments, variables and the like of "},
		"labels": {func(p *corev1.Pod) {
			p.Labels = map[string]string{"a": strings.Repeat("x", maxLabelBytes)}
		}, "metadata.labels of 262145 bytes"},
		"a long Secret": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{secretVolume("a", "b"), secretVolume("v", strings.Repeat("s", 1_100_000))}
		}, "spec.volumes[1].secret.secretName of 1100000 bytes, more than 253"},
		"a long key's Secret": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{
					Name: strings.Repeat("s", 254),
				}},
			}}}
		}, "spec.containers[0].env[0].valueFrom.secretKeyRef.name of 254 bytes, more than 253"},
		"a long image": {func(p *corev1.Pod) { p.Spec.Containers[0].Image = strings.Repeat("i", 1025) },
			"spec.containers[0].image of 1025 bytes, more than 1024"},
		"a long ephemeral image": {func(p *corev1.Pod) {
			ephemeral(&p.Spec, 0)
			p.Spec.EphemeralContainers[0].Image = strings.Repeat("i", 1025)
		}, "spec.ephemeralContainers[0].image of 1025 bytes, more than 1024"},
		"a long audience": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
					ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: strings.Repeat("a", 1<<20)},
				}}},
			}}}
		}, "spec.volumes[0].projected.sources[0].serviceAccountToken.audience of 1048576 bytes"},
		"a long resource": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
				corev1.ResourceName(strings.Repeat("r", 4097)): resource.MustParse("1"),
			}
		}, "spec.containers[0].resources.limits of 4097 bytes"},
		"no UTF-8": {func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"\xff"} },
			"spec.containers[0].args[0] that is not UTF-8"},
		"no name": {func(p *corev1.Pod) { p.Spec.Containers[0].Name = "../c" }, `container "../c"`},
	} {
		p := gatePod()
		test.change(p)
		if got := Gate(p); (test.want == "") != (got == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %.200q, want %q", name, got, test.want)
		}
	}
}

func TestBoundsOfFieldsNameFields(t *testing.T) {
	fields, seen := map[string]bool{}, map[reflect.Type]bool{}
	var collect func(typ reflect.Type)
	collect = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			collect(typ.Elem())
		case reflect.Struct:
			if seen[typ] {
				return
			}
			seen[typ] = true
			for i := range typ.NumField() {
				fields[typ.Name()+"."+typ.Field(i).Name] = true
				collect(typ.Field(i).Type)
			}
		}
	}
	collect(reflect.TypeFor[corev1.PodSpec]())
	for name := range data {
		if !fields[name] {
			t.Errorf("%s is no field of a pod", name)
		}
	}
	for name := range fieldBounds {
		if !fields[name] {
			t.Errorf("%s is no field of a pod", name)
		}
	}
}
