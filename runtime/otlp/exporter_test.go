package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/start"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

// receiver is an OTLP receiver: gRPC over TCP, and the messages of the protocol.
type receiver struct {
	addr string
	srv  *grpc.Server
	got  chan *collectorpb.ExportTraceServiceRequest
	// fail, if set, is returned instead.
	fail atomic.Pointer[error]
}

func listen(t *testing.T, addr string) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	must.OK(t, err)
	r := &receiver{
		addr: l.Addr().String(), srv: grpc.NewServer(), got: make(chan *collectorpb.ExportTraceServiceRequest, 4096),
	}
	r.srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector.trace.v1.TraceService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Export", Handler: func(_ any, _ context.Context, decode func(any) error,
			_ grpc.UnaryServerInterceptor) (any, error) {
			in := &collectorpb.ExportTraceServiceRequest{}
			if err := decode(in); err != nil {
				return nil, err
			}
			if err := r.fail.Load(); err != nil {
				return nil, *err
			}
			r.got <- in
			return &collectorpb.ExportTraceServiceResponse{}, nil
		}}},
	}, nil)
	go func() { _ = r.srv.Serve(l) }()
	t.Cleanup(r.srv.Stop)
	return r
}

// journal is a journal in memory.
type journal struct {
	mu   sync.Mutex
	recs []*journaletv1.Record
}

func (j *journal) First() uint64 { return 1 }

func (j *journal) Read(_ context.Context, from, to uint64, _ string,
	f func(rec *journaletv1.Record, size int) error) error {
	j.mu.Lock()
	recs := slices.Clone(j.recs)
	j.mu.Unlock()
	for _, rec := range recs {
		if rec.GetSeq() >= from && rec.GetSeq() <= to {
			if err := f(rec, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// add appends a step of an actor.
func (j *journal) add(author messages.Ref, e *journaletv1.Event) *journaletv1.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	seq := uint64(len(j.recs)) + 1
	rec := &journaletv1.Record{Seq: seq, Epoch: 1, Time: timestamppb.New(time.Unix(1_700_000_000, int64(seq))),
		Actor: author.Proto(),
		Body:  &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: seq - 1, Decisions: []*journaletv1.Event{e}}}}
	j.recs = append(j.recs, rec)
	return rec
}

func added(uid string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodUpdated{Operation: journaletv1.PodOperation_POD_OPERATION_ADD,
		Pod: &journaletv1.PodRef{Uid: uid, Namespace: "default", Name: uid}})
}

func ready() *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodStatusChanged{
		Conditions: []*journaletv1.Condition{{Type: "Ready", Status: true}},
	})
}

// counts count what an exporter reports.
type counts struct{ exported, dropped, failed atomic.Int64 }

func newExporter(t *testing.T, endpoint string, j *journal, last uint64) (*Exporter, *counts) {
	t.Helper()
	c := &counts{}
	e, err := New(Options{Endpoint: endpoint, PerMillion: 1_000_000, Node: "n", Version: "v", Journal: j, Last: last,
		Exported: func(n int) { c.exported.Add(int64(n)) }, Dropped: func(n int) { c.dropped.Add(int64(n)) },
		Failed: func() { c.failed.Add(1) }, Log: slog.New(slog.DiscardHandler)})
	must.OK(t, err)
	return e, c
}

