package agent

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// checkReserved returns an error if a cgroup of daemons that is to be bounded does not exist.
func (a *agent) checkReserved() error {
	if simulated(a.cfg) {
		return nil
	}
	return cgroup.CheckReserved(a.cfg.ReservedCgroups())
}

// enforceReserved bounds the cgroups of daemons. Where the kernel refuses, because they use more memory than is
// reserved for them, it tries again.
func (a *agent) enforceReserved(ctx context.Context) error {
	if simulated(a.cfg) {
		return nil
	}
	left := a.cfg.ReservedCgroups()
	for pause := minCgroupPause; len(left) > 0; pause = min(2*pause, maxCgroupPause) {
		left = a.enforce(left, cgroup.Reserved.Set)
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
	return nil
}

// enforce bounds cgroups of daemons and returns those that it could not, with the kubelet's events.
func (a *agent) enforce(all []cgroup.Reserved, set func(cgroup.Reserved) error) (left []cgroup.Reserved) {
	for _, r := range all {
		if err := set(r); err != nil {
			a.log.Warn("cannot bound the cgroup of daemons; trying again", "cgroup", r.Name, "error", err)
			a.emit(corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement", "Failed to enforce "+
				strings.ToUpper(r.What[:1])+r.What[1:]+" Reserved Cgroup Limits on "+strconv.Quote(r.Name)+": "+err.Error())
			left = append(left, r)
			continue
		}
		a.log.Info("bounded the cgroup of daemons", "cgroup", r.Name, "reserved for", r.What)
		a.emit(corev1.EventTypeNormal, "NodeAllocatableEnforced",
			"Updated limits on "+r.What+" reserved cgroup "+r.Name)
	}
	return left
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
