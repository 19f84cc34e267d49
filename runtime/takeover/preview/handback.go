package preview

import "github.com/journalet/journalet/messages/journaletv1"

// Handback returns what becomes of the pods that run when a kubelet takes the agent's place. given reports whether the
// agent has computed the UID of a pod; alone is what pods have alone, by UID.
func (p *Preview) Handback(given func(uid string) bool, alone map[string]*journaletv1.GivenResources) *Report {
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
		case alone[pod.UID] != nil:
			pod.Outcome = Drain
			pod.Details = []string{"the kubelet's state files do not have its CPUs, memory or devices: drain it before"}
		}
		r.Pods = append(r.Pods, pod)
	}
	return r
}
