package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/cpuset"

	limits "github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
)

// The states of containers, short.
const (
	created = journaletv1.ContainerState_CONTAINER_STATE_CREATED
	running = journaletv1.ContainerState_CONTAINER_STATE_RUNNING
	exited  = journaletv1.ContainerState_CONTAINER_STATE_EXITED
	unknown = journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN
)

// world is a node without the agent: a container runtime with its objects, images and their registry. Agent and
// runtime may die independently.
type world struct {
	clock *virtualTime
	seed  uint64
	// noise draws latencies and mishaps.
	noise *rand.Rand
	judge *judge

	objects []*objects // by appearance
	byUID   map[string]*objects
	images  map[string]bool
	// unawaited is when a pull whose agent had died or given up brought an image.
	unawaited map[string]time.Duration
	// others are the images that no pod names; arrived counts them.
	others  map[string]*otherImage
	arrived int
	ids     int
	// ends are the containers that have ended, by id.
	ends map[string]*container

	// up is set while the runtime's process runs; run counts its starts.
	up  bool
	run int
	// Until hungUntil (uptime) the runtime does not respond; until slowUntil it is slow.
	hungUntil, slowUntil time.Duration
	networkReady         bool
	registryUp           bool
	// One in mishaps calls fails without a cause, 0: none. calm ends all mishaps.
	mishaps int
	calm    bool
	// Until eventsBadUntil (uptime) events are lost, late or doubled.
	eventsBadUntil time.Duration
	// atStart is done to the next started container, before its start is answered; nil: nothing.
	atStart func(c *container)
	// conditions are the files of conditions, by UID.
	conditions map[string]*conditions
	files      *nodeFiles
	besides    besides
	lingering  []lingering
	plugins    []*devicePlugin
	// claimDrivers are the DRA drivers.
	claimDrivers []*claimDriver
	storage      *storageNode
	// volumes are what volumes take once they are set up, by UID.
	volumes map[string]use
	// emit sends an event about a pod.
	emit func(uid string)
}

// objects are what the runtime has of one pod.
type objects struct {
	uid        string
	sandboxes  []*sandbox
	containers []*container
}

type sandbox struct {
	id, uid, intent string
	pod             podName
	attempt         uint32
	ready, stopped  bool
	hostNetwork     bool
	// ids are the ids of its user namespace; nil: the node's.
	ids       *journaletv1.UserNamespace
	ofKubelet bool
	created   time.Time
	ips       []string
	// has is what the pod as a whole was last given; nil: nothing is known.
	has *runtimeapi.LinuxContainerResources
	// late is when it was created for a client that was gone, in uptime; 0: the client waited.
	late time.Duration
}

type container struct {
	id, uid, name, intent, sandbox, hash, image, digest string
	attempt                                             uint32
	config                                              *runtimeapi.ContainerConfig
	log                                                 string // the path of its log
	state                                               journaletv1.ContainerState
	created, started, finished                          time.Time
	startedAt, createdAt                                time.Duration // uptime
	code                                                int32
	reason                                              string
	// refusal is why its start was refused. Empty: it was not.
	refusal string
	// message is what it is reported to have said at its end.
	message  string
	manifest *corev1.Pod
	spec     *corev1.Container
	once     bool // an init container other than a sidecar
	// ofKubelet is set if a kubelet has created it.
	ofKubelet bool
	has       *journaletv1.Resources
	does      behaviour
	// cpus and memoryNodes are where it runs, alone how many exclusive CPUs it is to have. placedAt is when the runtime
	// was requested that last, in uptime. unlimitedCPU is set if it has no CPU quota.
	cpus, memoryNodes cpuset.CPUSet
	exclusive         int
	placedAt          time.Duration
	unlimitedCPU      bool
	// devices are the ids of its devices.
	devices []string
	// end is its own exit, kill the SIGKILL of a stop under way.
	end, kill *event
	termed    bool
	// startedLate is set if it was started for a client that was gone, placedLate if it was moved for one.
	startedLate, placedLate bool
	// stoppedBy is the first call that reached it to end it, at stoppedAt in uptime; empty for none.
	stoppedBy string
	stoppedAt time.Duration
	// takes is what it uses, nil as long as nobody has asked.
	takes *use
	// stoppers wait for its exit.
	stoppers []*proc
}

func newWorld(c *virtualTime, seed uint64, j *judge) *world {
	return &world{
		clock: c, seed: seed, noise: stream(seed, "noise"), judge: j, byUID: map[string]*objects{}, images: map[string]bool{},
		unawaited: map[string]time.Duration{},
		others:    map[string]*otherImage{},
		ends:      map[string]*container{},
		up:        true, networkReady: true, registryUp: true, emit: func(string) {},
		conditions: map[string]*conditions{}, files: newNodeFiles(seed), storage: newStorageNode(), volumes: map[string]use{},
		besides: besides{unmeasured: map[limits.Signal]time.Duration{}},
	}
}

func (w *world) objectsOf(uid string) *objects {
	if o := w.byUID[uid]; o != nil {
		return o
	}
	o := &objects{uid: uid}
	w.byUID[uid] = o
	w.objects = append(w.objects, o)
	return o
}

