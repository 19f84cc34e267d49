package replay_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/replay"
)

// The past of a node: are the decisions of a journal what this version decides, and what did an actor know at a record?
func Example() {
	ctx := context.Background()
	past := journal() // elsewhere from a bundle or a root directory: package open
	report, err := replay.Check(ctx, past, replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("records: %d, diverged: %d\n", report.Records, report.Diverged)

	before, err := replay.StateAt(ctx, past, messages.Runtime, 1)
	if err != nil {
		log.Fatal(err)
	}
	after, err := replay.StateAt(ctx, past, messages.Runtime, 2)
	if err != nil {
		log.Fatal(err)
	}
	for _, field := range replay.Differences(before.Message, after.Message) {
		fmt.Println("changed:", field.Path)
	}
	// Output:
	// records: 2, diverged: 0
	// changed: health
}

// journal returns a journal of two facts.
func journal() *history.Memory {
	node := fold.NewCore(fold.AllDeciders, nil, 1)
	for _, fact := range []struct {
		about messages.Ref
		event *journaletv1.Event
	}{
		{messages.Agent, messages.NewEvent(&journaletv1.AgentStarted{
			Epoch: 1, Config: &journaletv1.AgentConfig{NodeName: "node-1"},
		})},
		{messages.Runtime, messages.NewEvent(&journaletv1.RuntimeHealthChanged{RuntimeReady: true, NetworkReady: true})},
	} {
		if err := node.Put(time.Unix(1_700_000_000, 0), fact.about, fact.event); err != nil {
			log.Fatal(err)
		}
	}
	return &history.Memory{Name: "node-1", Records: node.Records()}
}
