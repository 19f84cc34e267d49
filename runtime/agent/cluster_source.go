package agent

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/source/api"
)

// storeTimeout bounds how long a pod that arrives waits for the disk.
const storeTimeout = 10 * time.Second

// newAPISource creates the driver of the pods that the scheduler binds to this node. It sets what it reads and where it
// puts that; the other options are the caller's.
func (a *agent) newAPISource(c *client.Client, in intake, o api.Options) (*api.Driver, error) {
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
	o.ListWatch, o.NodeName, o.Returned, o.Log = watch, a.facts.NodeName, c.Returned, a.log
	o.Store, o.Prime, o.Sink = in.store, in.prime, in.sink
	d = api.New(o)
	return d, nil
}
