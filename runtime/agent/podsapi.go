package agent

import (
	"context"
	"errors"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/podsapi"
	"github.com/journalet/journalet/runtime/host"
)

// newPodsAPI creates the server of pods for agents of the node; nil if the configuration turns it off.
func (a *agent) newPodsAPI() *podsAPI {
	if a.cfg.NoPodsAPI {
		return nil
	}
	s := podsapi.New(podsapi.Options{
		Dir:  filepath.Join(a.absoluteRoot(), podsapi.Dir),
		Pods: apiPods{a}.Pods, Pod: a.podNow, UIDs: a.podUIDs, Synced: a.allSynced,
		Requested: a.metrics.PodsRequested, Dropped: a.metrics.PodEventDropped,
	})
	return &podsAPI{s, a.orWarn("pods in "+podsapi.Dir, s.Run)}
}

// podsAPI serves pods to agents of the node.
type podsAPI struct {
	*podsapi.Server
	run func(context.Context) error
}

// Run implements drivers.Runner.
func (s *podsAPI) Run(ctx context.Context) error { return s.run(ctx) }

// podNow returns the pod with a UID as it is after all stored records, nil if the node has no such pod.
func (a *agent) podNow(ctx context.Context, uid string) (*corev1.Pod, error) {
	on := a.nodeView()
	view := make(chan podOf, 1)
	err := a.host.InspectCurrent(ctx, messages.Pod(uid), func(d actors.Decider) {
		if actor, ok := d.(*pod.Actor); ok && served(actor.Pod()) {
			view <- podOf{actor.View(on), actor.Pod().GetPod().GetDigest()}
		}
	})
	if err != nil && !errors.Is(err, host.ErrNoActor) {
		return nil, err
	}
	select {
	case v := <-view:
		a.manifests.Whole(ctx, v.digest, v.Pod)
		return v.Pod, nil
	default:
		return nil, nil
	}
}

// allSynced reports whether all configured sources are synced.
func (a *agent) allSynced(ctx context.Context) bool {
	return a.nodeSays(ctx, func(on *node.Actor) bool { return on.AllSynced() })
}

// orphanName reports whether a pod of this name that no source names is an orphan.
func (a *agent) orphanName(ctx context.Context, name types.NamespacedName) bool {
	return a.nodeSays(ctx, func(on *node.Actor) bool { return on.AllSynced() && !on.KeptOut(name.String()) })
}

// nodeSays returns what holds of the state of the node; false if it cannot be read in time.
func (a *agent) nodeSays(ctx context.Context, holds func(*node.Actor) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	said := make(chan bool, 1)
	err := a.host.Inspect(ctx, messages.Node, func(d actors.Decider) { said <- holds(d.(*node.Actor)) })
	return err == nil && <-said
}
