package config

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
)

const (
	// DefaultTracingEndpoint is OTLP's port for gRPC, as in the kubelet.
	DefaultTracingEndpoint = "localhost:4317"
	// maxSamplingRate is the API's.
	maxSamplingRate = 1_000_000

	endpointFlag = "tracing-endpoint"
	samplingFlag = "tracing-sampling-rate-per-million"
)

// addTracingFlags adds the flags of traces. The kubelet has only the fields.
func (c *Config) addTracingFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.TracingEndpoint, endpointFlag, c.TracingEndpoint,
		"host:port of an OpenTelemetry collector that receives OTLP over gRPC without TLS")
	fs.Int32Var(&c.TracingSamplingRatePerMillion, samplingFlag, c.TracingSamplingRatePerMillion,
		"how many of a million starts of pods are traced; 0: none")
}

// applyTracing applies the two parts of the tracing configuration.
func (c *Config) applyTracing(k *kubeletConfig, given func(string) bool) {
	if k.Tracing == nil {
		return
	}
	if e := k.Tracing.Endpoint; e != nil && !given(endpointFlag) {
		c.TracingEndpoint = *e
	}
	if r := k.Tracing.SamplingRatePerMillion; r != nil && !given(samplingFlag) {
		c.TracingSamplingRatePerMillion = *r
	}
}

func (c *Config) validateTracing() error {
	const endpoint = "tracing.endpoint (--" + endpointFlag + ")"
	if r := c.TracingSamplingRatePerMillion; r < 0 || r > maxSamplingRate {
		return fmt.Errorf("tracing.samplingRatePerMillion (--%s): %d is not within 0 and %d",
			samplingFlag, r, maxSamplingRate)
	}
	host, port, err := net.SplitHostPort(c.TracingEndpoint)
	if err == nil && (host == "" || port == "") {
		err = errors.New("host or port is missing")
	}
	if err != nil {
		return fmt.Errorf("%s: found %q, want host:port such as %s: %w",
			endpoint, c.TracingEndpoint, DefaultTracingEndpoint, err)
	}
	return nil
}
