package agent

import (
	"log/slog"
	"testing"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/manifests"
	"github.com/journalet/journalet/test/must"
)

type noEffects struct{}

func (noEffects) Stored(*journaletv1.Record) {}

// openIn returns an agent whose bus is in a directory, with the actors that its journal has and no driver.
func openIn(t *testing.T, dir string) *agent {
	t.Helper()
	a := &agent{cfg: config.Defaults(), facts: &config.NodeFacts{NodeName: "n"}, log: slog.New(slog.DiscardHandler)}
	var err error
	a.bus, err = bus.Open(t.Context(), bus.Options{Dir: dir, Node: "n", Log: a.log})
	must.OK(t, err)
	a.manifests = manifests.New(a.bus.Manifests().Get)
	a.host = host.New(host.Options{
		Node: "n", Epoch: a.bus.Opening().Epoch, Journal: a.bus.Journal(), Snapshots: a.bus.Snapshots(),
		Deciders: fold.AllDeciders, Manifest: a.manifests.Get, Effects: noEffects{}, Log: a.log, Now: time.Now,
	})
	a.bus.Journal().OnStored(a.host.Stored)
	r, err := a.host.Recover()
	must.OK(t, err)
	a.host.Start(r, &journaletv1.AgentStarted{
		Epoch: a.bus.Opening().Epoch, Config: &journaletv1.AgentConfig{NodeName: "n", MaxPods: 10},
	})
	return a
}
