package otlp

import (
	"context"
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// exportMethod is OTLP's method for traces. The generated client of the protocol would bring a gateway with it.
	exportMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	// batchTraces bounds the traces of one request: some 10 KiB each, of the 4 MiB that a receiver takes.
	batchTraces = 64
	// exportTimeout bounds one request; OTLP's default.
	exportTimeout = 10 * time.Second
	// retryMin and retryMax bound the pause after a failed request, which doubles.
	retryMin = time.Second
	retryMax = time.Minute
	// logEvery bounds how often failures are logged.
	logEvery = 10 * time.Minute
)

// sender sends traces.
type sender struct {
	e      *Exporter
	pause  time.Duration // after the next failure
	logged time.Time
}

func (s *sender) run(ctx context.Context) {
	s.pause = retryMin
	defer s.flush()
	for ctx.Err() == nil {
		batch := s.e.batch()
		if len(batch) == 0 {
			select {
			case <-ctx.Done():
			case <-s.e.ready:
			}
			continue
		}
		if retry := s.send(ctx, batch); !retry {
			s.e.done(len(batch))
			s.pause = retryMin
			continue
		}
		select {
		case <-ctx.Done(): // flush sends it once more
		case <-time.After(s.pause):
		}
		s.pause = min(2*s.pause, retryMax)
	}
}

// flush sends what is left at the end of a run, each batch once, and drops the rest.
func (s *sender) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	for {
		batch := s.e.batch()
		if len(batch) == 0 {
			return
		}
		if s.send(ctx, batch) {
			break
		}
		s.e.done(len(batch))
	}
	s.e.o.Dropped(s.e.done(maxTraces))
}

// batch returns the traces to be sent next; they stay in the queue until done.
func (e *Exporter) batch() []*tracepb.ResourceSpans {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.traces[:min(len(e.traces), batchTraces)]
}

// done removes the first n traces, or as many as there are, and returns how many it removed.
func (e *Exporter) done(n int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n = min(n, len(e.traces))
	clear(e.traces[:n])
	if e.traces = e.traces[n:]; len(e.traces) == 0 {
		e.traces = nil // frees the memory of a burst
	}
	return n
}

// send sends a batch once, and reports whether to send it again: the collector may take it later.
func (s *sender) send(ctx context.Context, batch []*tracepb.ResourceSpans) (retry bool) {
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	out := &collectorpb.ExportTraceServiceResponse{}
	err := s.e.conn.Invoke(ctx, exportMethod, &collectorpb.ExportTraceServiceRequest{ResourceSpans: batch}, out)
	if err == nil {
		s.e.o.Exported(len(batch))
		if p := out.GetPartialSuccess(); p.GetRejectedSpans() > 0 {
			s.log("the collector rejected spans", "spans", p.GetRejectedSpans(), "reason", p.GetErrorMessage())
		}
		return false
	}
	s.e.o.Failed()
	s.log("cannot send traces of pods' starts; pods are not affected", "endpoint", s.e.o.Endpoint, "err", err)
	if retryable(err) {
		return true
	}
	s.e.o.Dropped(len(batch))
	return false
}

// retryable reports whether OTLP lets a client repeat a request after an error.
func retryable(err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.OutOfRange,
		codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}

func (s *sender) log(what string, args ...any) {
	if now := time.Now(); now.Sub(s.logged) > logEvery {
		s.logged = now
		s.e.o.Log.Warn(what, args...)
	}
}
