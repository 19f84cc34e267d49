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

	"github.com/journalet/journalet/messages/journaletv1"
)

// world is a container runtime that does at once what it is told. It is also the judge of what must
// never happen on a node, whatever the agent's state says.
type world struct {
	pods map[string]*objects
	// told is the last observation of each pod, as the PLEG remembers it.
	told map[string]*journaletv1.PodObserved
	// owed are the pods of which the next look is told whatever it shows, as by pleg.Expect.
	owed map[string]bool
	// stamped is the newest stamp of this run of the agent.
	stamped time.Time
	// made counts objects by id: a runtime gives no id twice.
	made map[string]int
	// sins are broken rules: two instances of a container at once, a pod that must not start again.
	sins []string
}

// objects are what a runtime holds of one pod.
type objects struct {
	sandboxes  []*journaletv1.SandboxObservation
	containers []*journaletv1.ContainerObservation
	// began counts starts of containers of a pod that is to be run but once.
	began map[string]int
	// inits are the instances, by id, whose program ends by itself, whatever later manifests say: init containers.
	inits map[string]bool
	// first holds, by sandbox and name, the containers that were ever started, and doneWell those that ended with 0.
	first, doneWell map[string]bool
	// expected are, in the same form, the starts under way that an earlier manifest led to.
	expected map[string]bool
	// madeFor are the manifests, by container id, for which containers were made that another call starts.
	madeFor map[string]string
	// ran are those of them, by id, that were started, there still or not.
	ran map[string]bool
	// sizes are the resources of containers, by id.
	sizes map[string]*journaletv1.Resources
	// stopped are the sandboxes, by id, that a call stopped: only these have given back their address and host ports.
	stopped map[string]bool
}

func newObjects() *objects {
	return &objects{
		began: map[string]int{}, inits: map[string]bool{}, first: map[string]bool{}, doneWell: map[string]bool{},
		expected: map[string]bool{}, stopped: map[string]bool{}, sizes: map[string]*journaletv1.Resources{}, madeFor: map[string]string{}, ran: map[string]bool{},
	}
}

func newWorld() *world {
	return &world{
		pods: map[string]*objects{}, told: map[string]*journaletv1.PodObserved{}, owed: map[string]bool{}, made: map[string]int{},
	}
}

func (w *world) clone() *world {
	c := newWorld()
	for uid, o := range w.pods {
		n := &objects{
			began: maps.Clone(o.began), inits: maps.Clone(o.inits), first: maps.Clone(o.first), doneWell: maps.Clone(o.doneWell),
			expected: map[string]bool{}, stopped: maps.Clone(o.stopped), sizes: maps.Clone(o.sizes), madeFor: maps.Clone(o.madeFor), ran: maps.Clone(o.ran),
		}
		for _, x := range o.sandboxes {
			n.sandboxes = append(n.sandboxes, proto.CloneOf(x))
		}
		for _, x := range o.containers {
			n.containers = append(n.containers, proto.CloneOf(x))
		}
		c.pods[uid] = n
	}
	maps.Copy(c.told, w.told)
	maps.Copy(c.owed, w.owed)
	maps.Copy(c.made, w.made)
	c.stamped = w.stamped
	return c
}

func (w *world) of(uid string) *objects {
	if w.pods[uid] == nil {
		w.pods[uid] = newObjects()
	}
	return w.pods[uid]
}

// id is an id for a new object.
func (w *world) id(format string, args ...any) string {
	id := fmt.Sprintf(format, args...)
	w.made[id]++
	if n := w.made[id]; n > 1 {
		return fmt.Sprintf("%s~%d", id, n)
	}
	return id
}

func (w *world) sin(format string, args ...any) {
	w.sins = append(w.sins, fmt.Sprintf(format, args...))
}

