package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
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

// largeCPU, in thousandths, is more than most plans' pods ask for.
const largeCPU = 64_000

// nodeSize makes the node a small one now and then, on which pods have to make room for those of higher priority.
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

// booked takes note of what the node gives to pods, or takes back.
func (j *judge) booked(seq uint64, e *journaletv1.Event) {
	manifests := j.sim.manifests.byDigest
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AdmissionRequested:
		h := j.history(k.AdmissionRequested.GetUid())
		digest := k.AdmissionRequested.GetDigest()
		h.questions = append(h.questions, question{seq, digest})
		h.madeRoom = 0
		if !k.AdmissionRequested.GetSupersedes() {
			h.asks, h.asksOf, h.question = demandOf(manifests[digest]), manifests[digest], k.AdmissionRequested.GetIncarnation()
			h.portsAsked, h.askedFirst[h.question] = portsOf(manifests[digest]), manifests[digest]
		}
	case *journaletv1.Event_AdmissionDecided:
		h, digest := j.history(k.AdmissionDecided.GetUid()), k.AdmissionDecided.GetDigest()
		if !k.AdmissionDecided.GetAdmitted() {
			if h.madeRoom == k.AdmissionDecided.GetIncarnation() && h.madeRoom != 0 && !j.forgiving {
				j.broken(roomKept, k.AdmissionDecided.GetUid(), "it is rejected: %s", k.AdmissionDecided.GetMessage())
			}
			return
		}
		h.admittedAt, h.letIn = j.sim.clock.uptime, k.AdmissionDecided.GetIncarnation()
		if h.admittedAs = h.askedFirst[k.AdmissionDecided.GetIncarnation()]; digest != "" {
			h.admittedAs = manifests[digest]
		}
		if k.AdmissionDecided.GetIncarnation() != h.question {
			return
		}
		h.share, h.shareOf, h.ports, h.holds = h.asks, h.asksOf, h.portsAsked, true
		if digest != "" {
			h.shareOf = manifests[digest]
			h.share, h.ports = demandOf(h.shareOf), portsOf(h.shareOf)
		}
	case *journaletv1.Event_ResizeRequested:
		j.history(k.ResizeRequested.GetUid()).resizeAsked[k.ResizeRequested.GetRequestId()] = j.sim.clock.uptime
	case *journaletv1.Event_ResizeDecided:
		if k.ResizeDecided.GetAllocated() {
			h := j.history(k.ResizeDecided.GetUid())
			j.leavesOut(k.ResizeDecided.GetUid(), h.shareOf, manifests[k.ResizeDecided.GetDigest()], h.resizeAsked[k.ResizeDecided.GetRequestId()])
			h.shareOf = manifests[k.ResizeDecided.GetDigest()]
			h.share = demandOf(h.shareOf)
		}
	case *journaletv1.Event_AdditionAsked:
		d := k.AdditionAsked.GetDemand()
		j.history(k.AdditionAsked.GetUid()).adds[k.AdditionAsked.GetDigest()] = share{cpu: d.GetMilliCpu(), memory: d.GetMemoryBytes()}
	case *journaletv1.Event_AdditionDecided:
		if k.AdditionDecided.GetAllocated() {
			h := j.history(k.AdditionDecided.GetUid())
			h.shareOf = withAdded(h.shareOf, manifests[k.AdditionDecided.GetDigest()])
			// What it is asked for beside stands in the question alone: what left the manifest is counted until the pod asks as a whole.
			h.share = h.share.plus(h.adds[k.AdditionDecided.GetDigest()])
		}
	case *journaletv1.Event_PodTerminated:
		j.history(k.PodTerminated.GetUid()).holds = false
	case *journaletv1.Event_PodFinished:
		j.history(k.PodFinished.GetUid()).holds = false
	}
}

// leavesOut: what runs of a pod and was counted in its share is not left out of a new one. What came back into the manifest while the node was
// asked about the pod without it is asked for by itself.
func (j *judge) leavesOut(uid string, before, now *corev1.Pod, asked time.Duration) {
	for _, c := range j.sim.world.of(uid).containers {
		asks := c.has.GetCpuRequestMillis() > 0 || c.has.GetMemoryRequestBytes() > 0
		if asks && c.alive() && c.startedAt < asked && before != nil && findSpec(before, c.name) != nil && findSpec(now, c.name) == nil && !j.forgiving {
			j.broken(oneShare, uid, "%s runs and asks for %v, and the pod's new share is given without it", c.name, c.has)
		}
	}
}

// withAdded is what the node counts of a pod with the containers that another manifest adds to it.
func withAdded(counted, m *corev1.Pod) *corev1.Pod {
	counted = counted.DeepCopy()
	for i := range m.Spec.InitContainers {
		if c := m.Spec.InitContainers[i]; findSpec(counted, c.Name) == nil {
			counted.Spec.InitContainers = append(counted.Spec.InitContainers, c)
		}
	}
	for i := range m.Spec.Containers {
		if c := m.Spec.Containers[i]; findSpec(counted, c.Name) == nil {
			counted.Spec.Containers = append(counted.Spec.Containers, c)
		}
	}
	return counted
}

// question is a manifest that a pod was put before the node with, and the record of that.
type question struct {
	seq    uint64
	digest string
}

// held: pods end for one that is to be admitted. The node decided on record cause: what that one asked behind that it did not know yet.
func (j *judge) held(at time.Duration, cause uint64, k *journaletv1.AdmissionPendingPreemption) {
	for _, q := range slices.Backward(j.history(k.GetUid()).questions) {
		if q.seq <= cause {
			j.preempted(at, k.GetUid(), q.digest, k.GetVictims())
			if h := j.history(k.GetUid()); len(k.GetVictims()) > 0 && q == h.questions[len(h.questions)-1] {
				h.madeRoom = h.question
			}
			return
		}
	}
}

// preempted: the priority of those that end for another one is lower, as they were admitted.
func (j *judge) preempted(at time.Duration, by, digest string, uids []string) {
	mine := priorityOf(j.sim.manifests.byDigest[digest])
	for _, uid := range uids {
		h := j.history(uid)
		h.ends(at, nil)
		if its := priorityOf(h.admittedAs); its >= mine {
			j.broken(lowerEnds, uid, "it ends for %s: %d and %d", j.sim.manifests.names[by], its, mine)
		}
	}
}

func priorityOf(m *corev1.Pod) int32 {
	if m == nil || m.Spec.Priority == nil {
		return 0
	}
	return *m.Spec.Priority
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

// counted: what is started is a part of what the node gave to its pod, if it asks for anything.
func (j *judge) counted(c *container) {
	asks := c.has.GetCpuRequestMillis() > 0 || c.has.GetMemoryRequestBytes() > 0
	if h := j.history(c.uid); asks && h.shareOf != nil && findSpec(h.shareOf, c.name) == nil && !j.forgiving {
		j.broken(oneShare, c.uid, "%s is started and asks for %v, and the pod's share was given without it", c.name, c.has)
	}
}

// oneShareEach: what runs has together no more than the node, whatever the node's actor believes.
func (j *judge) oneShareEach(o *objects) {
	var sum share
	for _, x := range j.sim.world.objects {
		for _, c := range x.containers {
			if c.alive() || x == o {
				sum = sum.plus(j.history(x.uid).share)
				break
			}
		}
	}
	if have := j.sim.allocatable(); !sum.within(have) && !j.forgiving {
		j.broken(oneShare, o.uid, "with it what runs has %+v of %+v", sum, have)
	}
}
