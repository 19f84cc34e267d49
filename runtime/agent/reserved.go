package agent

import (
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/oom"
)

// checkReserved returns an error if a cgroup of daemons that is to be bounded does not exist.
func (a *agent) checkReserved() error {
	if simulated(a.cfg) {
		return nil
	}
	return cgroup.CheckReserved(a.cfg.ReservedCgroups())
}

// newEnforcer creates the driver that bounds the cgroups of daemons.
func (a *agent) newEnforcer() *cgroup.Enforcer {
	e := &cgroup.Enforcer{Emit: a.emit, Clock: clock.Real{}, Log: a.log}
	if !simulated(a.cfg) {
		e.All = a.cfg.ReservedCgroups()
	}
	return e
}

// setOOMScore sets the agent's own oom_score_adj, so that the kernel ends pods first. Without the permission it stays.
func (a *agent) setOOMScore(file string) {
	if simulated(a.cfg) {
		return
	}
	if err := oom.SetScore(file, int(a.cfg.OOMScoreAdj)); err != nil {
		a.log.Info("the agent keeps its oom_score_adj: set OOMScoreAdjust in the systemd unit", "want", a.cfg.OOMScoreAdj,
			"error", err)
	}
}