// perform does the work of a call and gives its outcome. Done again, it finds what it did before.
func (w *world) perform(alias, id string, req *journaletv1.CallRequested, manifest *corev1.Pod, now time.Time) *journaletv1.CallFinished {
	out := &journaletv1.CallFinished{IntentId: id}
	o := w.of(req.GetPodUid())
	switch k := req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		w.runSandbox(o, alias, id, k.RunSandbox, out, now)
	case *journaletv1.CallRequested_StartContainer:
		w.startContainer(o, alias, id, k.StartContainer, manifest, out, now)
	case *journaletv1.CallRequested_StopContainer:
		o.end(k.StopContainer.GetContainerId(), 137, now)
		if !slices.ContainsFunc(o.containers, func(c *journaletv1.ContainerObservation) bool { return c.GetId() == k.StopContainer.GetContainerId() }) {
			// It has vanished, and its hash with it.
			maps.DeleteFunc(o.began, func(what string, _ int) bool { return strings.HasPrefix(what, k.StopContainer.GetContainer()+" ") })
		}
		for _, c := range o.containers {
			if c.GetId() == k.StopContainer.GetContainerId() {
				// What the agent ended to replace it may run again.
				delete(o.began, c.GetName()+" "+c.GetHash())
			}
		}
	case *journaletv1.CallRequested_RemoveContainer:
		o.containers = slices.DeleteFunc(o.containers, func(c *journaletv1.ContainerObservation) bool {
			return c.GetId() == k.RemoveContainer.GetContainerId()
		})
	case *journaletv1.CallRequested_UpdateContainer:
		w.updateContainer(o, alias, k.UpdateContainer, out)
	case *journaletv1.CallRequested_StopSandbox:
		o.stopSandbox(k.StopSandbox.GetSandboxId(), now)
		o.stopped[k.StopSandbox.GetSandboxId()] = true
	case *journaletv1.CallRequested_RemoveSandbox:
		sid := k.RemoveSandbox.GetSandboxId()
		o.sandboxes = slices.DeleteFunc(o.sandboxes, func(x *journaletv1.SandboxObservation) bool { return x.GetId() == sid })
		o.containers = slices.DeleteFunc(o.containers, func(c *journaletv1.ContainerObservation) bool { return c.GetSandboxId() == sid })
	case *journaletv1.CallRequested_CleanPod:
		if k.CleanPod.GetAll() {
			clear(o.began)
		}
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

func (w *world) runSandbox(o *objects, alias, id string, k *journaletv1.RunSandbox, out *journaletv1.CallFinished, now time.Time) {
	for _, x := range o.sandboxes {
		if x.GetIntentId() == id {
			out.SandboxId = x.GetId()
			if x.GetState() != journaletv1.SandboxState_SANDBOX_STATE_READY {
				out.Error, out.Message = journaletv1.CallError_CALL_ERROR_SANDBOX_GONE, "sandbox "+x.GetId()+" was canceled while the runtime created it, or has died since"
			}
			return
		}
		if x.GetAttempt() >= k.GetAttempt() {
			// The driver looks before it makes a sandbox: a journal that was lost knew of this one.
			out.Error, out.Message = journaletv1.CallError_CALL_ERROR_RUNTIME, fmt.Sprintf("sandbox %s holds attempt %d", x.GetId(), x.GetAttempt())
			return
		}
		if x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY {
			w.sin("%s: a second sandbox beside a ready one", alias)
		} else if !o.stopped[x.GetId()] {
			w.sin("%s: a second sandbox beside a dead one that was not stopped", alias)
		}
	}
	out.SandboxId = w.id("%s-s%d", alias, k.GetAttempt())
	x := &journaletv1.SandboxObservation{
		Id: out.SandboxId, Attempt: k.GetAttempt(), State: journaletv1.SandboxState_SANDBOX_STATE_READY,
		CreatedAt: timestamppb.New(now), IntentId: id,
	}
	if !k.GetHostNetwork() {
		x.Ips = []string{fmt.Sprintf("10.0.0.%d", k.GetAttempt()+1)}
	}
	o.sandboxes = append(o.sandboxes, x)
}

func (w *world) startContainer(o *objects, alias, id string, k *journaletv1.StartContainer, manifest *corev1.Pod, out *journaletv1.CallFinished, now time.Time) {
	if k.GetPart() == journaletv1.StartPart_START_PART_START {
		w.startMade(o, alias, k, manifest, out, now)
		return
	}
	for _, c := range o.containers {
		switch {
		case c.GetIntentId() == id:
			out.ContainerId = c.GetId()
			if k.GetPart() != journaletv1.StartPart_START_PART_CREATE && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_CREATED {
				c.State, c.StartedAt = journaletv1.ContainerState_CONTAINER_STATE_RUNNING, timestamppb.New(now)
			}
			return
		case c.GetName() == k.GetContainer() && alive(c):
			w.sin("%s: container %s twice at once", alias, k.GetContainer())
		case c.GetName() == k.GetContainer() && c.GetAttempt() == k.GetAttempt():
			w.sin("%s: container %s attempt %d twice", alias, k.GetContainer(), k.GetAttempt())
		}
	}
	if !o.isReady(k.GetSandboxId()) {
		out.Error, out.Message = journaletv1.CallError_CALL_ERROR_SANDBOX_GONE, "sandbox "+k.GetSandboxId()+" is gone"
		return
	}
	c := &journaletv1.ContainerObservation{
		Id: w.id("%s-%s-%d", alias, k.GetContainer(), k.GetAttempt()), Name: k.GetContainer(), Attempt: k.GetAttempt(),
		SandboxId: k.GetSandboxId(), State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING,
		CreatedAt: timestamppb.New(now), StartedAt: timestamppb.New(now), IntentId: id,
	}
	if k.GetPart() == journaletv1.StartPart_START_PART_CREATE {
		c.State, c.StartedAt = journaletv1.ContainerState_CONTAINER_STATE_CREATED, nil
		o.madeFor[c.GetId()] = k.GetDigest()
		specs := slices.Concat(manifest.Spec.InitContainers, manifest.Spec.Containers)
		if i := slices.IndexFunc(specs, func(s corev1.Container) bool { return s.Name == c.GetName() }); i >= 0 {
			define(c, &specs[i])
		}
	} else {
		w.watchStart(o, alias, c, manifest)
	}
	o.containers = append(o.containers, c)
	out.ContainerId, out.ImageRef, out.SandboxId = c.GetId(), c.GetImageRef(), c.GetSandboxId()
}

// startMade starts a container that was made. The driver would give up one that it finds as created after a crash; here such
// a start is taken to have been on its way, so that a crash at any moment leads to the same end. Stories tell of lost ones.
func (w *world) startMade(o *objects, alias string, k *journaletv1.StartContainer, manifest *corev1.Pod, out *journaletv1.CallFinished, now time.Time) {
	i := slices.IndexFunc(o.containers, func(c *journaletv1.ContainerObservation) bool { return c.GetId() == k.GetContainerId() })
	switch {
	case i < 0 && o.ran[k.GetContainerId()]:
		// Its start was carried out, and the answer comes late.
		out.ContainerId, out.SandboxId = k.GetContainerId(), k.GetSandboxId()
		return
	case i < 0:
		out.Error, out.Message = journaletv1.CallError_CALL_ERROR_NOT_DONE, "container "+k.GetContainerId()+" was removed before its start"
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
			w.sin("%s: container %s twice at once", alias, c.GetName())
		}
	}
	c.State, c.StartedAt = journaletv1.ContainerState_CONTAINER_STATE_RUNNING, timestamppb.New(now)
	o.ran[c.GetId()] = true
	if o.madeFor[c.GetId()] != k.GetDigest() {
		// With a main container that was made the pod is initialized, as with the kubelet: its manifest was changed since.
		o.expected[inSandbox(c, c.GetName())] = true
	}
	w.watchStart(o, alias, c, manifest)
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
			o.doneWell[inSandbox(c, c.GetName())] = true
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

// newest is the newest instance of a container, nil if there is none.
func (o *objects) newest(name string) *journaletv1.ContainerObservation {
	var n *journaletv1.ContainerObservation
	for _, c := range o.containers {
		if c.GetName() == name && (n == nil || c.GetAttempt() > n.GetAttempt()) {
			n = c
		}
	}
	return n
}

// stamp is the next place in the order of looks and ends of calls (pleg.Stamps).
func (w *world) stamp(now time.Time) time.Time {
	if !now.After(w.stamped) {
		now = w.stamped.Add(1)
	}
	w.stamped = now
	return now
}

// look is what a look at a pod shows now; nil if that is what the last one showed.
func (w *world) look(uid string, now time.Time) *journaletv1.PodObserved {
	last := w.told[uid]
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
		seen.PodNamespace, seen.PodName = "default", "found" // what it is really called is the story's to know
	}
	if !w.owed[uid] && (proto.Equal(same, last) || last == nil && len(seen.Sandboxes)+len(seen.Containers) == 0) {
		return nil
	}
	delete(w.owed, uid)
	return seen
}

// uids lists the pods of which the world holds something, or was seen to.
func (w *world) uids() []string {
	all := maps.Clone(w.pods)
	for uid := range w.told {
		all[uid] = nil
	}
	for uid := range w.owed {
		all[uid] = nil
	}
	return slices.Sorted(maps.Keys(all))
}
