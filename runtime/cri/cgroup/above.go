package cgroup

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/resources"
)

// requests are what pods request that counts in the cgroups above theirs.
type requests struct {
	// burstableMilli is thousandths of a CPU of Burstable pods.
	burstableMilli int64
	// memoryMin and memoryLow are bytes; see ReservedMemory. They are 0 where none is reserved.
	memoryMin, memoryLow int64
}

// add adds other requests; with -1 it subtracts them.
func (r *requests) add(o requests, sign int64) {
	r.burstableMilli += sign * o.burstableMilli
	r.memoryMin += sign * o.memoryMin
	r.memoryLow += sign * o.memoryLow
}

// requestsOf returns a pod's part of Tree.requests.
func (t *Tree) requestsOf(p *corev1.Pod) (out requests) {
	all := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
	if pod.QOS(p) == corev1.PodQOSBurstable {
		out.burstableMilli = resources.Millis(all.Cpu())
	}
	if t.reserves() {
		out.memoryMin, out.memoryLow = ReservedMemory(p, resources.Bytes(all.Memory()))
	}
	return out
}

func (t *Tree) reserves() bool { return t.unified && t.opts.ReserveMemory }

// above returns the values of the cgroups above the pods that follow from what these request. The kernel reserves no
// more for a pod than for the cgroups above it, so the topmost has all of it. What an earlier configuration reserved
// ends so.
func (t *Tree) above() (top, burstable Values) {
	r := t.requests
	top = Values{
		Shares: t.opts.Node.Shares, Reserved: t.reserved, MemoryMin: r.memoryMin + r.memoryLow, MemoryLow: r.memoryLow,
	}
	return top, Values{Shares: SharesOf(r.burstableMilli), Reserved: t.reserved, MemoryLow: r.memoryLow}
}

// reservedBefore reports whether an earlier configuration has reserved memory above the pods.
func (t *Tree) reservedBefore() bool {
	for _, at := range []name{t.layout.top(), t.layout.class(corev1.PodQOSBurstable)} {
		for _, file := range []string{"memory.min", "memory.low"} {
			if parseNumber(readText(t.dirs(at)[""], file)) > 0 {
				return true
			}
		}
	}
	return false
}

// setRequests changes a pod's part of the values of the cgroups above it.
func (t *Tree) setRequests(e *entry, now requests) {
	t.requestsMu.Lock()
	defer t.requestsMu.Unlock()
	t.requests.add(e.requests, -1)
	t.requests.add(now, 1)
	e.requests = now
	top, burstable := t.above()
	for _, c := range []struct {
		at      name
		written *Values
		want    Values
	}{{t.layout.top(), &t.top, top}, {t.layout.class(corev1.PodQOSBurstable), &t.burstable, burstable}} {
		if c.want == *c.written {
			continue
		}
		if err := t.set(c.at, c.want); err != nil {
			t.log.Warn("a cgroup above the pods keeps its old values", "error", err)
			continue
		}
		*c.written = c.want
	}
}
