package pressure

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// world is a node with some memory left, on virtual time.
type world struct {
	now       time.Time
	available int64
	usages    int
	refused   bool
	facts     []*journaletv1.PressureObserved
	layout    journaletv1.FilesystemLayout
}

func (w *world) driver(thresholds ...pressure.Threshold) *Driver {
	return New(Options{
		Thresholds: thresholds, Now: func() time.Time { return w.now },
		Measure: func(context.Context) Measurement {
			w.now = w.now.Add(time.Second)
			amount := pressure.Measured{Available: w.available, Capacity: 1000}
			return Measurement{Layout: w.layout, Signals: map[pressure.Signal]pressure.Measured{
				pressure.MemoryAvailable: amount, pressure.NodeFsAvailable: amount,
				pressure.ContainerFsAvailable: amount,
			}}
		},
		Usage: func(context.Context, pressure.Signal) []*journaletv1.PodUsage {
			w.usages++
			return []*journaletv1.PodUsage{{Uid: "u"}}
		},
		Sink: func(_ context.Context, e *journaletv1.Event) error {
			if w.refused {
				return errors.New("the journal is full")
			}
			w.facts = append(w.facts, e.GetPressureObserved())
			return nil
		},
	})
}

func (w *world) sample(t *testing.T, d *Driver, times int) {
	t.Helper()
	for range times {
		must.OK(t, d.Sample(t.Context()))
	}
}

func requested(stage journaletv1.EvictionStage, id uint64) *journaletv1.Record {
	return &journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{Decisions: []*journaletv1.Event{
		messages.NewEvent(&journaletv1.EvictionProgressed{Stage: stage, RequestId: id}),
	}}}}
}

var memory = pressure.Threshold{Signal: pressure.MemoryAvailable, Value: pressure.Amount{Quantity: 100}}

func TestOnlyCrossingsAndAnswersAreRecorded(t *testing.T) {
	w := &world{now: time.Unix(1e6, 0), available: 500}
	d := w.driver(memory)
	w.sample(t, d, 1000)
	if len(w.facts) != 0 || w.usages != 0 {
		t.Fatalf("without pressure %d facts were recorded, and pods were measured %d times", len(w.facts), w.usages)
	}
	w.available = 50
	w.sample(t, d, 100)
	if len(w.facts) != 1 || len(w.facts[0].GetPods()) != 1 || w.usages != 1 {
		t.Fatalf("a crossing: %v", w.facts)
	}
	d.Stored(requested(journaletv1.EvictionStage_EVICTION_STAGE_MEASURING, 7))
	w.sample(t, d, 100)
	if len(w.facts) != 2 || w.facts[1].GetRequestId() != 7 {
		t.Fatalf("a request: %v", w.facts)
	}
	w.available = 500
	w.sample(t, d, 100)
	if len(w.facts) != 3 || len(w.facts[2].GetThresholds()) != 0 || w.usages != 2 {
		t.Fatalf("the end: %v", w.facts)
	}
}

func TestWhatWasNotRecordedIsReportedAgain(t *testing.T) {
	w := &world{now: time.Unix(1e6, 0), available: 50, refused: true}
	d := w.driver(memory)
	if d.Sample(t.Context()) == nil {
		t.Fatal("no error")
	}
	w.refused = false
	w.sample(t, d, 5)
	if len(w.facts) != 1 {
		t.Fatalf("%v", w.facts)
	}
}

func TestRestartAnswersWhatWasRequested(t *testing.T) {
	w := &world{now: time.Unix(1e6, 0), available: 50}
	first := w.driver(memory)
	w.sample(t, first, 1)
	state := &journaletv1.NodePressure{
		Thresholds: w.facts[0].GetThresholds(), Stage: journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMED, RequestId: 3,
	}
	d := w.driver(memory)
	d.Seed(state)
	w.sample(t, d, 5)
	if len(w.facts) != 2 || w.facts[1].GetRequestId() != 3 {
		t.Fatalf("%v", w.facts)
	}
	// A fact that the node has not handled yet is the answer.
	d = w.driver(memory)
	d.Seed(state)
	d.SeedPending(&journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(w.facts[1])}})
	w.sample(t, d, 5)
	if len(w.facts) != 2 {
		t.Fatalf("%v", w.facts)
	}
}

func TestThresholdAboveTheCapacityIsIgnored(t *testing.T) {
	w := &world{now: time.Unix(1e6, 0), available: 500}
	disk := pressure.Threshold{Signal: pressure.NodeFsAvailable, Value: pressure.Amount{Quantity: 5000}}
	d := w.driver(memory, disk)
	w.sample(t, d, 5)
	if len(w.facts) != 0 {
		t.Fatalf("%v", w.facts)
	}
	w.available = 50
	w.sample(t, d, 5)
	if len(w.facts) != 1 || len(w.facts[0].GetThresholds()) != 1 {
		t.Fatalf("the other threshold: %v", w.facts)
	}
}

func TestContainerFSFollowsNodeFS(t *testing.T) {
	w := &world{now: time.Unix(1e6, 0), available: 500, layout: journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT}
	disk := pressure.Threshold{Signal: pressure.NodeFsAvailable, Value: pressure.Amount{Quantity: 100}}
	d := w.driver(disk)
	w.sample(t, d, 1)
	w.available = 50
	w.sample(t, d, 1)
	if len(w.facts) != 1 || len(w.facts[0].GetThresholds()) != 2 || w.facts[0].GetLayout() != w.layout {
		t.Fatalf("%v", w.facts)
	}
	// Before the runtime has named its file systems again, nothing has changed.
	d = w.driver(disk)
	d.Seed(&journaletv1.NodePressure{Thresholds: proto.CloneOf(w.facts[0]).GetThresholds()})
	w.layout = 0
	w.sample(t, d, 3)
	if len(w.facts) != 1 {
		t.Fatalf("after a restart: %v", w.facts)
	}
}
