package simulation

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What a kubelet had given to pods (ADR 070).
const keptForThem = "nobody gets what a kubelet had given to another pod that is not decided yet"

// bookKubelet keeps the books of what a kubelet had given to pods, and judges what others get meanwhile.
func (j *judge) bookKubelet(author messages.Ref, seq uint64, e *journaletv1.Event) {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		if left := k.AgentStarted.GetKubeletState(); left != nil {
			j.exclusive.left = maps.Clone(left.GetPods())
		}
		for uid, had := range k.AgentStarted.GetKubeletState().GetPods() {
			j.find(uid, had.GetExclusive(), had.GetDevices())
		}
		for uid, had := range k.AgentStarted.GetFoundResources() {
			j.find(uid, had.GetExclusive(), had.GetDevices())
			j.find(uid, []*journaletv1.ExclusiveContainer{{Cpus: had.GetRest().GetCpus()}}, nil)
			for _, d := range had.GetRest().GetDevices() {
				j.find(uid, nil, []*journaletv1.ContainerDevices{{Resource: d.GetResource(), Ids: d.GetIds()}})
			}
		}
	case *journaletv1.Event_AdmissionDecided:
		d := k.AdmissionDecided
		delete(j.exclusive.left, d.GetUid())
		j.keptFor(d.GetUid(), d.GetExclusive(), d.GetDevices(), d.GetSharedCpus())
	case *journaletv1.Event_AdmissionPendingPreemption:
		d := k.AdmissionPendingPreemption
		delete(j.exclusive.left, d.GetUid())
		j.keptFor(d.GetUid(), d.GetExclusive(), d.GetDevices(), "")
	case *journaletv1.Event_SharedCpusDecided:
		j.keptFor("", nil, nil, k.SharedCpusDecided.GetCpus())
	case *journaletv1.Event_PodTerminated:
		j.endFound(k.PodTerminated.GetUid(), seq)
	case *journaletv1.Event_PodFinished:
		j.endFound(k.PodFinished.GetUid(), seq)
	case *journaletv1.Event_TimerFired:
		if author == messages.Node && k.TimerFired.GetName() == "kubelet" {
			j.exclusive.left = nil // all but orphans
		}
	}
}

// keptFor: a pod, or all that share CPUs, get nothing that is kept for others. Reserved CPUs are shared where nothing
// else is left, and no pod has them alone.
func (j *judge) keptFor(
	uid string, given []*journaletv1.ExclusiveContainer, devices []*journaletv1.ContainerDevices, shared string,
) {
	cpus := exclusive.Pod(given).CPUs().Union(exclusive.Parse(shared))
	if n := j.sim.config.managed; n != nil {
		cpus = cpus.Difference(n.reserved)
	}
	for _, other := range slices.Sorted(maps.Keys(j.exclusive.left)) {
		if both := exclusive.Pod(j.exclusive.left[other].GetExclusive()).CPUs().Intersection(cpus); !both.IsEmpty() {
			j.broken(keptForThem, other, "%s gets its CPUs %s", uid, both)
		}
		for _, d := range devices {
			for _, id := range d.GetIds() {
				if j.had(other, d.GetResource(), id) {
					j.broken(keptForThem, other, "%s gets its device %s", uid, id)
				}
			}
		}
	}
}

// find notes what a pod had before the journal began.
func (j *judge) find(uid string, given []*journaletv1.ExclusiveContainer, devices []*journaletv1.ContainerDevices) {
	f := j.exclusive.found[uid]
	if f == nil {
		f = &foundBook{}
		j.exclusive.found[uid] = f
	}
	f.cpus, f.devices = f.cpus.Union(exclusive.Pod(given).CPUs()), append(f.devices, devices...)
}

// endFound notes the end of a pod: what it had is free.
func (j *judge) endFound(uid string, seq uint64) {
	delete(j.exclusive.left, uid)
	if f := j.exclusive.found[uid]; f != nil && f.endedBy == 0 {
		f.endedBy = seq
	}
}

// had reports whether a pod had a device before the journal began.
func (j *judge) had(uid, resource, id string) bool {
	f := j.exclusive.found[uid]
	return f != nil && slices.ContainsFunc(f.devices, func(d *journaletv1.ContainerDevices) bool {
		return d.GetResource() == resource && slices.Contains(d.GetIds(), id)
	})
}
