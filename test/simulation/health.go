package simulation

import (
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/health"
)

// monitor stands for runtime/cri/health: it asks the runtime for its health every 5 s and tells every change.
func monitor(r *run, last *journaletv1.RuntimeHealthChanged) func(*proc) {
	return func(p *proc) {
		for {
			network := false
			err := r.world.rpc(p, tookLook, health.DefaultTimeout, func(bool) error { network = r.world.networkReady; return nil })
			now := &journaletv1.RuntimeHealthChanged{RuntimeReady: err == nil, NetworkReady: err == nil && network}
			if err != nil {
				now.Message = "the container runtime does not answer (" + err.Error() + ")"
			}
			if last == nil || !proto.Equal(now, last) {
				r.fact(p, messages.Runtime, &journaletv1.Event{Kind: &journaletv1.Event_RuntimeHealthChanged{RuntimeHealthChanged: now}})
				last = now
			}
			p.sleep(health.DefaultPeriod)
		}
	}
}
