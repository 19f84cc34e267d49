package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
)

// share is a part of the node: CPU in millicores, memory in bytes, pods.
type share struct{ cpu, memory, pods int64 }

// demandOf returns what a pod takes of the node, as the scheduler counts it: the requests of its main containers and
// sidecars together, or what an init container needs beside the sidecars before it, if that is more. The rule is
// written here a second time, independent of actors/pod.
func demandOf(m *corev1.Pod) share {
	if m == nil {
		return share{pods: 1}
	}
	var runs, inits share
	for i := range m.Spec.InitContainers {
		c := &m.Spec.InitContainers[i]
		if isSidecar(c) {
			runs = runs.plus(requestsOf(c))
			inits = inits.most(runs)
		} else {
			inits = inits.most(runs.plus(requestsOf(c)))
		}
	}
	for i := range m.Spec.Containers {
		runs = runs.plus(requestsOf(&m.Spec.Containers[i]))
	}
	return ofWhole(m, runs.most(inits)).plus(share{pods: 1})
}

// requestsOf returns a container's requests: CPU rounded up to thousandths, memory to bytes.
func requestsOf(c *corev1.Container) share {
	cpu, memory := c.Resources.Requests[corev1.ResourceCPU], c.Resources.Requests[corev1.ResourceMemory]
	return share{cpu: cpu.MilliValue(), memory: memory.Value()}
}

func (x share) most(y share) share {
	return share{max(x.cpu, y.cpu), max(x.memory, y.memory), max(x.pods, y.pods)}
}

func (x share) plus(y share) share { return share{x.cpu + y.cpu, x.memory + y.memory, x.pods + y.pods} }

func (x share) within(y share) bool {
	return x.cpu <= y.cpu && x.memory <= y.memory && x.pods <= y.pods
}

// largeCPU, in millicores, is more than most plans' pods request.
const largeCPU = 64_000

// nodeSize gives some plans a small node, where pods are preempted for pods of higher priority.
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
func (j *judge) bookShares(rec *journaletv1.Record, e *journaletv1.Event) {
	manifests := j.sim.manifests.byDigest
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AdmissionRequested:
		h := j.history(k.AdmissionRequested.GetUid())
		digest := k.AdmissionRequested.GetDigest()
		h.requests = append(h.requests, admissionRequest{rec.GetSeq(), digest})
		h.preempting, h.incarnation = 0, k.AdmissionRequested.GetIncarnation()
		h.requestedAs[h.incarnation] = manifests[digest]
	case *journaletv1.Event_AdmissionDecided:
		j.admissionDecided(rec, k.AdmissionDecided)
	case *journaletv1.Event_ResizePendingPreemption:
		j.history(k.ResizePendingPreemption.GetUid()).resizing = demandOf(manifests[k.ResizePendingPreemption.GetDigest()])
	case *journaletv1.Event_ResizeDecided:
		h := j.history(k.ResizeDecided.GetUid())
		if h.resizing = (share{}); k.ResizeDecided.GetAllocated() {
			h.allocatedAs = manifests[k.ResizeDecided.GetDigest()]
			h.share = demandOf(h.allocatedAs)
			j.fits(k.ResizeDecided.GetUid(), nil)
		}
	case *journaletv1.Event_PodTerminated:
		h := j.history(k.PodTerminated.GetUid())
		h.terminatedBy = rec.GetSeq()
		h.release(rec.GetSeq())
	case *journaletv1.Event_PodFinished:
		h := j.history(k.PodFinished.GetUid())
		h.release(rec.GetSeq())
		if h.pending {
			h.pending, h.pendedUntil = false, rec.GetSeq()
		}
		h.finishedBy, h.name = rec.GetSeq(), ""
		clear(h.shown) // what is observed from now on is left of it
	}
}

// release frees the share of a pod that has terminated.
func (h *podHistory) release(seq uint64) {
	if h.holdsShare {
		h.holdsShare, h.releasedBy, h.resizing = false, seq, share{}
	}
}

