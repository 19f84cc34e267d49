package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// The state after a repair is the one before the loss, and no actor is quarantined.
func TestRepairedJournalFoldsAtTheNextStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bus")
	a := openIn(t, dir)
	health := func(i int) string { return fmt.Sprintf("runtime-%03d", i) }
	for i := range 50 {
		e := messages.NewEvent(&journaletv1.RuntimeHealthChanged{RuntimeReady: true, RuntimeName: health(i)})
		a.host.Outcome(messages.Runtime, e)
	}
	must.OK(t, a.bus.Journal().Flush(t.Context()))
	must.OK(t, a.bus.Close(t.Context())) // no snapshots
	block := filepath.Join(dir, "jetstream", "AGENT", "streams", "JOURNAL", "msgs", "1.blk")
	data, err := os.ReadFile(block)
	must.OK(t, err)
	data[bytes.Index(data, []byte(health(20)))] ^= 1
	must.OK(t, os.WriteFile(block, data, 0o600))

	r, err := bus.CheckForRepair(t.Context(), dir, nil)
	must.OK(t, err)
	if len(r.Report.Lost) != 1 || r.Report.Tail == nil {
		t.Fatalf("%+v", r.Report)
	}
	must.OK(t, r.Apply(t.Context(), slog.New(slog.DiscardHandler)))
	a = openIn(t, dir)
	must.OK(t, a.host.Snapshot(t.Context())) // all actors have handled their records
	if name := a.nodeView().RuntimeName; name != health(19) || len(a.host.Quarantines()) > 0 {
		t.Fatalf("the runtime's name is %q, quarantined: %v", name, a.host.Quarantines())
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	must.OK(t, errors.Join(a.host.Stop(ctx), a.bus.Close(ctx)))
}
