package agent

import (
	"os"
	"strconv"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri/cgroup"
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

// maxScoreBytes bounds what is read of oom_score_adj.
const maxScoreBytes = 64

// setOOMScore sets the agent's own oom_score_adj, so that the kernel ends pods first. Without the permission it stays:
// a container, or a unit of systemd with OOMScoreAdjust, has it already.
func (a *agent) setOOMScore(file string) {
	if simulated(a.cfg) {
		return
	}
	want := strconv.Itoa(int(a.cfg.OOMScoreAdj))
	if now, err := bounded.ReadFile(file, maxScoreBytes); err == nil && strings.TrimSpace(string(now)) == want {
		return
	}
	if err := os.WriteFile(file, []byte(want), 0); err != nil {
		a.log.Info("the agent keeps its oom_score_adj: set OOMScoreAdjust in the systemd unit", "want", want, "error", err)
	}
}
