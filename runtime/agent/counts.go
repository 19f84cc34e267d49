package agent

import (
	"context"
	"strings"
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/server"
)

// inspectTimeout bounds one inspection of actors.
const inspectTimeout = time.Second

// counts returns the gauges at the moment of a scrape.
func (a *agent) counts() server.Counts {
	c := server.Counts{
		Actors: map[string]int{}, Containers: map[string]int{}, Lagging: a.host.Lagging(),
		Quarantined: len(a.host.Quarantines()),
		Queued:      a.bus.Journal().Queued(),
	}
	for kind := range journaletv1.ActorKind_name {
		refs := a.host.Refs(journaletv1.ActorKind(kind))
		if len(refs) > 0 {
			c.Actors[refs[0].KindName()] = len(refs)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	for _, ref := range a.host.Refs(journaletv1.ActorKind_ACTOR_KIND_POD) {
		_ = a.host.Inspect(ctx, ref, func(d actors.Decider) { count(&c, d.(*pod.Actor).Pod()) })
	}
	return c
}

// count adds the observed sandboxes and containers of one pod.
func count(c *server.Counts, s *journaletv1.PodState) {
	for _, x := range s.GetObserved().GetSandboxes() {
		if x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY {
			c.RunningPods++
			break
		}
	}
	for _, x := range s.GetObserved().GetContainers() {
		c.Containers[strings.ToLower(strings.TrimPrefix(x.GetState().String(), "CONTAINER_STATE_"))]++
	}
}
