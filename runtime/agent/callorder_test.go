package agent

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/pleg"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/test/must"
)

// withHost returns an agent that has a bus and a host, and nothing else.
func withHost(t *testing.T) *agent {
	t.Helper()
	a := &agent{cfg: config.Defaults(), facts: &config.NodeFacts{NodeName: "n"}, log: slog.New(slog.DiscardHandler)}
	var err error
	a.bus, err = bus.Open(t.Context(), bus.Options{Dir: filepath.Join(t.TempDir(), "bus"), Node: "n", Log: a.log})
	must.OK(t, err)
	t.Cleanup(func() { _ = a.bus.Close(context.Background()) })
	a.host = host.New(host.Options{
		Node: "n", Epoch: 1, Journal: a.bus.Journal(), Snapshots: a.bus.Snapshots(), Deciders: fold.AllDeciders,
		Effects: noEffects{}, Now: time.Now, Log: a.log,
	})
	a.bus.Journal().OnStored(a.host.Stored)
	return a
}

// setClock is a clock that the test sets.
type setClock struct {
	clock.Real
	now time.Time
}

func (c *setClock) Now() time.Time { return c.now }

// The order of calls and inspections is in the record's time, or in ended_at after the clock was set back.
func TestOutcomeOfACallIsRecordedInOrderWithInspections(t *testing.T) {
	a := withHost(t)
	clock := &setClock{now: time.Unix(1000, 0)}
	a.pleg = pleg.New(pleg.Options{
		Conn: struct{ grpc.ClientConnInterface }{}, Owner: cri.Owner{AgentID: "a"}, Clock: clock,
		Sink: func(context.Context, *journaletv1.PodObserved) error { return nil },
	})
	for _, at := range []int64{1000, 400} {
		clock.now = time.Unix(at, 0)
		finished := &journaletv1.CallFinished{IntentId: "1.1.image/0.0", Requester: messages.Image.String()}
		a.callFinished(&journaletv1.CallRequested{}, messages.Image, messages.NewEvent(finished))
	}
	must.OK(t, a.bus.Journal().Flush(t.Context()))
	for seq, want := range map[uint64]struct{ at, ended time.Time }{
		1: {time.Unix(1000, 0), time.Unix(1000, 0)}, 2: {time.Unix(400, 0), time.Unix(1000, 1)},
	} {
		rec, err := a.bus.Journal().Get(t.Context(), seq)
		must.OK(t, err)
		ended := rec.GetFact().GetCallFinished().GetEndedAt()
		if !rec.GetTime().AsTime().Equal(want.at) || !ended.AsTime().Equal(want.ended) {
			t.Errorf("record %d has the time %s and ended_at %v, want %+v", seq, rec.GetTime().AsTime(), ended, want)
		}
	}
}
