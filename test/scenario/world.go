package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// world is a container runtime that carries out every call at once. It also records what must never happen on a node,
// whatever the agent's state is.
type world struct {
	pods map[string]*objects
	// observed is the last recorded observation of each pod.
	observed map[string]*journaletv1.PodObserved
	// expected are the pods whose next observation is recorded whatever it shows, as by pleg.Expect.
	expected map[string]bool
	// stamped is the newest stamp of this run of the agent.
	stamped time.Time
	// created counts objects by id: a runtime uses no id twice.
	created map[string]int
	// store holds the contents of objects, by kind and name.
	store map[string]string
	// plugins are what the device plugins offer, by resource.
	plugins map[string]*journaletv1.DevicesObserved
	// boot is the boot of the machine.
	boot string
	// cpuQuota is how limits of CPU are enforced.
	cpuQuota *journaletv1.CpuQuota
	// violations are broken rules, such as two instances of a container at once.
	violations []string
}

// objects are one pod's objects in the runtime.
type objects struct {
	// namespace and name are the pod's, as its newest sandbox has them.
	namespace, name string
	sandboxes       []*journaletv1.SandboxObservation
	containers      []*journaletv1.ContainerObservation
	// starts counts the starts of each container, by name and hash.
	starts map[string]int
	// requested counts the restarts that an operator requested, by container; "" is the whole pod.
	requested map[string]int
	// inits are the instances of init containers, by id, whose program ends by itself. Later manifests do not change it.
	inits map[string]bool
	// started are the containers that were ever started, by sandbox and name; succeeded are the containers that exited
	// with 0.
	started, succeeded map[string]bool
	// startingBefore are, with the same keys, the starts under way that an earlier manifest led to.
	startingBefore map[string]bool
	// createdFor are the manifests of containers that one call creates and another starts, by container id.
	createdFor map[string]string
	// ran are the containers of createdFor that were started, by id, whether they still exist or not.
	ran map[string]bool
	// resources are the applied resources of containers and, as a whole, of the pod's sandboxes, by id.
	resources map[string]*journaletv1.Resources
	// cpus are the CPUs that containers run on, by id; empty: all.
	cpus map[string]string
	// stopped are the sandboxes, by id, that a call stopped: only these have freed their address and host ports.
	stopped map[string]bool
	// volumes are the volumes that are set up, with what they hold, by name.
	volumes map[string]string
	// devices are the devices of containers, by container id.
	devices map[string][]string
	// claims are the claims that a driver has prepared, by UID, with the boot that they were prepared in.
	claims map[string]string
}

func newObjects() *objects {
	return &objects{
		starts: map[string]int{}, inits: map[string]bool{}, started: map[string]bool{}, succeeded: map[string]bool{},
		startingBefore: map[string]bool{}, stopped: map[string]bool{}, resources: map[string]*journaletv1.Resources{},
		cpus:       map[string]string{},
		createdFor: map[string]string{}, ran: map[string]bool{}, volumes: map[string]string{},
		requested: map[string]int{}, devices: map[string][]string{}, claims: map[string]string{},
	}
}

func newWorld() *world {
	return &world{
		pods: map[string]*objects{}, observed: map[string]*journaletv1.PodObserved{},
		expected: map[string]bool{}, created: map[string]int{}, store: map[string]string{},
		plugins: map[string]*journaletv1.DevicesObserved{},
	}
}

func (w *world) clone() *world {
	c := newWorld()
	for uid, o := range w.pods {
		n := &objects{
			namespace: o.namespace, name: o.name,
			starts: maps.Clone(o.starts), inits: maps.Clone(o.inits), started: maps.Clone(o.started),
			succeeded: maps.Clone(o.succeeded), startingBefore: map[string]bool{}, stopped: maps.Clone(o.stopped),
			resources: maps.Clone(o.resources), cpus: maps.Clone(o.cpus),
			createdFor: maps.Clone(o.createdFor), ran: maps.Clone(o.ran),
			volumes: maps.Clone(o.volumes), requested: maps.Clone(o.requested), devices: maps.Clone(o.devices),
			claims: maps.Clone(o.claims),
		}
		for _, x := range o.sandboxes {
			n.sandboxes = append(n.sandboxes, proto.CloneOf(x))
		}
		for _, x := range o.containers {
			n.containers = append(n.containers, proto.CloneOf(x))
		}
		c.pods[uid] = n
	}
	maps.Copy(c.observed, w.observed)
	maps.Copy(c.expected, w.expected)
	maps.Copy(c.created, w.created)
	maps.Copy(c.store, w.store)
	maps.Copy(c.plugins, w.plugins)
	c.stamped, c.boot, c.cpuQuota = w.stamped, w.boot, w.cpuQuota
	return c
}

