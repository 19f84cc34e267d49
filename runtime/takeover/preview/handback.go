package preview

import "github.com/journalet/journalet/messages/journaletv1"

// Handback returns what becomes of the pods that run when a kubelet takes the agent's place. given reports whether the
// agent has computed the UID of a pod. exclusive has the pods' exclusive resources, by UID; a kubelet learns that from
// its state files.
func (p *Preview) Handback(given func(uid string) bool, exclusive map[string]*journaletv1.GivenResources) *Report {
	r := p.Report()
	pods := r.Pods
	r.Pods = nil
	for _, pod := range pods {
		if pod.Running == 0 {
			continue
		}
		pod.Outcome, pod.Details = Kept, nil
		switch {
		case given(pod.UID):
			pod.Outcome = Restarts
			pod.Details = []string{"a kubelet gives it another UID: write uid: " + pod.UID +
				" into the metadata of its manifest before"}
		case exclusive[pod.UID] != nil:
			pod.Details = []string{"`journalet handback` without --check, once the agent is stopped, writes its exclusive " +
				"resources into the kubelet's state files"}
		}
		r.Pods = append(r.Pods, pod)
	}
	return r
}

// Lack notes, by UID, what a kubelet's state files lack of pods that run, once they are written.
func (r *Report) Lack(lacking map[string]string) {
	for i := range r.Pods {
		pod := &r.Pods[i]
		switch what := lacking[pod.UID]; {
		case what != "":
			pod.Outcome, pod.Details = Drain, []string{what + ": drain the pod before"}
		case pod.Outcome == Kept:
			pod.Details = nil
		}
	}
}
