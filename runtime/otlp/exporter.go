package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/start"
	"github.com/journalet/journalet/runtime/history/trace"
)

// Limits of the exporter.
const (
	// maxRecords is how many records may wait to be folded: a burst of 300 pods. What is beyond is read from the journal.
	maxRecords = 4096
	// maxTraces is how many traces may wait to be sent: the starts of ten full nodes. What is beyond is dropped.
	maxTraces = 1024
	// maxBehind is how many records before this run are folded, for the starts that were under way when the agent stopped.
	maxBehind = 20_000
	// flushTimeout bounds the last request at the end of a run.
	flushTimeout = time.Second
)

// Journal is what the exporter reads when records were skipped.
type Journal interface {
	First() uint64
	Read(ctx context.Context, from, to uint64, filter string, f func(rec *journaletv1.Record, size int) error) error
}

// Options are the parts of an exporter.
type Options struct {
	// Endpoint is host:port of the collector's OTLP receiver for gRPC, without TLS, as the kubelet connects to it.
	Endpoint string
	// PerMillion is how many of a million starts are traced, 1 to 1000000.
	PerMillion int32
	// Node and Version describe the agent.
	Node, Version string
	// Journal is the agent's; Last is its last record before this run. Earlier starts are not sent again.
	Journal Journal
	Last    uint64
	// Exported and Dropped count traces, Failed requests.
	Exported, Dropped func(int)
	Failed            func()
	Log               *slog.Logger
}

// Exporter sends the traces of starts that end while it runs.
type Exporter struct {
	o    Options
	conn *grpc.ClientConn

	mu     sync.Mutex
	recs   []*journaletv1.Record
	newest uint64 // the last record that was handed over
	traces []*tracepb.ResourceSpans
	wake   chan struct{} // records wait
	ready  chan struct{} // traces wait
}

// New returns an exporter that is not connected yet: a collector that is down is no error.
func New(o Options) (*Exporter, error) {
	conn, err := grpc.NewClient(o.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("tracing endpoint %q: %w; want host:port of an OTLP receiver for gRPC", o.Endpoint, err)
	}
	return &Exporter{o: o, conn: conn, newest: o.Last, wake: make(chan struct{}, 1), ready: make(chan struct{}, 1)}, nil
}

// Name implements drivers.Driver.
func (*Exporter) Name() string { return "traces" }

// Stored hands over a stored record, in the journal's order. It never waits.
func (e *Exporter) Stored(rec *journaletv1.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.newest = rec.GetSeq()
	if len(e.recs) < maxRecords {
		e.recs = append(e.recs, rec)
	}
	signal(e.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run folds records and sends traces until ctx ends, and then what is left, within flushTimeout.
func (e *Exporter) Run(ctx context.Context) error {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s := &sender{e: e}
		s.run(ctx)
	}()
	f := &gatherer{e: e, starts: start.NewCollector()}
	f.run(ctx)
	<-sent
	return e.conn.Close()
}

// gatherer folds records to traces.
type gatherer struct {
	e      *Exporter
	starts *start.Collector
	next   uint64 // the record to be folded next
}

func (f *gatherer) run(ctx context.Context) {
	f.next = max(f.e.o.Journal.First(), f.e.o.Last-min(f.e.o.Last, maxBehind)+1)
	for {
		recs, newest := f.e.take()
		for _, rec := range recs {
			f.catchUp(ctx, rec.GetSeq()-1)
			f.fold(rec)
		}
		f.catchUp(ctx, newest)
		select {
		case <-ctx.Done():
			return
		case <-f.e.wake:
		}
	}
}

// take returns the records that wait, and the number of the last record that was handed over.
func (e *Exporter) take() ([]*journaletv1.Record, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	recs := e.recs
	e.recs = nil
	return recs, e.newest
}

// catchUp folds the records up to a number that were not handed over: those before this run, and those beyond
// maxRecords. What cannot be read is skipped, as a start whose first record is gone.
func (f *gatherer) catchUp(ctx context.Context, to uint64) {
	if f.next > to {
		return
	}
	err := f.e.o.Journal.Read(ctx, f.next, to, "", func(rec *journaletv1.Record, _ int) error {
		f.fold(rec)
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		f.e.o.Log.Warn("cannot read records for traces; some starts have none", "from", f.next, "to", to, "err", err)
	}
	f.next = max(f.next, to+1)
}

func (f *gatherer) fold(rec *journaletv1.Record) {
	if rec.GetSeq() < f.next {
		return
	}
	f.next = rec.GetSeq() + 1
	for _, s := range f.starts.Add(rec) {
		if s.EndSeq > f.e.o.Last && trace.Sampled(trace.ID(f.e.o.Node, s), f.e.o.PerMillion) {
			f.e.queue(trace.Resource(f.e.o.Node, f.e.o.Version, trace.Spans(f.e.o.Node, s, s.End)))
		}
	}
}

// queue queues a trace to be sent, or drops it.
func (e *Exporter) queue(t *tracepb.ResourceSpans) {
	e.mu.Lock()
	full := len(e.traces) >= maxTraces
	if !full {
		e.traces = append(e.traces, t)
	}
	e.mu.Unlock()
	if full {
		e.o.Dropped(1)
		return
	}
	signal(e.ready)
}