func (w *world) objectsOf(uid string) *objects {
	if w.pods[uid] == nil {
		w.pods[uid] = newObjects()
	}
	return w.pods[uid]
}

// id returns an id for a new object.
func (w *world) id(format string, args ...any) string {
	id := fmt.Sprintf(format, args...)
	w.created[id]++
	if n := w.created[id]; n > 1 {
		return fmt.Sprintf("%s~%d", id, n)
	}
	return id
}

func (w *world) violation(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// perform carries out a call and returns its outcome. A repeated call finds what it did before.
func (w *world) perform(
	alias, id string, req *journaletv1.CallRequested, manifest *corev1.Pod, now time.Time,
) *journaletv1.CallFinished {
	out := &journaletv1.CallFinished{IntentId: id}
	o := w.objectsOf(req.GetPodUid())
	switch k := req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		w.checkClaims(o, alias, manifest, nil)
		w.runSandbox(o, alias, id, k.RunSandbox, manifest, out, now)
	case *journaletv1.CallRequested_StartContainer:
		w.startContainer(o, alias, id, k.StartContainer, manifest, out, now)
	case *journaletv1.CallRequested_StopContainer:
		o.end(k.StopContainer.GetContainerId(), 137, now)
		if o.index(k.StopContainer.GetContainerId()) < 0 {
			// The container has vanished, and its hash with it.
			maps.DeleteFunc(o.starts, func(key string, _ int) bool {
				return strings.HasPrefix(key, k.StopContainer.GetContainer()+" ")
			})
		}
		for _, c := range o.containers {
			if c.GetId() == k.StopContainer.GetContainerId() {
				// The agent stopped it to replace it: it may run again.
				delete(o.starts, c.GetName()+" "+c.GetHash())
			}
		}
	case *journaletv1.CallRequested_RemoveContainer:
		o.containers = slices.DeleteFunc(o.containers, func(c *journaletv1.ContainerObservation) bool {
			return c.GetId() == k.RemoveContainer.GetContainerId()
		})
	case *journaletv1.CallRequested_UpdateContainer:
		w.updateContainer(o, alias, k.UpdateContainer, out)
	case *journaletv1.CallRequested_UpdateSandbox:
		o.resources[k.UpdateSandbox.GetSandboxId()] = k.UpdateSandbox.GetResources()
	case *journaletv1.CallRequested_StopSandbox:
		o.stopSandbox(k.StopSandbox.GetSandboxId(), now)
		o.stopped[k.StopSandbox.GetSandboxId()] = true
	case *journaletv1.CallRequested_RemoveSandbox:
		sid := k.RemoveSandbox.GetSandboxId()
		o.sandboxes = slices.DeleteFunc(o.sandboxes, func(x *journaletv1.SandboxObservation) bool { return x.GetId() == sid })
		o.containers = slices.DeleteFunc(o.containers, func(c *journaletv1.ContainerObservation) bool {
			return c.GetSandboxId() == sid
		})
	case *journaletv1.CallRequested_SetUpVolumes:
		w.setUpVolumes(o, alias, k.SetUpVolumes, manifest, out)
	case *journaletv1.CallRequested_CleanPod:
		w.checkNoClaim(o, alias)
		o.cleanPod(k.CleanPod)
	case *journaletv1.CallRequested_ReadClaims:
		readClaims(manifest, out)
	case *journaletv1.CallRequested_PrepareClaims:
		w.prepareClaims(o, k.PrepareClaims.GetClaims(), out)
	case *journaletv1.CallRequested_UnprepareClaims:
		w.unprepareClaims(o, alias, k.UnprepareClaims.GetClaims(), out)
	case *journaletv1.CallRequested_AllocateDevices:
		w.allocate(k.AllocateDevices, out)
	case *journaletv1.CallRequested_RunHook:
		if !slices.ContainsFunc(o.containers, func(c *journaletv1.ContainerObservation) bool {
			return c.GetId() == k.RunHook.GetContainerId() && alive(c)
		}) {
			out.Error, out.Message = journaletv1.CallError_CALL_ERROR_NOT_DONE, "the container has ended"
		}
	case *journaletv1.CallRequested_PullImage:
		out.ImageRef, out.ImageBytes = "sha256:"+k.PullImage.GetImage(), 1
	}
	return out
}

