package agent

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	limits "github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/pressure"
)

// newPressure creates the driver that watches what is left of the node's resources; nil if nothing real runs.
func (a *agent) newPressure() *pressure.Driver {
	if simulated(a.cfg) {
		return nil
	}
	thresholds := a.cfg.Eviction.Parsed(slices.Contains(a.cfg.EnforceNodeAllocatable, config.EnforcePods))
	return pressure.New(pressure.Options{
		Thresholds: thresholds, Usage: a.podUsage, Log: a.log,
		Measure: func(ctx context.Context) pressure.Measurement {
			return pressure.Measured(a.stats.Signals(ctx, func(limit int64) int64 {
				return limits.Highest(thresholds, limits.AllocatableMemoryAvailable, limit)
			}))
		},
		Sink: func(ctx context.Context, e *journaletv1.Event) error { return a.host.Fact(ctx, messages.Node, e) },
	})
}

// podUsage measures all pods for a signal. Only storage waits for what is slow.
func (a *agent) podUsage(ctx context.Context, signal limits.Signal) []*journaletv1.PodUsage {
	var s *api.Summary
	if signal.Condition() == corev1.NodeMemoryPressure {
		s = a.stats.CPUAndMemory(ctx)
	} else {
		s = a.stats.SummaryWithin(ctx, pressure.UsageTimeout)
	}
	return pressure.UsageOf(s, signal, a.manifests.Newest)
}
