package node

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestRejectionNamesShortageBeforeAffinity(t *testing.T) {
	p := &corev1.Pod{}
	p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	a := New()
	none := &journaletv1.AdmissionRequested{}
	cpu := &journaletv1.AdmissionRequested{Demand: &journaletv1.PodDemand{MilliCpu: 1}}
	if r := a.cannotRun(p, none); r == nil || r.reason != "NodeAffinity" {
		t.Errorf("a node selector that does not match: %+v", r)
	}
	if r := a.cannotRun(p, cpu); r == nil || r.reason != "OutOfcpu" {
		t.Errorf("a node selector that does not match, and too little CPU: %+v", r)
	}
	p.Labels = map[string]string{corev1.LabelOSStable: "windows"}
	r := a.cannotRun(p, cpu)
	if r == nil || r.reason != "PodOSSelectorNodeLabelDoesNotMatch" {
		t.Errorf("the same with the label of another OS: %+v", r)
	}
}

func TestDemandOfAnySizeFindsNoRoomOnAFullNode(t *testing.T) {
	a := New()
	// The node has shrunk: more is used than there is.
	a.state.Config = &journaletv1.AgentConfig{Allocatable: &journaletv1.NodeCapacity{MemoryBytes: 1 << 30}}
	a.state.Used = &journaletv1.PodDemand{MemoryBytes: 2 << 30}
	if r := a.outOfResources(&journaletv1.PodDemand{MemoryBytes: math.MaxInt64}); r == nil || r.reason != "OutOfmemory" {
		t.Errorf("the largest demand of all: %+v", r)
	}
}
