package simulation

import (
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
	corev1 "k8s.io/api/core/v1"
)

// share is a part of the node: CPU in thousandths, memory in bytes, pods.
type share struct{ cpu, memory, pods int64 }

func demandOf(m *corev1.Pod) share {
	d := pod.Demand(m)
	return share{d.GetMilliCpu(), d.GetMemoryBytes(), 1}
}

func (x share) plus(y share) share { return share{x.cpu + y.cpu, x.memory + y.memory, x.pods + y.pods} }

func (x share) within(y share) bool {
	return x.cpu <= y.cpu && x.memory <= y.memory && x.pods <= y.pods
}

// allocatable is what the node has for pods.
func (s *sim) allocatable() share {
	return share{s.config.cpu, s.config.memory, int64(s.config.maxPods)}
}

// booked takes note of what the node gives to pods, or takes back.
func (j *judge) booked(e *journaletv1.Event) {
	manifests := j.sim.manifests.byDigest
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AdmissionAsked:
		j.history(k.AdmissionAsked.GetUid()).asks = demandOf(manifests[k.AdmissionAsked.GetDigest()])
	case *journaletv1.Event_AdmissionDecided:
		if h := j.history(k.AdmissionDecided.GetUid()); k.AdmissionDecided.GetAdmitted() {
			h.share, h.holds = h.asks, true
		}
	case *journaletv1.Event_ResizeDecided:
		if k.ResizeDecided.GetAllocated() {
			j.history(k.ResizeDecided.GetUid()).share = demandOf(manifests[k.ResizeDecided.GetDigest()])
		}
	case *journaletv1.Event_PodTerminated:
		j.history(k.PodTerminated.GetUid()).holds = false
	case *journaletv1.Event_PodFinished:
		j.history(k.PodFinished.GetUid()).holds = false
	}
}

// taken is what all pods but one hold of the node, by the judge's books.
func (s *sim) taken(but string) share {
	var sum share
	for uid, h := range s.judge.pods {
		if h.holds && uid != but {
			sum = sum.plus(h.share)
		}
	}
	return sum
}
