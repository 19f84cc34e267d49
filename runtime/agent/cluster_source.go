package agent

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/source/api"
)

// storeTimeout bounds how long a pod that arrives waits for the disk.
const storeTimeout = 10 * time.Second

// newAPISource creates the driver of the pods that the scheduler binds to this node.
func (a *agent) newAPISource(c *client.Client, reports *reports, listed func(error)) (*api.Driver, error) {
	var d *api.Driver
	reduce := func(pod *corev1.Pod) {
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		d.Reduce(ctx, pod)
	}
	watch, err := client.ListWatch(c, client.Pods.With(reduce), "", "spec.nodeName="+a.facts.NodeName)
	if err != nil {
		return nil, err
	}
	d = api.New(api.Options{
		ListWatch: watch, NodeName: a.facts.NodeName, Store: a.bus.Manifests().PutAll, Prime: a.manifests.Add,
		Newest:  a.manifests.Newest,
		Changed: reports.changed, Whole: listed, Refused: reports.updateRefused, Returned: c.Returned,
		Log: a.log,
		Sink: func(ctx context.Context, m *journaletv1.ManifestsRead) error {
			return a.host.Fact(ctx, messages.Source(m.GetSource()), messages.NewEvent(m))
		},
	})
	reports.objects = d.Pods()
	return d, nil
}
