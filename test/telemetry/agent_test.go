package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/agent"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/runtime/history/start"
	"github.com/journalet/journalet/runtime/history/trace"
	"github.com/journalet/journalet/test/must"
)

const pod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers:
  - {name: first, image: "docker.io/library/busybox:1.36", command: ["true"]}
  containers:
  - {name: main, image: "docker.io/library/busybox:1.36", command: [sleep, inf]}
`

// TestAgentSendsTheStartOfAPod runs the agent on the simulated runtime beside a receiver of the protocol. The trace is
// one tree, is about the pod, and is the same trace that its journal yields weeks later.
func TestAgentSendsTheStartOfAPod(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	received := make(chan []*tracepb.Span, 10)
	go func() { _ = serve(l, func(spans []*tracepb.Span) { received <- spans }) }()

	cfg := simulated(t)
	cfg.TracingEndpoint, cfg.TracingSamplingRatePerMillion = l.Addr().String(), 1_000_000
	ctx, stop := context.WithCancel(t.Context())
	ended := runAgent(ctx, cfg)
	var spans []*tracepb.Span
	select {
	case spans = <-received:
	case err := <-ended:
		t.Fatalf("the agent ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("no trace within a minute")
	}
	stop()
	must.OK(t, <-ended)

	var text strings.Builder
	write(&text, spans)
	for _, want := range []string{"pod start", "default/web-node-1.example", "admission", "pull image", "create sandbox",
		"create container", "start container", "run init container", "first", "main", "busybox"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	s := recorded(t, cfg.RootDir)
	id := trace.ID("node-1.example", s)
	again := trace.Spans("node-1.example", s, s.End)
	if len(again) != len(spans) {
		t.Fatalf("%d spans of the journal, %d were received", len(again), len(spans))
	}
	for i, span := range spans {
		if !bytes.Equal(span.GetTraceId(), id[:]) || !bytes.Equal(span.GetSpanId(), again[i].GetSpanId()) ||
			span.GetEndTimeUnixNano() != again[i].GetEndTimeUnixNano() {
			t.Errorf("span %d: received %v, the journal yields %v", i, span, again[i])
		}
		if parent := span.GetParentSpanId(); i > 0 && !bytes.Equal(parent, spans[0].GetSpanId()) {
			t.Errorf("%s has another parent than the root", span.GetName())
		}
	}
}

// simulated returns the configuration of an agent on the simulated runtime, with one pod.
func simulated(t *testing.T) *config.Config {
	t.Helper()
	dir := t.TempDir()
	cfg := config.Defaults()
	cfg.ContainerRuntimeEndpoint, cfg.HostnameOverride = "sim://", "node-1.example"
	cfg.RootDir = filepath.Join(dir, "root")
	cfg.StaticPodPath, cfg.HealthzPort = filepath.Join(dir, "pods"), 0
	must.OK(t, os.MkdirAll(cfg.StaticPodPath, 0o700))
	must.OK(t, os.WriteFile(filepath.Join(cfg.StaticPodPath, "web.yaml"), []byte(pod), 0o600))
	return cfg
}

// runAgent runs an agent until ctx ends; the result receives what it ends with.
func runAgent(ctx context.Context, cfg *config.Config) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	return ended
}

// recorded returns the only start of a journal.
func recorded(t *testing.T, root string) *start.Start {
	t.Helper()
	j, err := open.Path(t.Context(), root)
	must.OK(t, err)
	c := start.NewCollector()
	var all []*start.Start
	must.OK(t, j.Read(t.Context(), 1, 0, func(e history.Entry) error {
		var rec *journaletv1.Record
		rec, err := e.Record()
		if err == nil {
			all = append(all, c.Add(rec)...)
		}
		return err
	}))
	if len(all) != 1 || all[0].Outcome != start.Ready {
		t.Fatalf("%d starts: %+v", len(all), all)
	}
	return all[0]
}
