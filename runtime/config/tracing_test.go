package config

import (
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestTracingIsOffAndFollowsTheKubeletsFields(t *testing.T) {
	c, _ := mustLoad(t)
	if c.TracingSamplingRatePerMillion != 0 || c.TracingEndpoint != "localhost:4317" {
		t.Errorf("by default %q at %d per million", c.TracingEndpoint, c.TracingSamplingRatePerMillion)
	}
	path := write(t, filepath.Join(t.TempDir(), "kubelet.yaml"), head+"tracing: {samplingRatePerMillion: 1000}\n")
	c, problems := mustLoad(t, "--config", path)
	if c.TracingSamplingRatePerMillion != 1000 || c.TracingEndpoint != "localhost:4317" || len(problems) > 0 {
		t.Errorf("%q at %d per million, %v", c.TracingEndpoint, c.TracingSamplingRatePerMillion, problems)
	}
	path = write(t, path, head+"tracing: {endpoint: 'collector:4317', samplingRatePerMillion: 1000}\n")
	c, _ = mustLoad(t, "--config", path, "--tracing-sampling-rate-per-million=1000000")
	if c.TracingSamplingRatePerMillion != 1_000_000 || c.TracingEndpoint != "collector:4317" {
		t.Errorf("%q at %d per million", c.TracingEndpoint, c.TracingSamplingRatePerMillion)
	}
}

func TestTracingOutOfBoundsIsRefused(t *testing.T) {
	for _, arg := range []string{
		"--tracing-sampling-rate-per-million=-1", "--tracing-sampling-rate-per-million=1000001", "--tracing-endpoint=",
		"--tracing-endpoint=collector", "--tracing-endpoint=:4317", "--tracing-endpoint=http://collector:4317/x",
	} {
		c, _, err := load(t, arg)
		must.OK(t, err)
		if c.Validate() == nil {
			t.Errorf("%s is accepted", arg)
		}
	}
}