// run runs an exporter and returns what ends it.
func run(t *testing.T, e *Exporter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// next returns the next spans that arrive.
func (r *receiver) next(t *testing.T) (spans []*tracepb.Span) {
	t.Helper()
	select {
	case in := <-r.got:
		for _, rs := range in.GetResourceSpans() {
			spans = append(spans, rs.GetScopeSpans()[0].GetSpans()...)
		}
	case <-time.After(time.Minute):
		t.Fatal("no trace arrives within a minute")
	}
	return spans
}

func uid(span *tracepb.Span) string {
	for _, a := range span.GetAttributes() {
		if a.GetKey() == "k8s.pod.uid" {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

func TestStartIsSentWhenItEnds(t *testing.T) {
	r, j := listen(t, "127.0.0.1:0"), &journal{}
	e, c := newExporter(t, r.addr, j, 0)
	run(t, e)
	e.Stored(j.add(messages.Source("file"), added("a")))
	e.Stored(j.add(messages.Source("file"), added("b")))
	e.Stored(j.add(messages.Pod("b"), ready()))
	spans := r.next(t)
	if len(spans) != 2 || spans[0].GetName() != "pod start" || uid(spans[0]) != "b" || spans[1].GetName() != "admission" {
		t.Errorf("received %v", spans)
	}
	if c.dropped.Load()+c.failed.Load() > 0 {
		t.Errorf("%d dropped, %d requests failed", c.dropped.Load(), c.failed.Load())
	}
}

// A start that was under way when the agent stopped is sent by the next run; a start that had ended is not sent again.
func TestStartOverARestartIsSentOnce(t *testing.T) {
	r, j := listen(t, "127.0.0.1:0"), &journal{}
	j.add(messages.Source("file"), added("a"))
	j.add(messages.Pod("a"), ready())
	j.add(messages.Source("file"), added("b"))
	e, _ := newExporter(t, r.addr, j, 3)
	run(t, e)
	e.Stored(j.add(messages.Pod("b"), ready()))
	spans := r.next(t)
	if uid(spans[0]) != "b" || spans[0].GetStartTimeUnixNano() != uint64(time.Unix(1_700_000_000, 3).UnixNano()) {
		t.Errorf("received %v", spans)
	}
	if len(r.got) > 0 {
		t.Errorf("and then %v", r.next(t))
	}
}

// What the exporter is handed before it runs, beyond what may wait, it reads from the journal.
func TestRecordsBeyondTheQueueAreReadFromTheJournal(t *testing.T) {
	r, j := listen(t, "127.0.0.1:0"), &journal{}
	e, _ := newExporter(t, r.addr, j, 0)
	const pods = maxRecords/2 + 100
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		e.Stored(j.add(messages.Source("file"), added(name)))
		e.Stored(j.add(messages.Pod(name), ready()))
	}
	if len(e.recs) != maxRecords {
		t.Fatalf("%d records wait", len(e.recs))
	}
	f := &gatherer{e: e, starts: start.NewCollector(), next: 1}
	recs, newest := e.take()
	for _, rec := range recs {
		f.catchUp(t.Context(), rec.GetSeq()-1)
		f.fold(rec)
	}
	f.catchUp(t.Context(), newest)
	if f.next != 2*pods+1 || len(f.starts.Open()) != 0 {
		t.Errorf("folded up to %d of %d, %d starts are open", f.next-1, 2*pods, len(f.starts.Open()))
	}
}

// A collector that is down, or refuses, blocks nothing: what waits is bounded, what is beyond is dropped and counted,
// and the rest is sent when the collector is back.
func TestCollectorThatFailsBlocksNothing(t *testing.T) {
	r, j := listen(t, "127.0.0.1:0"), &journal{}
	unavailable := status.Error(codes.Unavailable, "later")
	r.fail.Store(&unavailable)
	e, c := newExporter(t, r.addr, j, 0)
	run(t, e)
	const pods = maxTraces + 50
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		e.Stored(j.add(messages.Source("file"), added(name)))
		e.Stored(j.add(messages.Pod(name), ready()))
	}
	must.Until(t, time.Minute, "the surplus is dropped", func() bool {
		return c.dropped.Load() == pods-maxTraces && c.failed.Load() > 0
	})
	r.fail.Store(nil)
	must.Until(t, time.Minute, "the rest is sent", func() bool { return c.exported.Load() == maxTraces })
	refused := status.Error(codes.InvalidArgument, "never")
	r.fail.Store(&refused)
	e.Stored(j.add(messages.Source("file"), added("x")))
	e.Stored(j.add(messages.Pod("x"), ready()))
	must.Until(t, time.Minute, "what is refused is dropped at once", func() bool {
		return c.dropped.Load() == pods-maxTraces+1
	})
}

// The end of a run sends what is left, and waits no longer than flushTimeout for a collector that does not answer.
func TestEndOfARunSendsWhatIsLeft(t *testing.T) {
	r, j := listen(t, "127.0.0.1:0"), &journal{}
	e, c := newExporter(t, r.addr, j, 0)
	for i := range 3 * batchTraces {
		e.queueStart(t, j, fmt.Sprintf("p%d", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.OK(t, e.Run(ctx))
	if c.exported.Load() != 3*batchTraces || c.dropped.Load() != 0 {
		t.Errorf("%d exported, %d dropped", c.exported.Load(), c.dropped.Load())
	}

	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and does not answer
	must.OK(t, err)
	defer silent.Close()
	e, c = newExporter(t, silent.Addr().String(), j, 0)
	e.queueStart(t, j, "late")
	begun := time.Now()
	must.OK(t, e.Run(ctx))
	strict.Within(t, "the end of a run", time.Since(begun), 5*flushTimeout)
	if c.dropped.Load() != 1 {
		t.Errorf("%d were dropped", c.dropped.Load())
	}
}

// queueStart folds one start by hand.
func (e *Exporter) queueStart(t *testing.T, j *journal, name string) {
	t.Helper()
	f := &gatherer{e: e, starts: start.NewCollector()}
	f.fold(j.add(messages.Source("file"), added(name)))
	f.fold(j.add(messages.Pod(name), ready()))
}
