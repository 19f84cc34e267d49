package agent

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"time"

	"github.com/journalet/journalet/actors"
	nodeactor "github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/cluster/node"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/source/api"
)

// cluster is what the agent does as a node of a cluster (ADR 051). It is nil without a kubeconfig: then nothing of it
// exists.
type cluster struct {
	client  *client.Client
	contact *client.Contact
	node    *node.Driver
	boot    string
	pods    *api.Driver
	reports *reports
	clusterObjects
}

// newCluster creates the drivers of cluster mode without running them; nil without a kubeconfig.
func (a *agent) newCluster() (*cluster, error) {
	if !a.cfg.InCluster() {
		return nil, nil
	}
	config, err := client.Load(a.cfg.KubeconfigPath())
	if err != nil {
		return nil, err
	}
	cert, err := client.Certificate(config)
	if err != nil {
		return nil, err
	}
	if cert != nil {
		switch err := client.CheckIdentity(cert, a.facts.NodeName, time.Now()); {
		case errors.Is(err, client.ErrOtherNode):
			return nil, err
		case err != nil:
			// What runs needs no API server: this is no reason not to start.
			a.log.Warn("the API server will refuse this node", "error", err)
		}
	}
	c := &cluster{boot: a.facts.BootID}
	c.contact = client.NewContact(func(ctx context.Context, r *journaletv1.ApiServerContact) error {
		return a.host.Fact(ctx, messages.Agent, messages.NewEvent(r))
	}, time.Now)
	l := &a.cfg.Cluster
	eventQPS := float32(l.EventQPS)
	if eventQPS == 0 {
		eventQPS = -1
	}
	c.client, err = client.New(client.Options{
		Config: config, NodeName: a.facts.NodeName,
		Main:             client.Limits{QPS: float32(l.QPS), Burst: int(l.Burst)},
		Events:           client.Limits{QPS: eventQPS, Burst: int(l.EventBurst)},
		HeartbeatTimeout: min(l.UpdateEvery(), time.Duration(l.LeaseSeconds)*time.Second),
		ContentType:      l.ContentType, Contact: c.contact,
		UserAgent: "journalet/" + Version + " (" + runtime.GOOS + "/" + runtime.GOARCH + ")",
	})
	if err != nil {
		return nil, err
	}
	c.node = a.newClusterNode(c.client)
	c.reports = a.newReports(c.client)
	if c.pods, err = a.newAPISource(c.client, c.reports); err != nil {
		return nil, err
	}
	return c, a.newClusterObjects(c)
}

// Stored passes a stored record to the drivers, in the journal's order.
func (c *cluster) Stored(rec *journaletv1.Record) {
	c.node.Stored(rec)
	c.reports.Stored(rec)
}

// seed gives the drivers the folded state of an actor.
func (c *cluster) seed(r *host.Recovered, ref messages.Ref, d actors.Decider) {
	if d, ok := d.(*nodeactor.Actor); ok {
		c.seedNode(r, ref, d, c.boot)
	}
	c.reports.seed(r, ref, d)
}

// drivers returns what runs, by name.
func (c *cluster) drivers() map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"API server": c.contact.Run, "Node": c.node.Run, "api source": c.pods.Run,
		"services": c.services.Run, "runtime classes": c.classes.Run,
	}
	maps.Copy(all, c.reports.drivers())
	return all
}
