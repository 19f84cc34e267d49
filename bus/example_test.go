package bus_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A journal of its own, one fact, and what is read of it.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b, err := bus.Open(ctx, bus.Options{Dir: dir, Node: "node-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)

	journal := b.Journal()
	fact := messages.NewEvent(&journaletv1.TimerFired{Name: "hourly"})
	err = journal.AppendFact(ctx, &journaletv1.Record{
		Actor: messages.Node.Proto(), Body: &journaletv1.Record_Fact{Fact: fact},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := journal.Flush(ctx); err != nil { // it is on disk, and OnStored has it
		log.Fatal(err)
	}
	err = journal.Read(ctx, 1, 0, "", func(rec *journaletv1.Record, _ int) error {
		fmt.Println(rec.GetSeq(), messages.Subject("node-1", rec))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 node.node-1.node.0.timer_fired
}
