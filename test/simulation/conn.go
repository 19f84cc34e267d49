package simulation

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
)

const (
	// agentID is the agent mark on the objects of the runtime.
	agentID     = "agent"
	runtimeName = "world"
)

// criConn is a gRPC connection to the world's container runtime. A request runs on its caller's coroutine.
type criConn struct{ run *run }

// NewStream implements grpc.ClientConnInterface. watcher.event models the event stream instead.
func (criConn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}

// Invoke implements grpc.ClientConnInterface.
func (c criConn) Invoke(ctx context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	switch req := request.(type) {
	case *runtimeapi.StopContainerRequest:
		return c.run.stopContainer(ctx, req.GetContainerId(), time.Duration(req.GetTimeout())*time.Second)
	case *runtimeapi.ExecSyncRequest:
		return c.run.execute(ctx, c.run.world.container(req.GetContainerId()), c.run.performer.current().req.GetRunHook())
	}
	took, do := c.run.world.reads(request, reply)
	if do == nil {
		took, do = c.run.changes(request, reply)
	}
	if do == nil {
		return status.Error(codes.Unimplemented, method)
	}
	err := c.run.rpc(ctx, took, do)
	if _, updates := request.(*runtimeapi.UpdateContainerResourcesRequest); updates && err != nil {
		c.run.judge.exclusive.failedAt = c.run.clock.uptime
	}
	return err
}

// reads returns how long a request takes that changes nothing, and the function that fills its reply; nil for another
// request.
func (w *world) reads(request, reply any) (took time.Duration, do func(gone bool) error) {
	switch req := request.(type) {
	case *runtimeapi.ListPodSandboxRequest:
		return tookList(req.GetFilter() == nil), func(bool) error {
			out := reply.(*runtimeapi.ListPodSandboxResponse)
			for _, o := range w.selected(req.GetFilter().GetLabelSelector()) {
				for _, x := range o.sandboxes {
					out.Items = append(out.Items, x.listed())
				}
			}
			return nil
		}
	case *runtimeapi.ListContainersRequest:
		f := req.GetFilter()
		return tookList(f == nil), func(bool) error {
			out := reply.(*runtimeapi.ListContainersResponse)
			for _, o := range w.selected(f.GetLabelSelector()) {
				for _, x := range o.containers {
					if (f.GetId() == "" || f.GetId() == x.id) && (f.GetPodSandboxId() == "" || f.GetPodSandboxId() == x.sandbox) &&
						w.named(x, f.GetLabelSelector()) {
						out.Containers = append(out.Containers, x.listed())
					}
				}
			}
			return nil
		}
	case *runtimeapi.PodSandboxStatusRequest:
		return tookRead, func(bool) error {
			x := w.sandbox(req.GetPodSandboxId())
			if x == nil {
				return errNotFound
			}
			reply.(*runtimeapi.PodSandboxStatusResponse).Status = x.status()
			return nil
		}
	case *runtimeapi.ContainerStatusRequest:
		return tookRead, w.withContainer(req.GetContainerId(), func(c *container) error {
			reply.(*runtimeapi.ContainerStatusResponse).Status = c.status()
			return nil
		})
	case *runtimeapi.ContainerStatsRequest:
		return tookRead, w.withContainer(req.GetContainerId(), func(c *container) error {
			used := uint64(0)
			if c.alive() {
				used = uint64(c.does.uses)
			}
			reply.(*runtimeapi.ContainerStatsResponse).Stats = &runtimeapi.ContainerStats{
				Memory: &runtimeapi.MemoryUsage{UsageBytes: &runtimeapi.UInt64Value{Value: used}},
			}
			return nil
		})
	case *runtimeapi.StatusRequest:
		return tookRead, func(bool) error {
			out := reply.(*runtimeapi.StatusResponse)
			for _, name := range []string{"", runtimeHandler} {
				out.RuntimeHandlers = append(out.RuntimeHandlers, &runtimeapi.RuntimeHandler{
					Name: name, Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}})
			}
			out.Status = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
				{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: w.networkReady},
			}}
			return nil
		}
	case *runtimeapi.VersionRequest:
		return tookRead, func(bool) error {
			reply.(*runtimeapi.VersionResponse).RuntimeName = runtimeName
			return nil
		}
	}
	return w.imageReads(request, reply)
}

