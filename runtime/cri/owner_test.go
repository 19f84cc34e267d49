package cri

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestOwnerKnowsItsOwnObjectsAndThoseOfAKubeletInWhosePlaceItIs(t *testing.T) {
	pod := map[string]string{LabelPodUID: "u"}
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		own, inPlace        bool
	}{
		"its own":                           {pod, map[string]string{AnnotationAgent: "a"}, true, true},
		"another agent's":                   {pod, map[string]string{AnnotationAgent: "b"}, false, false},
		"of an agent without an id":         {pod, map[string]string{AnnotationAgent: ""}, false, false},
		"a kubelet's":                       {pod, map[string]string{AnnotationHash: "1"}, false, true},
		"without labels":                    {nil, nil, false, false},
		"labels that are not those of pods": {map[string]string{"app": "u"}, nil, false, false},
	} {
		for _, x := range []Object{
			&runtimeapi.PodSandbox{Labels: test.labels, Annotations: test.annotations},
			&runtimeapi.Container{Labels: test.labels, Annotations: test.annotations},
		} {
			if got := (Owner{AgentID: "a"}).Owns(x); got != test.own {
				t.Errorf("%s: %T is owned: %v", name, x, got)
			}
			if got := (Owner{AgentID: "a", Kubelet: true}).Owns(x); got != test.inPlace {
				t.Errorf("%s: %T is owned in a kubelet's place: %v", name, x, got)
			}
		}
	}
}
