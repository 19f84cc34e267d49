package preview

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Outcome is what becomes of a pod.
type Outcome string

// Outcomes of a pod. A pod whose containers have all ended is taken over, too: its restart policy decides.
const (
	TakenOver Outcome = "taken over" // no running container ends
	LeftAlone Outcome = "left alone" // its containers run on, and nothing of it is started again
	Restarts  Outcome = "restarts"   // running containers end, and start again
	Ends      Outcome = "ends"       // its containers end
	Starts    Outcome = "starts"     // nothing of it is on the runtime
	Ended     Outcome = "ended"      // it has ended, or is rejected, and nothing of it runs
	Removed   Outcome = "removed"    // no source names it, and nothing of it runs
)

// Outcomes of a pod when a kubelet comes back, beside Restarts.
const (
	Kept  Outcome = "kept"
	Drain Outcome = "drain" // its exclusive resources are not in the kubelet's state files
)

// Outcomes are all outcomes, what people hope for first.
var Outcomes = []Outcome{TakenOver, Kept, LeftAlone, Restarts, Drain, Ends, Starts, Ended, Removed}

// Report is what becomes of a node's pods.
type Report struct {
	// Pods are sorted by namespace and name.
	Pods []Pod `json:"pods"`
	// Problems are what is wrong with manifests: a pod whose manifest cannot be read is named by no source.
	Problems []string `json:"problems,omitempty"`
	// Unread are the sources that could not be read, so that pods may be missing, or end here and not later.
	Unread []string `json:"unread,omitempty"`
	// Written are the state files of the kubelet that a hand-back has written.
	Written []string `json:"written,omitempty"`
	// Journal is where the agent's journal is after a hand-back.
	Journal string `json:"journal,omitempty"`
}

// Pod is what becomes of a pod.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Source is the source that names the pod. Empty: none does.
	Source string `json:"source,omitempty"`
	// Running is how many of its containers run now.
	Running int     `json:"running"`
	Outcome Outcome `json:"outcome"`
	// Details say why, one for each container that ends or starts.
	Details []string `json:"details,omitempty"`
}

// Counts returns how many pods have each outcome.
func (r *Report) Counts() map[Outcome]int {
	counts := map[Outcome]int{}
	for _, p := range r.Pods {
		counts[p.Outcome]++
	}
	return counts
}

// Safe reports whether everything was read, and no container ends that runs.
func (r *Report) Safe() bool {
	counts := r.Counts()
	return counts[Restarts]+counts[Ends]+counts[Drain]+len(r.Unread) == 0
}

// Report returns what becomes of the pods that were found or read.
func (p *Preview) Report() *Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &Report{Problems: slices.Sorted(slices.Values(p.problems))}
	for source, read := range p.sources {
		if !read {
			r.Unread = append(r.Unread, source)
		}
	}
	slices.Sort(r.Unread)
	requests := map[string][]*journaletv1.CallRequested{}
	for _, id := range p.order {
		if call := p.calls[id]; call != nil {
			requests[call.GetPodUid()] = append(requests[call.GetPodUid()], call)
		}
	}
	on := p.core.Decider(messages.Node).(*node.Actor)
	for _, ref := range p.core.Refs() {
		if a, ok := p.core.Decider(ref).(*pod.Actor); ok {
			r.Pods = append(r.Pods, podOf(a, on, requests[ref.ID]))
		}
	}
	slices.SortFunc(r.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	r.explainReplaced()
	return r
}

// explainReplaced names, for pods that no source names, the pod that starts in their place.
func (r *Report) explainReplaced() {
	for i := range r.Pods {
		old := &r.Pods[i]
		if old.Outcome == Ends && old.Source == "" && slices.ContainsFunc(r.Pods, func(p Pod) bool {
			return p.Source != "" && p.Namespace == old.Namespace && p.Name == old.Name
		}) {
			old.Details = []string{"another pod with its name is in its place: its manifest was written after it was started"}
		}
	}
}