// withContainer does something with a container, by its id.
func (w *world) withContainer(id string, do func(*container) error) func(bool) error {
	return func(bool) error {
		if c := w.container(id); c != nil {
			return do(c)
		}
		return errNotFound
	}
}

// changes returns how long a request takes that changes something, and the function that does it; nil for another
// request.
func (r *run) changes(request, reply any) (took time.Duration, do func(gone bool) error) {
	w, c := r.world, r.performer.current()
	unlessMishap := func(do func()) func(bool) error {
		return func(bool) error {
			if w.mishap() {
				return failedCall("device or resource busy")
			}
			do()
			return nil
		}
	}
	switch req := request.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		return tookSandbox, func(gone bool) error {
			return r.runSandbox(req.GetConfig(), reply.(*runtimeapi.RunPodSandboxResponse), c, gone)
		}
	case *runtimeapi.CreateContainerRequest:
		r.at(c, onceUnderWay)
		m, spec := r.specOf(c.req.GetStartContainer())
		return tookContainer, func(gone bool) (err error) {
			if w.mishap() {
				return failedCall("failed to prepare the container's snapshot")
			}
			reply.(*runtimeapi.CreateContainerResponse).ContainerId, err = w.createContainer(req.GetConfig(),
				req.GetPodSandboxId(), req.GetSandboxConfig().GetLogDirectory(), c, m, spec, gone)
			r.at(c, onceDone)
			return err
		}
	case *runtimeapi.StartContainerRequest:
		r.at(c, onceUnderWay)
		return tookContainer, func(gone bool) error {
			err := w.startContainer(req.GetContainerId(), gone)
			r.at(c, onceDone)
			return err
		}
	case *runtimeapi.RemoveImageRequest:
		return tookRemoval, unlessMishap(func() { w.removeImage(req.GetImage().GetImage(), c.began) })
	case *runtimeapi.RemoveContainerRequest:
		return tookRemoval, unlessMishap(func() { w.removeContainer(req.GetContainerId(), "RemoveContainer") })
	case *runtimeapi.StopPodSandboxRequest:
		return tookContainer, unlessMishap(func() { w.stopSandbox(req.GetPodSandboxId(), "StopPodSandbox") })
	case *runtimeapi.RemovePodSandboxRequest:
		return tookRemoval, unlessMishap(func() { w.removeSandbox(req.GetPodSandboxId()) })
	case *runtimeapi.UpdatePodSandboxResourcesRequest:
		return tookRead, unlessMishap(func() { w.setSize(req.GetPodSandboxId(), req.GetResources()) })
	case *runtimeapi.UpdateContainerResourcesRequest:
		by, to := c, c.req.GetUpdateContainer().GetResources()
		return tookContainer, func(gone bool) error {
			c := w.container(req.GetContainerId())
			switch {
			case c == nil:
				return errNotFound
			case c.state != running && c.state != created:
				return failedCall("container is in state " + c.state.String())
			case w.mishap():
				return failedCall("runc update: device or resource busy")
			}
			c.placedLate = gone
			m, spec := r.specOf(by.req.GetUpdateContainer())
			w.judge.placed(c, m, spec, req.GetLinux(), to == nil)
			if to != nil {
				w.judge.resourcesApplied(c, to)
				c.has = proto.CloneOf(to)
			}
			return nil
		}
	}
	return 0, nil
}

// runSandbox is RunPodSandbox, requested by a call.
func (r *run) runSandbox(
	config *runtimeapi.PodSandboxConfig, reply *runtimeapi.RunPodSandboxResponse, c *call, gone bool,
) (err error) {
	if r.world.mishap() {
		return failedCall("failed to set up the sandbox's network")
	}
	m, host := config.GetMetadata(),
		config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	reply.PodSandboxId, err = r.world.runSandbox(m, c.intent, host, gone, c.listed)
	r.world.setSize(reply.PodSandboxId, config.GetLinux().GetResources())
	if x := r.world.sandbox(reply.PodSandboxId); x != nil {
		r.judge.idsOfSandbox(x, r.manifests.byDigest[c.req.GetRunSandbox().GetDigest()],
			config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions())
	}
	return err
}

