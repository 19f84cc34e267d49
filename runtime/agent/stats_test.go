package agent

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/journalet/journalet/runtime/api/monitoring"
	"github.com/journalet/journalet/runtime/config"
)

// What is exported of volumes is among the agent's own metrics, as in a kubelet.
func TestVolumesOfClaimsAreInTheAgentsMetrics(t *testing.T) {
	cfg := config.Defaults()
	cfg.ContainerRuntimeEndpoint = simScheme
	a := &agent{cfg: cfg, facts: &config.NodeFacts{NodeName: "node-1"}, metrics: monitoring.NewMetrics(nil)}
	s := a.newStats()
	defer func() {
		var already prometheus.AlreadyRegisteredError
		if err, failed := recover().(error); !failed || !errors.As(err, &already) {
			t.Errorf("/metrics has no volumes: %v", err)
		}
	}()
	a.metrics.MustRegister(s.VolumeMetrics())
}