func (j *judge) admissionDecided(rec *journaletv1.Record, k *journaletv1.AdmissionDecided) {
	h, m := j.history(k.GetUid()), j.history(k.GetUid()).requestedAs[k.GetIncarnation()]
	h.pending = false
	// Else it has ended before the decision. One of the API server that was deleted terminates first.
	terminated := h.terminatedBy > max(k.GetIncarnation(), rec.GetStep().GetCause()) || h.finishedBy > k.GetIncarnation()
	present := k.GetIncarnation() == h.incarnation && !h.gone && !terminated
	if m != nil && present && !h.apiPod && !j.isHeld(m.Namespace+"/"+m.Name) {
		h.name = m.Namespace + "/" + m.Name // also the name of a rejected pod, until it has finished
	}
	if !k.GetAdmitted() {
		if h.preempting == k.GetIncarnation() && h.preempting != 0 && !j.lostMeanwhile(h, k.GetReason()) {
			j.broken(preemptorStays, k.GetUid(), "it is rejected: %s", k.GetMessage())
		}
		h.rejectedAs = k.GetIncarnation()
		j.rejectedForCause(rec.GetStep().GetCause(), k, m)
		return
	}
	j.admittedBy(k, h)
	h.admittedAt = j.uptimeOf(rec)
	h.admittedIncarnation, h.admittedAs, h.allocatedAs = k.GetIncarnation(), m, m
	h.share, h.ports, h.exclusive = demandOf(m), portsOf(m), cpusOf(k.GetExclusive())
	j.devicesChosen(rec.GetStep().GetCause(), k)
	h.devices = nil
	for _, d := range k.GetDevices() {
		h.devices = append(h.devices, d.GetIds()...)
	}
	if !present {
		h.releasedBy = max(h.finishedBy, h.terminatedBy) // the node decided before it knew of the end
		return
	}
	h.holdsShare = true
	j.fits(k.GetUid(), m)
	j.onlyIncarnation(k.GetUid())
}

// cpusOf returns the exclusive CPUs of containers.
func cpusOf(list []*journaletv1.ExclusiveContainer) cpuset.CPUSet {
	all := cpuset.New()
	for _, c := range list {
		if cpus, err := cpuset.Parse(c.GetCpus()); err == nil {
			all = all.Union(cpus)
		}
	}
	return all
}

// isHeld reports whether a pod holds a name.
func (j *judge) isHeld(name string) bool {
	for _, h := range j.pods {
		if h.name == name {
			return true
		}
	}
	return false
}

// fits: the admitted pods need no more than the node has, and no name is admitted twice. m is the manifest that a pod
// is admitted with, nil for a resize.
func (j *judge) fits(uid string, m *corev1.Pod) {
	h := j.history(uid)
	if need, have := j.sim.takenBesides(uid).plus(h.share), j.sim.allocatable(); !need.within(have) {
		j.broken(withinNode, uid, "%+v of %+v", need, have)
	}
	if m != nil && !h.apiPod && h.name != m.Namespace+"/"+m.Name {
		j.broken(withinNode, uid, "%s/%s is admitted, and another pod has its name", m.Namespace, m.Name)
	}
}

// rejectedForCause: a pod is rejected only if it would not fit even without all pods that it may preempt, or if a port
// of it is taken. The node decided on record cause: it did not know later ends.
func (j *judge) rejectedForCause(cause uint64, k *journaletv1.AdmissionDecided, m *corev1.Pod) {
	if j.history(k.GetUid()).apiPod && j.rejectedAtNode(k) {
		return
	}
	if j.sim.config.managed != nil && (j.outOfDevices(cause, k, m) || j.lacksUsers(cause, k, m)) {
		return
	}
	if j.sim.config.managed != nil && slices.Contains(refusals, k.GetReason()) {
		j.refused(cause, k, m)
		return
	}
	need, have, taken := demandOf(m), j.sim.allocatable(), false
	for uid, x := range j.pods {
		holds := x.holdsShare || x.releasedBy > cause
		pending := x.reserves(cause)
		switch {
		case uid == k.GetUid():
			continue
		case pending:
			need = need.plus(x.pendingShare)
		case holds && !j.mayPreempt(m, j.history(k.GetUid()).apiPod, x):
			need = need.plus(x.share.most(x.resizing))
		}
		ports := x.ports
		if pending {
			ports = x.pendingPorts
		}
		taken = taken || (holds || pending) && slices.ContainsFunc(portsOf(m), func(p hostPort) bool {
			return slices.ContainsFunc(ports, p.collides)
		})
	}
	for _, x := range j.sim.world.plugins {
		taken = taken || j.lacksDevices(cause, k.GetUid(), x.resource, m) // then no pod is preempted for it
	}
	if !taken && need.within(have) {
		j.broken(rejectedRightly, k.GetUid(), "%s, and %+v of %+v would be taken: %s", k.GetReason(), need, have,
			k.GetMessage())
	}
}