// stopContainer is StopContainer: SIGTERM, the grace period, SIGKILL. If the client goes away, the runtime may omit
// the kill.
func (r *run) stopContainer(ctx context.Context, id string, grace time.Duration) error {
	w, p := r.world, r.clock.current
	waiting := true
	defer func() { waiting = false }()
	began, runtimeRun := w.clock.uptime, w.run
	var x *container
	if err := r.rpc(ctx, tookContainer, w.withContainer(id, func(c *container) error {
		if w.mishap() {
			return failedCall("ttrpc: closed")
		}
		x = c
		w.term(x)
		x.kill = w.clock.after(nil, grace, func() {
			if x.alive() && w.run == runtimeRun && (waiting && !p.owner.over || chance(w.noise, 2)) {
				w.judge.killed(x, began, "StopContainer")
				w.exit(x, 137, "Error")
			}
		})
		return nil
	})); err != nil {
		return err
	}
	return r.waitForEnd(ctx, x, began+timeoutOf(ctx))
}

// waitForEnd waits until a container has ended, the runtime has died, ctx has ended, or an uptime is reached.
func (r *run) waitForEnd(ctx context.Context, x *container, end time.Duration) error {
	w, p, runtimeRun := r.world, r.clock.current, r.world.run
	r.waits[p] = ctx
	defer delete(r.waits, p)
	for x != nil && x.alive() {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case w.run != runtimeRun:
			return errAway
		case w.clock.uptime >= end:
			return errLate
		}
		x.stoppers = append(x.stoppers, p)
		p.sleep(end - w.clock.uptime)
	}
	return nil
}

// execute runs an exec or HTTP hook in a container.
func (r *run) execute(ctx context.Context, x *container, k *journaletv1.RunHook) error {
	if x == nil || !x.alive() {
		return errNotFound
	}
	took, ok := x.hook(k.GetKind())
	if err := r.waitForEnd(ctx, x, r.clock.uptime+took); status.Code(err) != codes.DeadlineExceeded {
		return cmp.Or(err, failedCall("the container has ended"))
	}
	if !ok {
		return failedCall("the hook failed")
	}
	return nil
}

func tookList(all bool) time.Duration {
	if all {
		return 4 * tookRead
	}
	return tookRead
}

// selected returns the objects of the pod whose UID a label selector names, or of all pods.
func (w *world) selected(labels map[string]string) []*objects {
	if uid, one := labels[cri.LabelPodUID]; one {
		return []*objects{w.objectsOf(uid)}
	}
	return w.objects
}

// named reports whether a container is of a pod with the name that a label selector has, if it has one.
func (w *world) named(c *container, labels map[string]string) bool {
	name := labels[cri.LabelPodName]
	x := w.sandbox(c.sandbox)
	return name == "" || x != nil && x.pod.Name == name && x.pod.Namespace == labels[cri.LabelPodNamespace]
}

func (x *sandbox) listed() *runtimeapi.PodSandbox {
	return &runtimeapi.PodSandbox{
		Id: x.id, State: x.state(), CreatedAt: x.created.UnixNano(),
		Metadata: &runtimeapi.PodSandboxMetadata{
			Uid: x.uid, Attempt: x.attempt, Namespace: x.pod.Namespace, Name: x.pod.Name,
		},
		Labels: map[string]string{
			cri.LabelPodUID: x.uid, cri.LabelPodNamespace: x.pod.Namespace, cri.LabelPodName: x.pod.Name,
		},
		Annotations: marks(x.intent, x.ofKubelet),
	}
}

// marks returns the annotations that identify an object: an object of a kubelet has no annotations of an agent.
func marks(intent string, ofKubelet bool) map[string]string {
	if ofKubelet {
		return map[string]string{}
	}
	return map[string]string{cri.AnnotationAgent: agentID, cri.AnnotationIntent: intent}
}

func (x *sandbox) state() runtimeapi.PodSandboxState {
	if x.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

func (x *sandbox) status() *runtimeapi.PodSandboxStatus {
	network, mode := &runtimeapi.PodSandboxNetworkStatus{}, runtimeapi.NamespaceMode_POD
	if x.hostNetwork {
		mode = runtimeapi.NamespaceMode_NODE
	}
	if len(x.ips) > 0 {
		network.Ip = x.ips[0]
	}
	options := &runtimeapi.NamespaceOption{Network: mode}
	if x.ids != nil {
		m := []*runtimeapi.IDMapping{{HostId: x.ids.GetHostId(), Length: x.ids.GetLength()}}
		options.UsernsOptions = &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: m, Gids: m}
	}
	return &runtimeapi.PodSandboxStatus{
		Id: x.id, State: x.state(), Network: network,
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: options}},
	}
}