func (w *world) runSandbox(
	o *objects, alias, id string, k *journaletv1.RunSandbox, manifest *corev1.Pod, out *journaletv1.CallFinished,
	now time.Time,
) {
	for _, x := range o.sandboxes {
		if x.GetIntentId() == id {
			out.SandboxId = x.GetId()
			if x.GetState() != journaletv1.SandboxState_SANDBOX_STATE_READY {
				out.Error = journaletv1.CallError_CALL_ERROR_SANDBOX_GONE
				out.Message = "sandbox " + x.GetId() + " was canceled while the runtime created it, or has died since"
			}
			return
		}
		if x.GetAttempt() >= k.GetAttempt() {
			// The driver inspects before it creates a sandbox: a lost journal knew of this one.
			out.Error = journaletv1.CallError_CALL_ERROR_RUNTIME
			out.Message = fmt.Sprintf("sandbox %s holds attempt %d", x.GetId(), x.GetAttempt())
			return
		}
		if x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY {
			w.violation("%s: a second sandbox beside a ready one", alias)
		} else if !o.stopped[x.GetId()] {
			w.violation("%s: a second sandbox beside a dead one that was not stopped", alias)
		}
	}
	if holder := w.nameHolder(o, manifest); holder != "" {
		// The driver looks for containers of the pods that it found, too.
		out.Error, out.NameHolderUid = journaletv1.CallError_CALL_ERROR_NAME_TAKEN, holder
		out.Message = "a container of an earlier pod with this name still runs"
		return
	}
	out.SandboxId, o.namespace, o.name = w.id("%s-s%d", alias, k.GetAttempt()), manifest.Namespace, manifest.Name
	x := &journaletv1.SandboxObservation{
		Id: out.SandboxId, Attempt: k.GetAttempt(), State: journaletv1.SandboxState_SANDBOX_STATE_READY,
		CreatedAt: timestamppb.New(now), IntentId: id, Network: journaletv1.NetworkMode_NETWORK_MODE_NODE,
	}
	if !k.GetHostNetwork() {
		x.Network = journaletv1.NetworkMode_NETWORK_MODE_POD
		x.Ips = []string{fmt.Sprintf("10.0.0.%d", k.GetAttempt()+1)}
	}
	o.sandboxes = append(o.sandboxes, x)
	o.resources[x.GetId()] = resources.OfPod(manifest)
}

// nameHolder returns the UID of another pod that has the name of a static pod, and of which a container runs; "" if
// there is no such pod.
func (w *world) nameHolder(own *objects, m *corev1.Pod) string {
	if !manifest.IsStatic(m) {
		return ""
	}
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		o := w.pods[uid]
		if o != own && o.namespace == m.Namespace && o.name == m.Name && slices.ContainsFunc(o.containers, alive) {
			return uid
		}
	}
	return ""
}

