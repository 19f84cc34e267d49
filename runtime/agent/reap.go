package agent

import (
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri/reap"
)

// newReaper returns what ends the commands that the agent has started in containers; nil for a simulated runtime, whose
// commands are no processes. The time of the start names the run: the epoch begins again with a lost journal.
func (a *agent) newReaper() *reap.Reaper {
	if simulated(a.cfg) {
		return nil
	}
	return reap.New(reap.Options{
		Agent: a.id(), Run: strconv.FormatInt(time.Now().UnixNano(), 36), Log: a.log,
		Runtime: runtimeapi.NewRuntimeServiceClient(a.conn), Table: reap.NewMachine(), Clock: clock.Real{},
	})
}