// podOf returns what becomes of a pod by the calls that its actor requests.
func podOf(a *pod.Actor, on *node.Actor, requests []*journaletv1.CallRequested) Pod {
	st := a.Pod()
	ref := st.GetPod()
	if ref.GetName() == "" {
		ref = st.GetReportedAs()
	}
	p := Pod{
		Namespace: ref.GetNamespace(), Name: ref.GetName(), UID: cmp.Or(ref.GetUid(), st.GetObserved().GetUid()),
		Running: len(runningOf(st)),
	}
	if a.Manifest() != nil {
		p.Source = st.GetSource()
	}
	switch {
	case p.Source == "" && p.Running > 0 && on.KeptOut(p.Namespace+"/"+p.Name):
		p.Outcome, p.Details = LeftAlone, []string{"its manifest has a problem: mend it, and the pod starts anew"}
	case p.Source == "" && p.Running > 0:
		p.Outcome, p.Details = Ends, []string{"no source names it: its containers end after a minute"}
	case p.Source == "":
		p.Outcome = Removed
	case st.GetStage() > journaletv1.PodStage_POD_STAGE_RUNNING:
		p.Outcome = Ended
		if p.Running > 0 {
			p.Outcome = Ends
		}
		if why := cmp.Or(st.GetMessage(), st.GetReason()); why != "" {
			p.Details = []string{why}
		}
	case a.LeftAlone():
		p.Outcome = LeftAlone
		p.Details = []string{"this version does not support " + ref.GetApi().GetUnsupported() +
			": nothing of the pod is probed or started again"}
	case st.GetObserved() == nil || len(st.GetObserved().GetContainers()) == 0:
		p.Outcome = Starts
	default:
		p.Outcome, p.Details = changes(runningOf(st), requests)
		p.Details = append(p.Details, stopped(a)...)
	}
	return p
}

// stopped says which containers of a pod do not run.
func stopped(a *pod.Actor) (details []string) {
	running := runningOf(a.Pod())
	for i := range a.Manifest().Spec.Containers {
		name := a.Manifest().Spec.Containers[i].Name
		if c := a.Pod().GetContainers()[name].GetCurrent(); !running[c.GetId()] {
			details = append(details, fmt.Sprintf("container %s does not run: its restart policy decides", name))
		}
	}
	return details
}

// runningOf returns the ids of the containers that run.
func runningOf(st *journaletv1.PodState) map[string]bool {
	ids := map[string]bool{}
	for _, c := range st.GetObserved().GetContainers() {
		if c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING {
			ids[c.GetId()] = true
		}
	}
	return ids
}

// changes returns what becomes of a pod, whose containers run, by the calls that its actor requests.
func changes(running map[string]bool, requests []*journaletv1.CallRequested) (o Outcome, details []string) {
	o = TakenOver
	for _, call := range requests {
		switch work := call.GetWork().(type) {
		case *journaletv1.CallRequested_StopContainer:
			if stop := work.StopContainer; running[stop.GetContainerId()] {
				o, details = Restarts, append(details, fmt.Sprintf("container %s: %s", stop.GetContainer(), stop.GetReason()))
			}
		case *journaletv1.CallRequested_RunHook:
			if hook := work.RunHook; hook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
				o, details = Restarts, append(details, fmt.Sprintf("container %s: %s", hook.GetContainer(), hook.GetReason()))
			}
		case *journaletv1.CallRequested_StopSandbox, *journaletv1.CallRequested_RemoveSandbox,
			*journaletv1.CallRequested_RunSandbox:
			if len(running) > 0 {
				o, details = Restarts, append(details, "its sandbox is replaced")
			}
		case *journaletv1.CallRequested_UpdateContainer:
			details = append(details, fmt.Sprintf("container %s: its CPU and memory are set again",
				work.UpdateContainer.GetContainer()))
		case *journaletv1.CallRequested_UpdateSandbox:
			details = append(details, "the CPU and memory of the pod are set again")
		}
	}
	return o, details
}