func (o *objects) empty() bool { return o == nil || len(o.sandboxes)+len(o.containers) == 0 }

func (w *world) id(prefix string) string {
	w.ids++
	return fmt.Sprintf("%s%d", prefix, w.ids)
}

func (c *container) alive() bool { return c.state == running || c.state == unknown }

// sandbox returns a sandbox by its id, nil if no sandbox has it.
func (w *world) sandbox(id string) *sandbox {
	for _, o := range w.objects {
		for _, x := range o.sandboxes {
			if x.id == id {
				return x
			}
		}
	}
	return nil
}

// container returns a container by its id, nil if no container has it.
func (w *world) container(id string) *container {
	for _, o := range w.objects {
		for _, c := range o.containers {
			if c.id == id {
				return c
			}
		}
	}
	return nil
}

// runSandbox is RunPodSandbox. gone: the client does not wait any more. listed is when the client listed the pod's
// sandboxes last.
func (w *world) runSandbox(m *runtimeapi.PodSandboxMetadata, intent string, hostNetwork, gone bool,
	listed time.Duration) (string, error) {
	o, attempt := w.objectsOf(m.GetUid()), m.GetAttempt()
	for _, x := range o.sandboxes {
		if x.attempt == attempt {
			return "", reserved("sandbox", x.id)
		}
	}
	if !w.networkReady && !hostNetwork {
		return "", failedCall("cni plugin not initialized")
	}
	x := &sandbox{
		id: w.id("s"), uid: m.GetUid(), intent: intent, attempt: attempt, ready: true, hostNetwork: hostNetwork,
		pod:     podName{Namespace: m.GetNamespace(), Name: m.GetName()},
		created: w.clock.Now(),
	}
	if !x.hostNetwork {
		x.ips = []string{fmt.Sprintf("10.0.%d.%d", w.ids/250, w.ids%250+1)}
	}
	if gone {
		// containerd completes it all the same, or gives it up and keeps a sandbox that is not ready.
		x.late, x.ready = w.clock.uptime, !chance(w.noise, 2)
	}
	w.judge.sandboxCreated(o, x, gone, listed)
	o.sandboxes = append(o.sandboxes, x)
	slices.SortStableFunc(o.sandboxes, func(a, b *sandbox) int { return cmp.Compare(a.attempt, b.attempt) })
	return x.id, nil
}

// running returns the containers that run.
func (w *world) running() (all []*container) {
	for _, o := range w.objects {
		for _, c := range o.containers {
			if c.alive() {
				all = append(all, c)
			}
		}
	}
	return all
}

// createContainer is CreateContainer. spec is the container in the manifest m.
func (w *world) createContainer(k *runtimeapi.ContainerConfig, sandbox, logDir string, by *call, m *corev1.Pod,
	spec *corev1.Container, gone bool) (string, error) {
	x := w.sandbox(sandbox)
	if x == nil || !x.ready {
		return "", failedCall("sandbox is not running")
	}
	o := w.objectsOf(x.uid)
	for _, c := range o.containers {
		if c.name == spec.Name && c.attempt == k.GetMetadata().GetAttempt() {
			return "", reserved("container", c.id)
		}
	}
	c := &container{
		id: w.id("c"), uid: x.uid, name: spec.Name, intent: by.intent, sandbox: sandbox,
		hash: k.GetAnnotations()[cri.AnnotationHash], image: spec.Image, digest: by.req.GetStartContainer().GetDigest(),
		attempt: k.GetMetadata().GetAttempt(), state: created, created: w.clock.Now(), manifest: m, spec: spec,
		has: resources.Of(ownOrPods(m, spec)), createdAt: w.clock.uptime,
		config: k, log: filepath.Join(logDir, k.GetLogPath()),
	}
	c.once = isInit(m, c.name) && !isSidecar(spec)
	w.judge.placed(c, m, spec, k.GetLinux().GetResources(), false)
	w.judge.devicesGiven(c, k)
	w.judge.claimsGiven(c, k, gone)
	w.judge.storageMounted(c)
	w.judge.idsOfContainer(c.uid, x, k)
	w.judge.containerCreated(c, gone)
	o.containers = append(o.containers, c)
	return c.id, nil
}

// containerd's words about a start that it gave up because its client went away, and about a start that came to no
// process.
const (
	cutShort  = "context canceled"
	notYetRun = "failed to create containerd task"
)

// runc's words about a start that came to no process, as containerd reports them.
const (
	refusedMount = notYetRun + ": OCI runtime create failed: unable to start container process: error mounting \"/v/0\" " +
		"to rootfs at \"/etc/x\": no such file or directory"
	refusedCommand = notYetRun + ": OCI runtime create failed: unable to start container process: " +
		"exec: \"/bin/x\": executable file not found in $PATH"
)

