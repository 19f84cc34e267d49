package node

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A container's exclusive resources are decided with its pod's admission, and stay its own until the pod has terminated
// (ADR 064).

// managers returns how exclusive CPUs and memory are given to containers; nil: no container gets any.
func (a *Actor) managers() *exclusive.Settings {
	return exclusive.NewSettings(a.state.GetConfig().GetManagers())
}

// taken returns the pods' exclusive resources in the order of their admission, and what others had before the journal
// began.
func (a *Actor) taken() []exclusive.Pod {
	var all []exclusive.Pod
	for _, uid := range a.state.GetExclusivePods() {
		all = append(all, a.state.Pods[uid].GetExclusive())
	}
	for _, uid := range slices.Sorted(maps.Keys(a.state.GetKubeletPods())) {
		all = append(all, a.state.KubeletPods[uid].GetExclusive())
	}
	return all
}

// grant is what a pod gets.
type grant struct {
	devices   []*journaletv1.ContainerDevices
	exclusive exclusive.Pod
	// request is to be made of a device plugin before; nil: nothing is to be known.
	request *journaletv1.PreferredDevicesRequested
}

// allocate returns what a pod gets where some pods have ended, or why it cannot have what it requests; nil: none has
// ended. What is reserved for others is not free.
func (a *Actor) allocate(q *journaletv1.AdmissionRequested, ended func(uid string) bool) (grant, *rejection) {
	chooser := a.chooser(q, ended)
	given, refusal := a.managers().Admit(a.state.GetExclusiveRequests()[q.GetUid()], a.takenAfter(q, ended), chooser)
	choice := chooser.Finish()
	if r := outOfDevices(choice); r != nil {
		return grant{}, r
	}
	if refusal != nil {
		return grant{request: choice.Request}, &rejection{refusal.Reason, refusal.Message}
	}
	return grant{choice.Devices, given, choice.Request}, nil
}

// endedAfter returns which pods have terminated once these victims, and the pods that are preempted already, have.
func (a *Actor) endedAfter(victims []Candidate) func(uid string) bool {
	return func(uid string) bool {
		return a.state.Pods[uid].GetPreempted() ||
			slices.ContainsFunc(victims, func(v Candidate) bool { return v.UID == uid })
	}
}

// takenAfter returns the pods' exclusive resources, and what is reserved for others than one, once some have ended;
// nil: none has.
func (a *Actor) takenAfter(q *journaletv1.AdmissionRequested, ended func(uid string) bool) []exclusive.Pod {
	var taken []exclusive.Pod
	for _, uid := range a.state.GetExclusivePods() {
		if ended == nil || !ended(uid) {
			taken = append(taken, a.state.Pods[uid].GetExclusive())
		}
	}
	for _, r := range a.reservationsExcept(q.GetUid()) {
		taken = append(taken, r.GetExclusive())
	}
	return taken
}

// shared returns the CPUs of containers without exclusive CPUs, where pods have these; empty if they are not kept off
// any. Once CPUs are not given out any more, that lasts until no pod has any.
func (a *Actor) shared(taken []exclusive.Pod) string {
	if a.state.GetConfig().GetManagers().GetStaticCpus() {
		return a.managers().Shared(taken).String()
	}
	all := exclusive.Parse(a.state.GetAllCpus())
	for _, p := range taken {
		all = all.Difference(p.CPUs())
	}
	return all.String()
}

// decideShared reports the CPUs that all share to the pods that run, where they have changed.
func (a *Actor) decideShared(emit actors.Emit) {
	s := a.state
	if s.GetAllCpus() == "" {
		return
	}
	cpus := a.shared(a.taken())
	if cpus == s.GetSharedCpus() {
		return
	}
	d := &journaletv1.SharedCpusDecided{Cpus: cpus}
	for _, uid := range slices.Sorted(maps.Keys(s.Pods)) {
		if !s.Pods[uid].GetTerminated() {
			d.Pods = append(d.Pods, uid)
		}
	}
	emit(messages.NewEvent(d))
}

// evolveManagers folds the machine's CPUs at the start of the agent. What is reserved is chosen again if the machine
// or its settings are others than before.
func (a *Actor) evolveManagers(before, m *journaletv1.ResourceManagers) {
	if !proto.Equal(before, m) {
		a.state.Reservations = nil
	}
	if m.GetStaticCpus() {
		a.state.AllCpus = exclusive.NewTopology(m.GetTopology()).CPUs().String()
	}
}

