package agent

import (
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/kubeletstate"
)

// kubeletState returns what a kubelet has left that had this root directory before (ADR 070); nil if there was none, or
// if an agent has begun since: after a lost journal its own decisions are lost, and those of a kubelet are older.
func (a *agent) kubeletState() *journaletv1.KubeletState {
	if o := a.bus.Opening(); o.Last > 0 || o.Damage != nil || a.volumes.Known() {
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
