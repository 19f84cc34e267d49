package agent

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/drivers"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/runtime/plugins/devices"
	"github.com/journalet/journalet/runtime/plugins/podresources"
)

// Why plugins of these types are refused.
const (
	noCSI     = "CSI drivers need an API server, which has their volumes; start the agent with --kubeconfig"
	noDevices = "the simulated runtime has no devices"
)

// newDevices creates the driver of device plugins; nil if nothing real runs.
func (a *agent) newDevices() *devices.Driver {
	if simulated(a.cfg) {
		return nil
	}
	return devices.New(devices.Options{
		Dir: filepath.Join(a.absoluteRoot(), devices.Dir), Log: a.log,
		Sink:    func(ctx context.Context, e *journaletv1.Event) error { return a.host.Fact(ctx, messages.Node, e) },
		Outcome: func(e *journaletv1.Event) { a.host.Outcome(messages.Node, e) },
	})
}

// pluginDrivers returns what serves and finds plugins. Where that is not possible, nothing else ends for it.
func (a *agent) pluginDrivers() []drivers.Driver {
	if a.devices == nil && a.cluster == nil {
		return nil
	}
	handlers := map[string]plugins.Handler{
		"DevicePlugin": plugins.Refuse(noDevices), "CSIPlugin": a.csiPlugins(), "DRAPlugin": a.draPlugins(),
	}
	if a.devices != nil {
		handlers["DevicePlugin"] = a.devices.Watched()
	}
	watcher := plugins.New(plugins.Options{
		Dir: filepath.Join(a.absoluteRoot(), plugins.RegistryDir), Log: a.log, Handlers: handlers,
	})
	all := []drivers.Driver{drivers.Only("plugins", a.orWarn("plugins in "+plugins.RegistryDir, watcher.Run))}
	if a.devices != nil {
		resources := podresources.New(podresources.Options{
			Dir: filepath.Join(a.absoluteRoot(), podresources.Dir), Pods: a.podResources, Devices: a.offeredDevices,
			Allocatable: a.nodeAllocatable, Count: a.metrics.PodResources,
		})
		all = append(all, nodeDevices{a.devices, a.orWarn("device plugins", a.devices.Run)},
			drivers.Only("pod resources", a.orWarn("resources of pods", resources.Run)))
	}
	return all
}

// orWarn returns what runs something, and warns where it cannot.
func (a *agent) orWarn(what string, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := run(ctx); err != nil && ctx.Err() == nil {
			a.log.Error(what+" are not served until the next start", "error", err)
		}
		return nil
	}
}

// nodeDevices serves device plugins.
type nodeDevices struct {
	*devices.Driver
	run func(context.Context) error
}

// Name implements drivers.Driver.
func (nodeDevices) Name() string { return "device plugins" }

// Run implements drivers.Runner.
func (d nodeDevices) Run(ctx context.Context) error { return d.run(ctx) }

// offeredDevices returns what device plugins offer.
func (a *agent) offeredDevices(ctx context.Context) (all map[string]*journaletv1.DeviceResource, err error) {
	err = a.host.Inspect(ctx, messages.Node, func(d actors.Decider) {
		if actor, ok := d.(*node.Actor); ok {
			all = proto.CloneOf(&journaletv1.NodeState{Devices: actor.Node().GetDevices()}).GetDevices()
		}
	})
	return all, err
}

// nodeAllocatable returns what containers may get exclusively.
func (a *agent) nodeAllocatable(ctx context.Context) (
	cpus cpuset.CPUSet, memory []*journaletv1.NumaMemory, err error,
) {
	err = a.host.Inspect(ctx, messages.Node, func(d actors.Decider) {
		if actor, ok := d.(*node.Actor); ok {
			cpus, memory = exclusive.NewSettings(actor.Node().GetConfig().GetManagers()).Allocatable()
		}
	})
	return cpus, memory, err
}

// podResources returns the pods that are admitted and have not terminated, with what they have. One whose actor does
// not answer in time is left out.
func (a *agent) podResources(ctx context.Context) ([]podresources.Pod, error) {
	var all []podresources.Pod
	left := podDeadline{requestTimeout}
	for _, ref := range a.host.Refs(journaletv1.ActorKind_ACTOR_KIND_POD) {
		found := make(chan podresources.Pod, 1)
		if err := (apiPods{a}).inspect(ctx, ref, &left, func(actor *pod.Actor) {
			if p, active := resourcesOf(actor); active {
				found <- p
			}
		}); err != nil {
			continue
		}
		select {
		case p := <-found:
			all = append(all, p)
		default:
		}
	}
	slices.SortFunc(all, func(x, y podresources.Pod) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return all, ctx.Err()
}

// resourcesOf returns what the containers of a pod have; active is false unless it is admitted and has not terminated.
func resourcesOf(actor *pod.Actor) (p podresources.Pod, active bool) {
	st, manifest := actor.Pod(), actor.Manifest()
	switch st.GetStage() {
	case journaletv1.PodStage_POD_STAGE_RUNNING, journaletv1.PodStage_POD_STAGE_TERMINATING:
	default:
		return p, false
	}
	if manifest == nil {
		return p, false
	}
	p.Namespace, p.Name = st.GetPod().GetNamespace(), st.GetPod().GetName()
	p.Claims = map[string][]*journaletv1.PodClaim{}
	for c := range containers.All(manifest) {
		for _, claim := range actor.ClaimsOf(c) {
			p.Claims[c.Name] = append(p.Claims[c.Name], proto.CloneOf(claim))
		}
	}
	for i := range manifest.Spec.InitContainers {
		c := &manifest.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			p.Containers = append(p.Containers, c.Name)
		}
	}
	for i := range manifest.Spec.Containers {
		p.Containers = append(p.Containers, manifest.Spec.Containers[i].Name)
	}
	for _, d := range st.GetDevices() {
		p.Devices = append(p.Devices, proto.CloneOf(d.GetDevices()))
	}
	for _, c := range st.GetExclusive() {
		p.Exclusive = append(p.Exclusive, proto.CloneOf(c))
	}
	return p, true
}