// evolveShared folds the CPUs that all share. Where no CPUs are given out any more, and no pod has any, nothing is left
// to know.
func (a *Actor) evolveShared(d *journaletv1.SharedCpusDecided) {
	s := a.state
	s.SharedCpus = d.GetCpus()
	if !s.GetConfig().GetManagers().GetStaticCpus() && d.GetCpus() == s.GetAllCpus() {
		s.AllCpus, s.SharedCpus = "", ""
	}
}

// evolveExclusiveRequest folds which exclusive resources a pod that requests its admission may get.
func (a *Actor) evolveExclusiveRequest(q *journaletv1.AdmissionRequested, pod *corev1.Pod) {
	s := a.state
	delete(s.ExclusiveRequests, q.GetUid())
	if r := a.requests(pod, q.GetQos()); r != nil {
		if s.ExclusiveRequests == nil {
			s.ExclusiveRequests = map[string]*journaletv1.ExclusiveRequests{}
		}
		s.ExclusiveRequests[q.GetUid()] = r
	}
}

// requests returns the exclusive resources that a pod requests; nil: none.
func (a *Actor) requests(pod *corev1.Pod, qos journaletv1.QosClass) *journaletv1.ExclusiveRequests {
	if m := a.state.GetConfig().GetManagers(); !m.GetStaticCpus() && !m.GetStaticMemory() {
		return nil
	}
	return exclusive.Requests(pod, qos)
}

// requestsAfter returns the exclusive resources that an admitted pod may have after a resize. What its containers have
// stays theirs if the pod gets resources of its own.
func (a *Actor) requestsAfter(p *journaletv1.AdmittedPod, pod *corev1.Pod) *journaletv1.ExclusiveRequests {
	if len(p.GetExclusive()) > 0 && pod != nil {
		return exclusive.OfContainers(pod)
	}
	return a.requests(pod, p.GetQos())
}

// evolveExclusive folds an admitted pod's exclusive resources. If its other containers got CPUs that were not reported
// to all, all hear of what is left in the end, also if that is what was reported before: more than one pod may be
// admitted in a step.
func (a *Actor) evolveExclusive(p *journaletv1.AdmittedPod, d *journaletv1.AdmissionDecided) {
	s := a.state
	if d.GetAdmitted() {
		if d.GetSharedCpus() != s.GetSharedCpus() {
			s.SharedCpus = ""
		}
		p.Exclusive, p.ExclusiveRequests = d.GetExclusive(), s.ExclusiveRequests[d.GetUid()]
		if len(p.Exclusive) > 0 {
			s.ExclusivePods = append(s.ExclusivePods, d.GetUid())
		}
	}
	delete(s.ExclusiveRequests, d.GetUid())
}

// freeExclusive frees a pod's exclusive resources.
func (a *Actor) freeExclusive(uid string, p *journaletv1.AdmittedPod) {
	p.Exclusive, p.ExclusiveRequests = nil, nil
	a.state.ExclusivePods = slices.DeleteFunc(a.state.ExclusivePods, func(o string) bool { return o == uid })
}

// infeasible returns why a resize of a pod can never be allocated, in the kubelet's words; "" if it can. What
// containers of Guaranteed pods have exclusively is not resized.
func (a *Actor) infeasible(p *journaletv1.AdmittedPod, pod *corev1.Pod) string {
	m := a.state.GetConfig().GetManagers()
	has, want := p.GetExclusiveRequests().GetContainers(), a.requestsAfter(p, pod).GetContainers()
	const message = "Resize is infeasible for Guaranteed Pods alongside %s Manager policy %q"
	for i, r := range want {
		if i < len(has) && m.GetStaticCpus() && r.GetMilliCpu() != has[i].GetMilliCpu() {
			return fmt.Sprintf(message, "CPU", "static")
		}
	}
	for i, r := range want {
		if i < len(has) && m.GetStaticMemory() && ordinary(r) != ordinary(has[i]) {
			return fmt.Sprintf(message, "Memory", "Static")
		}
	}
	return ""
}

// ordinary returns the bytes of memory that a container requests, without huge pages.
func ordinary(r *journaletv1.ExclusiveRequest) int64 {
	for _, h := range r.GetMemory() {
		if h.GetPageBytes() == 0 {
			return h.GetBytes()
		}
	}
	return 0
}
