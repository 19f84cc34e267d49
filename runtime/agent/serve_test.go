package agent

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/test/must"
)

func TestHealthNamesQuarantinedActorsThatAllPodsNeed(t *testing.T) {
	q := &journaletv1.Quarantined{Cause: 7, Message: "no way"}
	if err := quarantined(map[messages.Ref]*journaletv1.Quarantined{messages.Pod("a"): q}); err != nil {
		t.Errorf("a pod's own quarantine fails the node: %v", err)
	}
	err := quarantined(map[messages.Ref]*journaletv1.Quarantined{
		messages.Source("file"): q, messages.Runtime: q, messages.Pod("a"): q,
	})
	const want = "runtime/0 is quarantined, it failed on record 7: no way; `journalet lift runtime/0` tries again; " +
		"source/file is quarantined, it failed on record 7: no way; `journalet lift source/file` tries again"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestHealthNamesTheOldestHangingActorAndCall(t *testing.T) {
	at := func(n int) time.Time { return time.Date(2026, 1, 1, 12, 0, n, 0, time.UTC) }
	if err := hanging(nil); err != nil {
		t.Error(err)
	}
	err := hanging(map[messages.Ref]time.Time{messages.Pod("b"): at(2), messages.Node: at(1), messages.Pod("a"): at(2)})
	const first = "node/0 has been handling one record since 12:00:01, and 2 more actors; " +
		"see the agent's log, and restart it"
	if err == nil || err.Error() != first {
		t.Errorf("%v, want %s", err, first)
	}
	if err := overdue(nil); err != nil {
		t.Error(err)
	}
	call := func(uid string, n int) calls.Overdue {
		req := &journaletv1.CallRequested{PodUid: uid, Work: &journaletv1.CallRequested_SetUpVolumes{}}
		return calls.Overdue{Since: at(n), Request: req}
	}
	err = overdue([]calls.Overdue{call("a", 1), call("b", 2)})
	const want = "set_up_volumes of pod a has been under way since 12:00:01, and 1 more call; " +
		"`journalet pod a` shows what the pod waits for"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestObserversGetWhatContainersSayUnlessTheFlagSaysOtherwise(t *testing.T) {
	a := openIn(t, filepath.Join(t.TempDir(), "bus"))
	if !a.cfg.ObserveContainerOutput {
		t.Error("by default they do not")
	}
	for _, show := range []bool{true, false} {
		a.cfg.ObserveContainerOutput = show
		if live, past := a.busOptions(bus.SyncPolicy{}).Withhold, a.queryOptions().Withhold; live == show || past == show {
			t.Errorf("shown %v: withheld in live events %v, in those of the past %v", show, live, past)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	must.OK(t, errors.Join(a.bus.Journal().Flush(ctx), a.host.Stop(ctx), a.bus.Close(ctx)))
}
