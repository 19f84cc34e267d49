package pod

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages/journaletv1"
)

// ReasonEvicted is the status reason of a pod that used more ephemeral storage than its limits allow (ADR 040).
const ReasonEvicted = "Evicted"

// evictionGrace is the grace period of an evicted pod; its containers have the minimum all the same.
// kubelet: immediateEvictionGracePeriodSeconds, 1 s.
const evictionGrace = time.Second

// systemCritical is the least priority of a critical pod (API: SystemCriticalPriority). It is never evicted.
const systemCritical = 2_000_000_000

// evict ends a pod that exceeds a limit of ephemeral storage. ending reports whether it does.
func (d *step) evict() (ending bool) {
	if priority(d.manifest) >= systemCritical || d.done() || d.initFailed() {
		return false
	}
	for _, e := range d.in.Events {
		if x := e.Body.GetStorageExceeded(); x != nil {
			d.decide(&journaletv1.PodTerminating{
				Reason: ReasonEvicted, Message: x.GetMessage(), Failed: true, Grace: durationpb.New(evictionGrace),
			})
			return true
		}
	}
	return false
}

// evicted reports whether a pod ends, or has ended, because it exceeded a limit of ephemeral storage.
func (a *Actor) evicted() bool { return a.state.GetFails() && a.state.GetReason() == ReasonEvicted }
