package agent

import (
	"context"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/dra"
	"github.com/journalet/journalet/runtime/plugins"
)

// noDRA is why DRA drivers are refused.
const noDRA = "DRA drivers need an API server, which has their claims; start the agent with --kubeconfig"

// newClaims creates what has DRA drivers prepare claims, and follows them.
func (a *agent) newClaims(c *cluster) {
	c.health = dra.NewHealth(dra.HealthOptions{
		Sink: func(ctx context.Context, pod string, e *journaletv1.Event) error {
			return a.host.Fact(ctx, messages.Pod(pod), e)
		},
		Log: a.log,
	})
	c.slices = dra.NewSlices(dra.SlicesOptions{
		Store: dra.SlicesOf(c.client, a.facts.NodeName), Connected: func(name string) bool { return c.dra.Connected(name) },
		Log: a.log,
	})
	c.dra = dra.NewDrivers(dra.DriverOptions{NewConn: plugins.NewConn, Health: c.health, Slices: c.slices, Log: a.log})
	c.claims = dra.New(dra.Options{BootID: a.facts.BootID, Drivers: c.dra, Objects: dra.FromAPI(c.client)})
}

// draPlugins returns what uses DRA drivers.
func (a *agent) draPlugins() plugins.Handler {
	if a.cluster == nil {
		return plugins.Refuse(noDRA)
	}
	return draPlugins{a.cluster.dra}
}

// draPlugins registers DRA drivers that the watcher of plugins finds. It implements plugins.Handler.
type draPlugins struct{ drivers *dra.Drivers }

// Validate returns why a driver cannot be used.
func (p draPlugins) Validate(x plugins.Plugin) error { return p.drivers.Validate(x.Name, x.Versions) }

// Register begins to use a driver.
func (p draPlugins) Register(_ context.Context, x plugins.Plugin) error {
	return p.drivers.Register(x.Name, x.Endpoint, x.Versions)
}

// Deregister ends the use of a driver.
func (p draPlugins) Deregister(x plugins.Plugin) { p.drivers.Deregister(x.Name, x.Endpoint) }
