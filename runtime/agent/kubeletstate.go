package agent

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/runtime/takeover"
)

// kubeletState returns the state that a kubelet left in this root directory (ADR 070). It returns nil if there was no
// kubelet, or if an agent has begun since: after a lost journal the agent's decisions are lost, and the kubelet's
// decisions are older.
func (a *agent) kubeletState() *journaletv1.KubeletState {
	if o := a.bus.Opening(); o.Last > 0 || o.Damage != nil || volume.Known(a.cfg.RootDir) {
		return nil
	}
	state := kubeletstate.Read(a.cfg.RootDir)
	for _, problem := range state.GetProblems() {
		a.log.Warn("what a kubelet had given to pods is not taken over as a whole", "problem", problem)
	}
	if state != nil {
		a.log.Info("a kubelet had this root directory before; its pods get what it had given to them",
			"pods", len(state.GetPods()))
	}
	return state
}

// allocatedByKubelet returns how a kubelet had admitted a pod that the journal does not have yet (ADR 109); nil: as its
// spec says. The kubelet's file is read with the first such pod. After a lost journal it does not count: the agent has
// resized pods since. allocatedByKubelet is called before anything runs.
func (a *agent) allocatedByKubelet() func(*corev1.Pod) *corev1.Pod {
	o := a.bus.Opening()
	lost := o.Damage != nil || o.Last == 0 && volume.Known(a.cfg.RootDir)
	read := sync.OnceValue(func() takeover.Allocated {
		if lost || !kubeletstate.In(a.cfg.RootDir) {
			return nil
		}
		return a.readAllocated()
	})
	return func(pod *corev1.Pod) *corev1.Pod { return read().Pod(pod) }
}

// readAllocated reads what a kubelet had allocated to pods.
func (a *agent) readAllocated() takeover.Allocated {
	all, err := kubeletstate.ReadAllocated(a.cfg.RootDir)
	if err != nil {
		a.log.Warn("what a kubelet had allocated to pods is not known", "error", err)
	}
	return all
}

// foundResources returns the exclusive resources of pods whose directories are on the node and which the journal does
// not have (ADR 072).
func (a *agent) foundResources(r *host.Recovered) map[string]*journaletv1.GivenResources {
	known := func(string) bool { return false }
	fold.EachOf(r, func(_ messages.Ref, n *node.Actor) { known = n.HasResources })
	found, err := a.volumes.FindResources(known)
	if err != nil {
		a.log.Warn("cannot read the exclusive resources of some pods; if the journal does not have them either, others may "+
			"get the same: restart these pods", "error", err)
	}
	if len(found) > 0 {
		a.log.Info("the journal does not have the exclusive resources of some pods; they keep them", "pods", len(found))
	}
	return found
}