// admissionRequest is the manifest of an admission request, and its record.
type admissionRequest struct {
	seq    uint64
	digest string
}

// pendingPreemption: pods are preempted for the admission of one. The node decided on record cause: it did not know
// later requests yet.
func (j *judge) pendingPreemption(seq uint64, at time.Duration, cause uint64,
	k *journaletv1.AdmissionPendingPreemption,
) {
	for _, q := range slices.Backward(j.history(k.GetUid()).requests) {
		if q.seq <= cause {
			j.preempted(seq, at, k.GetUid(), q.digest, k.GetVictims())
			h, m := j.history(k.GetUid()), j.sim.manifests.byDigest[q.digest]
			h.pendingShare, h.pendingPorts = demandOf(m), portsOf(m)
			h.pendingAlone, h.pendingDevices = cpusOf(k.GetExclusive()), k.GetDevices()
			if h.pending = !h.gone && q == h.requests[len(h.requests)-1]; !h.pending {
				h.pendedUntil = h.finishedBy // the node decided before it knew that the pod had finished
			}
			if h := j.history(k.GetUid()); len(k.GetVictims()) > 0 && q == h.requests[len(h.requests)-1] {
				h.preempting, h.preemptingBy = h.incarnation, seq
			}
			return
		}
	}
}

// preempted: the victims, as admitted, may be preempted.
func (j *judge) preempted(seq uint64, at time.Duration, by, digest string, uids []string) {
	m := j.sim.manifests.byDigest[digest]
	for _, uid := range uids {
		h := j.history(uid)
		if h.holdsShare {
			h.terminates(seq, at)
			h.preemptedAs = h.incarnation
		}
		if !j.mayPreempt(m, j.history(by).apiPod, h) {
			j.broken(preemptsLower, uid, "it is preempted for %s: priorities %d and %d, of the API server %t and %t",
				j.sim.manifests.names[by], priorityOf(h.admittedAs), priorityOf(m), h.apiPod, j.history(by).apiPod)
		}
	}
}

// mayPreempt reports whether a pod may preempt x. In a cluster that follows the kubelet, which takes each static pod
// for critical: only critical pods preempt, and static pods make way for no pod of the API server.
func (j *judge) mayPreempt(m *corev1.Pod, api bool, x *podHistory) bool {
	mine, its := priorityOf(m), priorityOf(x.admittedAs)
	switch {
	case !j.sim.config.clustered || !api && !x.apiPod:
		return its < mine
	case api:
		return x.apiPod && mine >= systemCritical && its < mine
	}
	return its < max(mine, systemCritical)
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

// sharesFit: running pods together fit the node. What runs of a pod whose admission is not recorded does not count if
// its own record was lost, too.
func (j *judge) sharesFit(o *objects) {
	var sum share
	for _, x := range j.sim.world.objects {
		h := j.history(x.uid)
		if x == o || slices.ContainsFunc(x.containers, func(c *container) bool {
			return c.alive() && (h.holdsShare || !j.lostIntents[c.intent])
		}) {
			sum = sum.plus(h.share)
		}
	}
	if have := j.sim.allocatable(); !sum.within(have) {
		j.broken(sharesFitNode, o.uid, "with it running pods hold %+v of %+v", sum, have)
	}
}