// startContainer is StartContainer. If the client is gone, containerd finishes, gives up, or records a failed start.
func (w *world) startContainer(id string, clientGone bool) error {
	c := w.container(id)
	switch {
	case c == nil:
		return errNotFound
	case c.state != created:
		return failedCall("container is in state " + c.state.String())
	}
	if x := w.sandbox(c.sandbox); x == nil || !x.ready {
		w.fail(c, "sandbox container is not running")
		return failedCall("sandbox container is not running")
	}
	if clientGone && chance(w.noise, 2) {
		w.fail(c, notYetRun+": "+cutShort)
		return nil
	}
	if w.mishap() {
		// A file that it mounts was replaced, or a cgroup was not there yet; or its command is not in the image.
		why := pick(w.noise, refusedMount, refusedMount, refusedCommand)
		w.fail(c, why)
		return failedCall(why)
	}
	if clientGone && chance(w.noise, 2) {
		// Its process existed for a moment.
		w.judge.containerStarted(w.objectsOf(c.uid), c)
		w.judge.cutShort(c)
		w.fail(c, "failed to start containerd task: "+cutShort)
		return nil
	}
	c.state, c.started, c.startedAt, c.startedLate = running, w.clock.Now(), w.clock.uptime, clientGone
	c.does = w.behaviourOf(c)
	w.judge.containerStarted(w.objectsOf(c.uid), c)
	w.scheduleEnd(c)
	if do := w.atStart; do != nil {
		w.atStart = nil
		w.clock.after(nil, 0, func() { do(c) })
	}
	return nil
}

// stopSandbox is StopPodSandbox, or a part of another call.
func (w *world) stopSandbox(id, call string) {
	x := w.sandbox(id)
	if x == nil {
		return
	}
	for _, c := range w.objectsOf(x.uid).containers {
		if c.sandbox == x.id {
			w.killedBy(c, call)
		}
	}
	x.stopped = true
	w.killSandbox(x)
}

// killSandbox ends a sandbox and what runs in it.
func (w *world) killSandbox(x *sandbox) {
	was := x.ready
	x.ready = false
	for _, c := range w.objectsOf(x.uid).containers {
		if c.sandbox == x.id {
			w.exit(c, 137, "Error")
		}
	}
	if was && !x.stopped {
		w.judge.deadSandboxes[x.id] = true
	}
	if was {
		w.emit(x.uid)
	}
}

// killedBy judges the kill of a container by a call.
func (w *world) killedBy(c *container, call string) {
	if c.alive() {
		w.stopped(c, call)
		w.judge.killed(c, 0, call)
	}
}

// stopped notes that a call reaches a container to end it.
func (w *world) stopped(c *container, call string) {
	w.judge.stopped(c, call)
	if c.stoppedBy == "" {
		c.stoppedBy, c.stoppedAt = call, w.clock.uptime
	}
}

// removeContainer is RemoveContainer, or a part of another call.
func (w *world) removeContainer(id, call string) {
	c := w.container(id)
	if c == nil {
		return
	}
	w.killedBy(c, call)
	w.exit(c, 137, "Error")
	o := w.objectsOf(c.uid)
	o.containers = slices.DeleteFunc(o.containers, func(x *container) bool { return x == c })
	w.judge.containerRemoved(c)
	w.emit(c.uid)
}

// removeSandbox is RemovePodSandbox.
func (w *world) removeSandbox(id string) {
	const call = "RemovePodSandbox"
	x := w.sandbox(id)
	if x == nil {
		return
	}
	w.stopSandbox(id, call)
	o := w.objectsOf(x.uid)
	for _, c := range slices.Clone(o.containers) {
		if c.sandbox == id {
			w.removeContainer(c.id, call)
		}
	}
	o.sandboxes = slices.DeleteFunc(o.sandboxes, func(y *sandbox) bool { return y == x })
	w.emit(x.uid)
}

// vanish removes a container from the runtime without a call, process and all.
func (w *world) vanish(c *container) {
	w.exit(c, 137, "Error")
	w.judge.vanished(c)
	w.files.removedByOthers(c.uid, c.name, c.attempt)
	w.removeContainer(c.id, "nothing")
}

// reboot ends everything that runs. Its objects stay listed.
func (w *world) reboot() {
	w.files.reboot()
	w.storage.reboot()
	for _, o := range w.objects {
		for _, x := range o.sandboxes {
			w.killSandbox(x)
		}
	}
	w.lingering = nil
}

// killRuntime ends the runtime's process. Containers keep running.
func (w *world) killRuntime() {
	w.up = false
	w.run++
	w.interruptAll()
}

func (w *world) startRuntime() { w.up = true }

// interruptAll wakes the coroutines that wait for a response of the runtime.
func (w *world) interruptAll() {
	for _, o := range w.objects {
		for _, c := range o.containers {
			for _, p := range c.stoppers {
				p.interrupt()
			}
		}
	}
}

// mishap reports whether something fails now without a cause.
func (w *world) mishap() bool { return !w.calm && chance(w.noise, w.mishaps) }

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func isInit(m *corev1.Pod, name string) bool {
	return slices.ContainsFunc(m.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name })
}

func findSpec(m *corev1.Pod, name string) *corev1.Container {
	if m == nil {
		return nil
	}
	for _, list := range [][]corev1.Container{m.Spec.Containers, m.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
