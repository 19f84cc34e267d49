package agent

import (
	"fmt"
	"maps"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/monitoring"
)

// alive returns an error if a loop of the agent's own hangs. It is all that the watchdog depends on, because a restart
// repairs nothing else: no check here may wait for a disk, a directory or the container runtime (ADR 030).
func (a *agent) alive() error { return a.loops.Within(maxDecisionTime) }

// newLoops returns the checks of the agent's loops. Those without an error of their own take the lock that the loop
// takes for each item: a deadlock leaves them without a response.
func (a *agent) newLoops() *monitoring.Checks {
	return monitoring.NewChecks(a.log,
		monitoring.Check{Name: "dispatch", Probe: a.checkDispatch},
		monitoring.Check{Name: "actors", Probe: a.checkSharedActors},
		monitoring.Check{Name: "appender", Probe: func() error { _ = a.bus.Journal().Queued(); return nil }},
		monitoring.Check{Name: "timers", Probe: func() error { _ = a.timers.Armed(); return nil }},
		monitoring.Check{Name: "calls", Probe: func() error { _ = a.calls.Overdue(maxCallTime); return nil }},
	)
}

func (a *agent) checkDispatch() error {
	if since, stuck := a.dispatching.Stuck(maxDecisionTime); stuck {
		return fmt.Errorf("has been delivering one batch of records since %s", since.Format(time.TimeOnly))
	}
	return nil
}

// checkSharedActors returns an error if an actor hangs that others need. A pod's own actor holds up its pod only, and
// would hang again after a restart, which holds up all pods: /healthz reports it.
func (a *agent) checkSharedActors() error { return hanging(shared(a.host.Hanging(maxDecisionTime))) }

func shared(all map[messages.Ref]time.Time) map[messages.Ref]time.Time {
	maps.DeleteFunc(all, func(ref messages.Ref, _ time.Time) bool {
		return ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD
	})
	return all
}

// dispatch delivers stored records to actors and drivers, and then to observers, who receive them as they are stored:
// a step in its parts. Nothing is stored meanwhile.
func (a *agent) dispatch(recs []*journaletv1.Record) {
	a.dispatching.Begin()
	defer a.dispatching.End()
	a.host.Stored(recs)
	for _, rec := range recs {
		a.bus.Observers().Publish(rec)
	}
}
