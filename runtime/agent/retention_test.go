package agent

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

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/test/must"
)

type noEffects struct{}

func (noEffects) Stored(*journaletv1.Record) {}

// openForRetention opens a bus and a host whose records are eight days old.
func openForRetention(t *testing.T, dir string) *agent {
	t.Helper()
	a := &agent{cfg: config.Defaults(), facts: &config.NodeFacts{NodeName: "n"}, log: slog.New(slog.DiscardHandler)}
	var err error
	if a.bus, err = bus.Open(t.Context(), bus.Options{Dir: dir, Node: "n", Log: a.log}); err != nil {
		t.Fatal(err)
	}
	a.manifests = newManifestCache(a.bus.Manifests().Get)
	a.host = host.New(host.Options{
		Node: "n", Epoch: a.bus.Opening().Epoch, Journal: a.bus.Journal(), Snapshots: a.bus.Snapshots(),
		Deciders: fold.AllDeciders,
		Manifest: a.manifests.get, Effects: noEffects{}, Log: a.log,
		Now: func() time.Time { return time.Now().Add(-8 * 24 * time.Hour) },
	})
	a.bus.Journal().OnStored(a.host.Stored)
	r, err := a.host.Recover()
	must.OK(t, err)
	a.host.Start(r, &journaletv1.AgentStarted{
		Epoch: a.bus.Opening().Epoch, Config: &journaletv1.AgentConfig{NodeName: "n", MaxPods: 10},
	})
	return a
}

func TestRetentionCutsOldRecordsAndTheNextRunKnowsItsState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bus")
	a := openForRetention(t, dir)
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
	keep, err := a.cfg.Retention()
	must.OK(t, err)
	must.OK(t, a.cut(t.Context(), keep))
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
	must.OK(t, a.host.Stop(t.Context()))
	must.OK(t, a.bus.Close(t.Context()))
	a = openForRetention(t, dir)
	if o := a.bus.Opening(); o.Damage != nil || !o.Clean || a.bus.Journal().First() != first {
		t.Fatalf("%+v", o)
	}
	if name := a.nodeView().RuntimeName; name != health.GetRuntimeName() {
		t.Fatalf("the runtime's name is %q", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	must.OK(t, errors.Join(a.host.Stop(ctx), a.bus.Close(ctx)))
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
