package downward

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func testPod() Pod {
	return Pod{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "web", Namespace: "shop", UID: "uid-1", Labels: map[string]string{"b": "2", "a/x": "1 \"q\"\n"},
				Annotations: map[string]string{"Note": "x"},
			},
			Spec: corev1.PodSpec{
				ServiceAccountName: "robot",
				Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
					Limits: list("memory", "0", "hugepages-2Mi", "4Mi"), Requests: list("ephemeral-storage", "1500"),
				}}},
				InitContainers: []corev1.Container{{Name: "first", Resources: corev1.ResourceRequirements{
					Limits: list("cpu", "1001m"),
				}}},
			},
		},
		Node: "node-1", HostIPs: []string{"192.0.2.1", "2001:db8::1"}, PodIPs: []string{"10.0.0.1", "fd00::1"},
		Allocatable: list("cpu", "3500m", "memory", "7Gi", "ephemeral-storage", "50Gi", "hugepages-1Gi", "8Gi"),
	}
}

func TestFieldsOfThePodAndItsNode(t *testing.T) {
	p := testPod()
	for path, want := range map[string]string{
		"metadata.name": "web", "metadata.namespace": "shop", "metadata.uid": "uid-1", "metadata.labels['b']": "2",
		"metadata.labels['none']": "", "metadata.annotations['Note']": "x", "spec.nodeName": "node-1",
		"spec.host": "node-1", "spec.serviceAccountName": "robot", "status.hostIP": "192.0.2.1",
		"status.hostIPs": "192.0.2.1,2001:db8::1", "status.podIP": "10.0.0.1", "status.podIPs": "10.0.0.1,fd00::1",
		"metadata.labels": "a/x=\"1 \\\"q\\\"\\n\"\nb=\"2\"", "metadata.annotations": "Note=\"x\"",
	} {
		if got, err := p.Field(path); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	p.Spec.NodeName, p.HostIPs = "other", nil
	if got, err := p.Field("spec.nodeName"); got != "other" || err != nil {
		t.Error(got, err)
	}
	if got, err := p.Field("status.hostIP"); got != "" || err != nil {
		t.Error(got, err)
	}
	for _, path := range []string{"", "status.phase", "metadata.name['x']", "metadata.labels['x'"} {
		if got, err := p.Field(path); err == nil {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// As in the kubelet: a missing or zero limit defaults to the node's allocatable, a missing request to the limit or 0.
// The result is rounded up.
func TestResourcesAreCountedInTheirDivisor(t *testing.T) {
	p := testPod()
	for _, c := range []struct{ container, resource, divisor, want string }{
		{"", "limits.cpu", "0", "4"}, {"", "limits.cpu", "1", "4"}, {"", "limits.cpu", "1m", "3500"},
		{"", "limits.memory", "0", "7516192768"}, {"", "limits.memory", "1Gi", "7"}, {"", "limits.memory", "4Gi", "2"},
		{"", "limits.ephemeral-storage", "1Gi", "50"}, {"", "requests.cpu", "1m", "0"},
		{"", "requests.ephemeral-storage", "1k", "2"}, {"", "requests.memory", "1", "0"},
		{"", "limits.hugepages-2Mi", "1Mi", "4"}, {"", "requests.hugepages-2Mi", "0", "4194304"},
		{"", "limits.hugepages-1Gi", "1Mi", "0"}, {"main", "limits.cpu", "0", "4"},
		{"first", "limits.cpu", "0", "2"}, {"first", "requests.cpu", "1m", "1001"}, {"first", "limits.memory", "1Gi", "7"},
	} {
		ref := &corev1.ResourceFieldSelector{
			ContainerName: c.container, Resource: c.resource, Divisor: resource.MustParse(c.divisor),
		}
		got, err := p.Resource(&p.Spec.Containers[0], ref)
		if err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
		if c.container != "" {
			if got, err := p.Resource(nil, ref); err != nil || got != c.want {
				t.Errorf("%+v of no container: %s, %v", c, got, err)
			}
		}
	}
	for _, ref := range []corev1.ResourceFieldSelector{
		{ContainerName: "none", Resource: "limits.cpu"}, {Resource: "limits.gpu"}, {Resource: "uses.cpu"}, {Resource: "cpu"},
	} {
		if got, err := p.Resource(&p.Spec.Containers[0], &ref); err == nil {
			t.Errorf("%+v: %s", ref, got)
		}
	}
}

func TestLimitsOfThePodStandForTheNodes(t *testing.T) {
	p := testPod()
	node := p.Allocatable
	if got := WithPodLimits(node, p.Pod); len(got) != len(node) {
		t.Error(got)
	}
	p.Spec.Resources = &corev1.ResourceRequirements{
		Limits: list("cpu", "2", "memory", "0", "ephemeral-storage", "1Gi", "hugepages-2Mi", "2Mi"),
	}
	got := WithPodLimits(node, p.Pod)
	cpu, memory, storage := got["cpu"], got["memory"], got["ephemeral-storage"]
	if cpu.String() != "2" || memory.String() != "7Gi" || storage.String() != "50Gi" || len(got) != len(node) {
		t.Error(got)
	}
	if cpu := node["cpu"]; cpu.String() != "3500m" {
		t.Error("the node's own list was changed")
	}
}
