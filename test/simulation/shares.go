package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
)

// share is a part of the node: CPU in millicores, memory in bytes, pods.
type share struct{ cpu, memory, pods int64 }

func demandOf(m *corev1.Pod) share {
	d := pod.Demand(m)
	return share{d.GetMilliCpu(), d.GetMemoryBytes(), 1}
}

func (x share) plus(y share) share { return share{x.cpu + y.cpu, x.memory + y.memory, x.pods + y.pods} }

func (x share) within(y share) bool {
	return x.cpu <= y.cpu && x.memory <= y.memory && x.pods <= y.pods
}

// largeCPU, in millicores, is more than most plans' pods request.
const largeCPU = 64_000

// nodeSize gives some plans a small node, on which pods are preempted for those of higher priority.
func (p *Plan) nodeSize(r *rand.Rand) {
	p.config.cpu, p.config.memory = largeCPU, 128<<30
	if chance(r, 4) {
		p.smallNode(r)
	}
}

func (p *Plan) smallNode(r *rand.Rand) {
	p.config.cpu, p.config.memory = 4000+r.Int64N(8000), (8+r.Int64N(16))<<30
}

// allocatable is what the node has for pods.
func (s *sim) allocatable() share {
	return share{s.config.cpu, s.config.memory, int64(s.config.maxPods)}
}

// bookShares notes what the node gives to pods, and when it is free again.
func (j *judge) bookShares(seq uint64, e *journaletv1.Event) {
	manifests := j.sim.manifests.byDigest
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AdmissionRequested:
		h := j.history(k.AdmissionRequested.GetUid())
		digest := k.AdmissionRequested.GetDigest()
		h.requests = append(h.requests, admissionRequest{seq, digest})
		h.preempting, h.incarnation = 0, k.AdmissionRequested.GetIncarnation()
		h.requestedShare, h.requestedPorts, h.requestedAs[h.incarnation] = demandOf(manifests[digest]),
			portsOf(manifests[digest]), manifests[digest]
	case *journaletv1.Event_AdmissionDecided:
		h := j.history(k.AdmissionDecided.GetUid())
		if !k.AdmissionDecided.GetAdmitted() {
			if h.preempting == k.AdmissionDecided.GetIncarnation() && h.preempting != 0 && !j.journalLost {
				j.broken(preemptorStays, k.AdmissionDecided.GetUid(), "it is rejected: %s", k.AdmissionDecided.GetMessage())
			}
			return
		}
		h.admittedAt, h.admittedIncarnation = j.sim.clock.uptime, k.AdmissionDecided.GetIncarnation()
		h.admittedAs = h.requestedAs[k.AdmissionDecided.GetIncarnation()]
		if k.AdmissionDecided.GetIncarnation() != h.incarnation {
			return
		}
		h.share, h.ports, h.holdsShare = h.requestedShare, h.requestedPorts, true
		j.onlyIncarnation(k.AdmissionDecided.GetUid())
	case *journaletv1.Event_ResizeDecided:
		if k.ResizeDecided.GetAllocated() {
			j.history(k.ResizeDecided.GetUid()).share = demandOf(manifests[k.ResizeDecided.GetDigest()])
		}
	case *journaletv1.Event_PodTerminated:
		j.history(k.PodTerminated.GetUid()).holdsShare = false
	case *journaletv1.Event_PodFinished:
		j.history(k.PodFinished.GetUid()).holdsShare = false
	}
}

// admissionRequest is the manifest of an admission request, and its record.
type admissionRequest struct {
	seq    uint64
	digest string
}

// pendingPreemption: pods are preempted for the admission of one. The node decided on record cause: it did not know
// later requests yet.
func (j *judge) pendingPreemption(at time.Duration, cause uint64, k *journaletv1.AdmissionPendingPreemption) {
	for _, q := range slices.Backward(j.history(k.GetUid()).requests) {
		if q.seq <= cause {
			j.preempted(at, k.GetUid(), q.digest, k.GetVictims())
			if h := j.history(k.GetUid()); len(k.GetVictims()) > 0 && q == h.requests[len(h.requests)-1] {
				h.preempting = h.incarnation
			}
			return
		}
	}
}

// preempted: the victims, as admitted, have a lower priority.
func (j *judge) preempted(at time.Duration, by, digest string, uids []string) {
	mine := priorityOf(j.sim.manifests.byDigest[digest])
	for _, uid := range uids {
		h := j.history(uid)
		h.terminates(at)
		if its := priorityOf(h.admittedAs); its >= mine {
			j.broken(preemptsLower, uid, "it is preempted for %s: priorities %d and %d", j.sim.manifests.names[by], its, mine)
		}
	}
}

func priorityOf(m *corev1.Pod) int32 {
	if m == nil || m.Spec.Priority == nil {
		return 0
	}
	return *m.Spec.Priority
}

// takenBesides returns what all pods but one hold of the node.
func (s *sim) takenBesides(but string) share {
	var sum share
	for uid, h := range s.judge.pods {
		if h.holdsShare && uid != but {
			sum = sum.plus(h.share)
		}
	}
	return sum
}

// sharesFit: running pods together fit the node.
func (j *judge) sharesFit(o *objects) {
	var sum share
	for _, x := range j.sim.world.objects {
		for _, c := range x.containers {
			if c.alive() || x == o {
				sum = sum.plus(j.history(x.uid).share)
				break
			}
		}
	}
	if have := j.sim.allocatable(); !sum.within(have) && !j.journalLost {
		j.broken(sharesFitNode, o.uid, "with it running pods hold %+v of %+v", sum, have)
	}
}
