package bus

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

const testNode = "node-1.example"

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func busDir(t testing.TB) string { return filepath.Join(t.TempDir(), "bus") }

func openBus(t testing.TB, dir string, change ...func(*Options)) *Bus {
	t.Helper()
	o := Options{Dir: dir, Node: testNode, Log: quiet}
	for _, c := range change {
		c(&o)
	}
	b, err := Open(testContext(t), o)
	must.OK(t, err)
	t.Cleanup(func() { closeBus(t, b) })
	return b
}

func closeBus(t testing.TB, b *Bus) {
	t.Helper()
	if err := b.Close(testContext(t)); err != nil {
		t.Error(err)
	}
}

// crash ends a bus as a killed process does: nothing is flushed, the head stays as it is.
func crash(b *Bus) {
	b.closed = true
	b.abandonForTest()
}

func (b *Bus) abandonForTest() {
	b.closeDoors()
	b.journal.a.close()
	b.observers.close()
	b.journal.a.head.f.Close()
	b.release()
}

func at(sec int64) *timestamppb.Timestamp {
	return &timestamppb.Timestamp{Seconds: 1_700_000_000 + sec}
}

func fact(actor messages.Ref, n int64) *journaletv1.Record {
	return &journaletv1.Record{
		Time: at(n), Actor: actor.Proto(),
		Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(&journaletv1.PodObserved{Uid: actor.ID})},
	}
}

func step(actor messages.Ref, cause, after uint64) *journaletv1.Record {
	return &journaletv1.Record{
		Time: at(int64(cause)), Actor: actor.Proto(),
		Body: &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: cause, After: after, Decisions: []*journaletv1.Event{
			{Kind: &journaletv1.Event_PodForgotten{PodForgotten: &journaletv1.PodForgotten{}}},
			{Kind: &journaletv1.Event_SourceSynced{SourceSynced: &journaletv1.SourceSynced{}}},
		}}},
	}
}

// received collects the records of OnStored.
type received struct {
	mu   sync.Mutex
	recs []*journaletv1.Record
}

func (h *received) add(recs []*journaletv1.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recs = append(h.recs, recs...)
}

func (h *received) seqs() []uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]uint64, len(h.recs))
	for i, r := range h.recs {
		out[i] = r.GetSeq()
	}
	return out
}

// widen adds so many bytes to a fact, in strings that each may have their length.
func widen(rec *journaletv1.Record, bytes int) {
	ips := make([]string, bytes>>10)
	for i := range ips {
		ips[i] = strings.Repeat("x", 1<<10)
	}
	rec.GetFact().GetPodObserved().Sandboxes = []*journaletv1.SandboxObservation{{Ips: ips}}
}

func appendFacts(t testing.TB, b *Bus, n int) {
	t.Helper()
	for i := range n {
		must.OK(t, b.Journal().Append(fact(messages.Pod("p"), int64(i))))
	}
	must.OK(t, b.Journal().Flush(testContext(t)))
}

// servePods adds the service journalet with an endpoint on journalet.n.pods.
func servePods(t *testing.T, b *Bus, handle micro.HandlerFunc, opts ...micro.EndpointOpt) {
	t.Helper()
	svc, err := micro.AddService(b.Services(), micro.Config{Name: "journalet", Version: "1.0.0"})
	if err == nil {
		err = svc.AddEndpoint("pods", handle, append(opts, micro.WithEndpointSubject("journalet.n.pods"))...)
	}
	if err = errors.Join(err, b.Services().Flush()); err != nil {
		t.Fatal(err)
	}
}

// waitUntil polls condition for minutes; what names it.
func waitUntil(t testing.TB, what string, condition func() bool) {
	t.Helper()
	must.Until(t, 5*time.Minute, what, condition)
}

func wantSeqs(t testing.TB, got []uint64, from, to uint64) {
	t.Helper()
	if uint64(len(got)) != to-from+1 {
		t.Fatalf("got %d records, want %d to %d", len(got), from, to)
	}
	for i, s := range got {
		if s != from+uint64(i) {
			t.Fatalf("record %d of those from %d is %d", i, from, s)
		}
	}
}
