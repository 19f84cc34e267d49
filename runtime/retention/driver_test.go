package retention

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/dispatch"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/manifests"
	"github.com/journalet/journalet/test/must"
)

type noEffects struct{}

func (noEffects) Stored(*journaletv1.Record) {}

// rig is a bus and a host whose records are eight days old, and their driver.
type rig struct {
	*Driver
	bus  *bus.Bus
	host *host.Host
}

func open(t *testing.T, dir string) *rig {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b, err := bus.Open(t.Context(), bus.Options{Dir: dir, Node: "n", Log: log})
	must.OK(t, err)
	h := host.New(host.Options{
		Node: "n", Epoch: b.Opening().Epoch, Journal: b.Journal(), Snapshots: b.Snapshots(), Deciders: fold.AllDeciders,
		Manifest: manifests.New(b.Manifests().Get).Get, Effects: noEffects{}, Log: log,
		Now: func() time.Time { return time.Now().Add(-8 * 24 * time.Hour) },
	})
	b.Journal().OnStored(h.Stored)
	r, err := h.Recover()
	must.OK(t, err)
	h.Start(r, &journaletv1.AgentStarted{
		Epoch: b.Opening().Epoch, Config: &journaletv1.AgentConfig{NodeName: "n", MaxPods: 10},
	})
	keep, err := config.Defaults().Retention()
	must.OK(t, err)
	return &rig{New(Options{Bus: b, Host: h, Keep: keep, Log: log}), b, h}
}

// close bounds the wait for what the run has left to do.
func (r *rig) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	must.OK(t, errors.Join(r.host.Stop(ctx), r.bus.Close(ctx)))
}

func TestRetentionCutsOldRecordsAndTheNextRunKnowsItsState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bus")
	a := open(t, dir)
	referenced, unreferenced := []byte("referenced"), []byte("unreferenced")
	for _, data := range [][]byte{referenced, unreferenced} {
		must.OK(t, a.bus.Manifests().Put(t.Context(), digest(data), data))
	}
	health := &journaletv1.RuntimeHealthChanged{RuntimeReady: true, RuntimeName: "kept " + digest(referenced)}
	a.host.Outcome(messages.Runtime, messages.NewEvent(health))
	// Facts about no existing pod: they only need space.
	lost := wide("p")
	for i := range 60 { // 30 MiB
		a.host.Outcome(messages.Pod("p"), lost)
		if i == 20 {
			must.OK(t, a.bus.Journal().Flush(t.Context()))
			must.OK(t, a.host.Snapshot(t.Context())) // a cut ends behind snapshots
		}
	}
	must.OK(t, a.bus.Journal().Flush(t.Context()))
	must.OK(t, a.cut(t.Context()))
	first := a.bus.Journal().First()
	if first < 10 {
		t.Fatalf("the first record is %d", first)
	}
	if r, err := a.bus.Journal().Verify(t.Context(), nil); err != nil || !r.OK() || !r.Cut || r.First != first {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := a.bus.Manifests().Get(t.Context(), digest(unreferenced)); err != nil {
		t.Fatalf("a manifest that was just stored: %v", err)
	}
	left, err := a.bus.UnreferencedManifests(t.Context())
	if err != nil || len(left) != 1 || left[0] != digest(unreferenced) {
		t.Fatalf("%v, %v", left, err)
	}
	a.close(t)
	a = open(t, dir)
	if o := a.bus.Opening(); o.Damage != nil || !o.Clean || a.bus.Journal().First() != first {
		t.Fatalf("%+v", o)
	}
	must.OK(t, a.host.Inspect(t.Context(), messages.Runtime, func(d actors.Decider) {
		if name := d.(*dispatch.Actor).Runtime().GetHealth().GetRuntimeName(); name != health.GetRuntimeName() {
			t.Errorf("the runtime's name is %q", name)
		}
	}))
	a.close(t)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// wide returns a fact of half a MiB about a pod, which creates no actor.
func wide(uid string) *journaletv1.Event {
	names := slices.Repeat([]string{strings.Repeat("x", 1<<10)}, 512)
	return messages.NewEvent(&journaletv1.VolumesLost{Uid: uid, Names: names})
}