var criStates = map[journaletv1.ContainerState]runtimeapi.ContainerState{
	created: runtimeapi.ContainerState_CONTAINER_CREATED, running: runtimeapi.ContainerState_CONTAINER_RUNNING,
	exited: runtimeapi.ContainerState_CONTAINER_EXITED, unknown: runtimeapi.ContainerState_CONTAINER_UNKNOWN,
}

func (c *container) listed() *runtimeapi.Container {
	annotations := marks(c.intent, c.ofKubelet)
	annotations[cri.AnnotationHash] = c.hash
	return &runtimeapi.Container{
		Id: c.id, PodSandboxId: c.sandbox, Metadata: &runtimeapi.ContainerMetadata{Name: c.name, Attempt: c.attempt},
		State: criStates[c.state],
		Image: &runtimeapi.ImageSpec{Image: c.image}, ImageRef: "sha256:" + c.image, CreatedAt: c.created.UnixNano(),
		Labels:      map[string]string{cri.LabelPodUID: c.uid},
		Annotations: annotations,
	}
}

func (c *container) status() *runtimeapi.ContainerStatus {
	out := &runtimeapi.ContainerStatus{
		Id: c.id, State: criStates[c.state], ExitCode: c.code, Reason: c.reason, Message: c.refusal,
		Resources: &runtimeapi.ContainerResources{Linux: c.shown()},
		Metadata:  &runtimeapi.ContainerMetadata{Name: c.name, Attempt: c.attempt},
		Labels:    map[string]string{cri.LabelPodUID: c.uid, cri.LabelContainerName: c.name},
		LogPath:   c.log,
	}
	c.showMessage(out)
	if !c.started.IsZero() {
		out.StartedAt = c.started.UnixNano()
	}
	if !c.finished.IsZero() {
		out.FinishedAt = c.finished.UnixNano()
	}
	return out
}

// showMessage adds by what a client finds the termination message of a container: two annotations and a mount.
func (c *container) showMessage(out *runtimeapi.ContainerStatus) {
	notes := c.config.GetAnnotations()
	path := notes[cri.AnnotationTerminationMessagePath]
	out.Annotations = map[string]string{
		cri.AnnotationTerminationMessagePath:   path,
		cri.AnnotationTerminationMessagePolicy: notes[cri.AnnotationTerminationMessagePolicy],
	}
	for _, m := range c.config.GetMounts() {
		if m.GetContainerPath() == path {
			out.Mounts = append(out.Mounts, m)
		}
	}
}

// shown returns what a runtime shows for the resources of a container.
func (c *container) shown() *runtimeapi.LinuxContainerResources {
	out := linuxResources(c.has)
	if c.unlimitedCPU {
		out.CpuQuota = -1
	}
	out.CpusetCpus, out.CpusetMems = c.cpus.String(), c.memoryNodes.String()
	return out
}

// cfsPeriod is the kernel's default, in microseconds; leastCPULimit is the least CPU limit of a cgroup, in millicores.
const (
	cfsPeriod     = 100_000
	leastCPULimit = 10
)

// linuxResources returns what a runtime shows for resources: CPU shares, a quota, a memory limit, and no memory
// request.
func linuxResources(r *journaletv1.Resources) *runtimeapi.LinuxContainerResources {
	out := &runtimeapi.LinuxContainerResources{
		CpuShares: max(r.GetCpuRequestMillis()*1024/1000, 2), CpuPeriod: cfsPeriod,
		MemoryLimitInBytes: r.GetMemoryLimitBytes(),
	}
	if limit := r.GetCpuLimitMillis(); limit > 0 {
		out.CpuQuota = max(limit, leastCPULimit) * cfsPeriod / 1000
	}
	return out
}

// shownResources returns what the agent reads of a container that has r.
func shownResources(r *journaletv1.Resources) *journaletv1.Resources {
	return cri.ReportedResources(linuxResources(r))
}