func (w *world) startContainer(
	o *objects, alias, id string, k *journaletv1.StartContainer, manifest *corev1.Pod, out *journaletv1.CallFinished,
	now time.Time,
) {
	if k.GetPart() == journaletv1.StartPart_START_PART_START {
		w.startCreated(o, alias, k, manifest, out, now)
		return
	}
	for _, c := range o.containers {
		switch {
		case c.GetIntentId() == id:
			out.ContainerId = c.GetId()
			createOnly := k.GetPart() == journaletv1.StartPart_START_PART_CREATE
			if !createOnly && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_CREATED {
				c.State, c.StartedAt = journaletv1.ContainerState_CONTAINER_STATE_RUNNING, timestamppb.New(now)
			}
			return
		case c.GetName() == k.GetContainer() && alive(c):
			w.violation("%s: container %s twice at once", alias, k.GetContainer())
		case c.GetName() == k.GetContainer() && c.GetAttempt() == k.GetAttempt():
			w.violation("%s: container %s attempt %d twice", alias, k.GetContainer(), k.GetAttempt())
		}
	}
	if !o.isReady(k.GetSandboxId()) {
		out.Error, out.Message = journaletv1.CallError_CALL_ERROR_SANDBOX_GONE, "sandbox "+k.GetSandboxId()+" is gone"
		return
	}
	if !w.mayCreate(o, alias, k.GetContainer(), manifest, out) || !o.mayJoin(k.GetTargetContainerId(), out) {
		return
	}
	c := &journaletv1.ContainerObservation{
		Id: w.id("%s-%s-%d", alias, k.GetContainer(), k.GetAttempt()), Name: k.GetContainer(), Attempt: k.GetAttempt(),
		SandboxId: k.GetSandboxId(), State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING,
		CreatedAt: timestamppb.New(now), StartedAt: timestamppb.New(now), IntentId: id,
	}
	if k.GetPart() == journaletv1.StartPart_START_PART_CREATE {
		c.State, c.StartedAt = journaletv1.ContainerState_CONTAINER_STATE_CREATED, nil
		o.createdFor[c.GetId()] = k.GetDigest()
		if spec := containers.Find(manifest, c.GetName()); spec != nil {
			define(c, spec)
		}
	} else {
		w.checkStart(o, alias, c, manifest)
	}
	w.checkDevices(o, alias, k)
	w.checkClaims(o, alias, manifest, k)
	for _, d := range k.GetDevices() {
		for _, id := range d.GetIds() {
			o.devices[c.GetId()] = append(o.devices[c.GetId()], d.GetResource()+" "+id)
		}
	}
	o.containers, o.cpus[c.GetId()] = append(o.containers, c), k.GetPlacement().GetCpus()
	out.ContainerId, out.ImageRef, out.SandboxId = c.GetId(), c.GetImageRef(), c.GetSandboxId()
}

// startCreated starts a created container. After a crash the driver would give up a container that it finds as
// created. Here its start counts as still on its way, so that a crash at any moment leads to the same final state.
// Scenarios cover lost starts.
func (w *world) startCreated(
	o *objects, alias string, k *journaletv1.StartContainer, manifest *corev1.Pod, out *journaletv1.CallFinished,
	now time.Time,
) {
	i := o.index(k.GetContainerId())
	switch {
	case i < 0 && o.ran[k.GetContainerId()]:
		// Its start was carried out, and the outcome comes late.
		out.ContainerId, out.SandboxId = k.GetContainerId(), k.GetSandboxId()
		return
	case i < 0:
		out.Error = journaletv1.CallError_CALL_ERROR_NOT_DONE
		out.Message = "container " + k.GetContainerId() + " was removed before its start"
		return
	}
	c := o.containers[i]
	out.ContainerId, out.SandboxId = c.GetId(), c.GetSandboxId()
	if c.GetState() != journaletv1.ContainerState_CONTAINER_STATE_CREATED {
		return
	}
	if !o.isReady(c.GetSandboxId()) {
		out.Error, out.Message = journaletv1.CallError_CALL_ERROR_SANDBOX_GONE, "sandbox "+c.GetSandboxId()+" is gone"
		return
	}
	for _, other := range o.containers {
		if other.GetName() == c.GetName() && alive(other) {
			w.violation("%s: container %s twice at once", alias, c.GetName())
		}
	}
	c.State, c.StartedAt = journaletv1.ContainerState_CONTAINER_STATE_RUNNING, timestamppb.New(now)
	o.ran[c.GetId()] = true
	if o.createdFor[c.GetId()] != k.GetDigest() {
		// Its manifest has changed since. A created main container means that the pod is initialized, as in the kubelet.
		o.startingBefore[inSandbox(c, c.GetName())] = true
	}
	w.checkStart(o, alias, c, manifest)
}

// mayJoin reports whether the target of an ephemeral container runs; none need not.
func (o *objects) mayJoin(target string, out *journaletv1.CallFinished) bool {
	if i := o.index(target); target == "" || i >= 0 && alive(o.containers[i]) {
		return true
	}
	out.Error, out.Message = journaletv1.CallError_CALL_ERROR_CREATE, "container "+target+" is not running"
	out.Retryable = true
	return false
}

