package node

import (
	"slices"

	"github.com/journalet/journalet/messages"
)

// To a kubelet every static pod is critical (pkg/kubelet/types): nothing of a cluster creates it again when it has
// ended. That holds here in a cluster; without one, pods of local sources are all that there is, and their priority
// counts (ADR 088).

// inCluster reports whether the node has an API server.
func (a *Actor) inCluster() bool {
	return slices.Contains(a.state.GetConfig().GetSources(), messages.APISource)
}

// local reports whether a pod that was admitted is of a local source. Only those hold their names.
func (a *Actor) local(uid string) bool {
	p := a.state.Pods[uid]
	return p != nil && a.state.Names[p.GetFullName()] == uid
}

// lowerInCluster reports whether an admitted pod has to make way for another one, of this priority: only a critical pod
// preempts, and a pod of a local source makes way only for another one of a higher priority (pkg/kubelet/types).
func (a *Actor) lowerInCluster(uid string, priority int32, local bool) bool {
	its := a.state.Pods[uid].GetPriority()
	switch {
	case !local && (priority < systemCritical || a.local(uid)):
		return false
	case local && !a.local(uid) && its < systemCritical:
		return true
	}
	return its < priority
}
