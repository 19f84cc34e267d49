package agent

import (
	"context"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/source/api"
)

// newAPISource creates the driver of the pods that the scheduler binds to this node.
func (a *agent) newAPISource(c *client.Client, reports *reports, listed func(error)) (*api.Driver, error) {
	watch, err := client.ListWatch(c, client.Pods.With(api.Reduce), "", "spec.nodeName="+a.facts.NodeName)
	if err != nil {
		return nil, err
	}
	d := api.New(api.Options{
		ListWatch: watch, NodeName: a.facts.NodeName, Store: a.bus.Manifests().PutAll, Prime: a.manifests.add,
		Changed: reports.changed, Whole: listed, Refused: reports.updateRefused, Returned: c.Returned,
		Log: a.log,
		Sink: func(ctx context.Context, m *journaletv1.ManifestsRead) error {
			return a.host.Fact(ctx, messages.Source(m.GetSource()), messages.NewEvent(m))
		},
	})
	reports.objects = d.Pods()
	return d, nil
}