func (o *objects) isReady(sandbox string) bool {
	return slices.ContainsFunc(o.sandboxes, func(x *journaletv1.SandboxObservation) bool {
		return x.GetId() == sandbox && x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY
	})
}

func alive(c *journaletv1.ContainerObservation) bool {
	return c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING ||
		c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN
}

// index returns the index of a container by its id; -1 for none.
func (o *objects) index(id string) int {
	return slices.IndexFunc(o.containers, func(c *journaletv1.ContainerObservation) bool { return c.GetId() == id })
}

// end ends a container's process, if it has one.
func (o *objects) end(id string, code int32, now time.Time) {
	for _, c := range o.containers {
		if c.GetId() != id || !alive(c) {
			continue
		}
		c.State, c.ExitCode, c.FinishedAt = journaletv1.ContainerState_CONTAINER_STATE_EXITED, code, timestamppb.New(now)
		c.Reason = "Error"
		if code == 0 {
			c.Reason = "Completed"
			o.succeeded[inSandbox(c, c.GetName())] = true
		}
	}
}

func (o *objects) stopSandbox(id string, now time.Time) {
	for _, x := range o.sandboxes {
		if x.GetId() == id {
			x.State, x.Ips = journaletv1.SandboxState_SANDBOX_STATE_NOT_READY, nil
		}
	}
	for _, c := range o.containers {
		if c.GetSandboxId() == id {
			o.end(c.GetId(), 137, now)
		}
	}
}

// newest returns the newest instance of a container; nil for none.
func (o *objects) newest(name string) *journaletv1.ContainerObservation {
	var n *journaletv1.ContainerObservation
	for _, c := range o.containers {
		if c.GetName() == name && (n == nil || c.GetAttempt() > n.GetAttempt()) {
			n = c
		}
	}
	return n
}

// stamp returns the next place in the order of inspections and finished calls (pleg.Stamps).
func (w *world) stamp(now time.Time) time.Time {
	if !now.After(w.stamped) {
		now = w.stamped.Add(1)
	}
	w.stamped = now
	return now
}

// inspect returns an observation of a pod; nil if it equals the last one.
func (w *world) inspect(uid string, now time.Time) *journaletv1.PodObserved {
	last := w.observed[uid]
	seen := &journaletv1.PodObserved{Uid: uid, ObservedAt: timestamppb.New(w.stamp(now))}
	if o := w.pods[uid]; o != nil {
		for _, x := range o.sandboxes {
			seen.Sandboxes = append(seen.Sandboxes, proto.CloneOf(x))
		}
		for _, c := range o.containers {
			seen.Containers = append(seen.Containers, proto.CloneOf(c))
		}
	}
	slices.SortFunc(seen.Containers, func(a, b *journaletv1.ContainerObservation) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetAttempt(), b.GetAttempt()))
	})
	same := proto.CloneOf(seen)
	same.ObservedAt, same.PodNamespace, same.PodName = last.GetObservedAt(), last.GetPodNamespace(), last.GetPodName()
	if last == nil && len(seen.Sandboxes)+len(seen.Containers) > 0 {
		seen.PodNamespace, seen.PodName = w.pods[uid].namespace, w.pods[uid].name
	}
	if !w.expected[uid] && (proto.Equal(same, last) || last == nil && len(seen.Sandboxes)+len(seen.Containers) == 0) {
		return nil
	}
	delete(w.expected, uid)
	return seen
}

// uids returns the UIDs of the pods that have objects, or that had some when they were last observed.
func (w *world) uids() []string {
	all := maps.Clone(w.pods)
	for uid := range w.observed {
		all[uid] = nil
	}
	for uid := range w.expected {
		all[uid] = nil
	}
	return slices.Sorted(maps.Keys(all))
}

// forgetIntents makes all that runs a kubelet's.
func (w *world) forgetIntents() {
	for _, o := range w.pods {
		for _, x := range o.sandboxes {
			x.IntentId = ""
		}
		for _, c := range o.containers {
			c.IntentId = ""
		}
	}
}
