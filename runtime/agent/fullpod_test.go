package agent

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/fullpod"
)

// A tenant sets each field of a pod that there is, in a pod of its own, and all of them in one. Each runs or is
// refused, and a pod that comes after them runs.
func TestPodsWithUnusualFieldsStopNoOther(t *testing.T) {
	server := fakeapi.New()
	n := startNodeOf(t, server, apiPod(t, `{}`))
	large := apiPod(t, `{}`)
	large.Spec.Containers[0].Args = []string{strings.Repeat("x", 2000)}
	all := large.DeepCopy()
	fullpod.Fill(&all.Spec)
	all.Name, all.Spec.NodeName = "all", large.Spec.NodeName
	server.Create("pods", all)
	i, names := 0, map[string]string{"all": "all fields"}
	for field, p := range fullpod.Each(large) {
		i++
		p.Name = fmt.Sprint("p-", i)
		p.Labels = map[string]string{"field": field}
		server.Create("pods", p)
		names[p.Name] = field
	}
	if i < 90 {
		t.Errorf("a pod has %d fields", i)
	}
	last := apiPod(t, `{}`)
	last.Name = "last"
	server.Create("pods", last)
	n.pod = last.Name
	n.await("a pod that comes after them runs", func(s *corev1.PodStatus) bool { return s.Phase == corev1.PodRunning })
	for name, field := range names {
		p := new(corev1.Pod)
		if !server.Get("pods", "default", name, p) || strings.Contains(p.Status.Message, manifest.Defect) {
			t.Errorf("%s: the pod's status is %v", field, p.Status)
		}
	}
}
