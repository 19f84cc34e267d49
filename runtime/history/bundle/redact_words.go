package bundle

import (
	"strings"
	"sync"
)

// set returns a set of the words between bars. It is built when it is first needed: most runs of the program redact
// nothing.
func set(words string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		out := map[string]bool{}
		for _, w := range strings.Split(words, "|") {
			out[strings.TrimSpace(w)] = true
		}
		return out
	})
}

// reasons are the reasons, codes and words that a redacted bundle keeps. They are defined by Kubernetes, the container
// runtimes and this agent. None of them comes from a user.
var reasons = set(`True|False|Unknown|agent|source|pod|runtime|node|image|containerd|cri-o|
	Completed|Error|OOMKilled|ContainerCannotRun|DeadlineExceeded|StartError|ContainerStatusUnknown|Evicted|Failed|
	ContainerCreating|PodInitializing|CrashLoopBackOff|ErrImagePull|ImagePullBackOff|ErrImageNeverPull|
	ImageInspectError|InvalidImageName|RegistryUnavailable|SignatureValidationFailed|CreateContainerConfigError|
	CreateContainerError|RunContainerError|PostStartHookError|FailedPostStartHook|FailedPreStopHook|
	ContainersNotReady|ContainersNotInitialized|ReadinessGatesNotReady|PodCompleted|PodFailed|PodSandboxNotReady|
	TerminationByKubelet|Preempting|Deferred|Infeasible|Orphan|Quarantined|Unhealthy|ProbeWarning|
	RestartAllContainers|RestartAllContainersStarted|NetworkPluginNotReady|RuntimeNotReady|
	OutOfcpu|OutOfmemory|OutOfephemeral-storage|OutOfpods|NodePorts|NodeAffinity|NodeName|PodOSNotSupported|
	PodOSSelectorNodeLabelDoesNotMatch|SysctlForbidden|AppArmor|DuplicateName|DuplicateUID|
	options|syntax|empty|required|invalid|duplicate|unsupported|too-many|too-large|unreachable|status|unreadable|changing|unknown-kind|
	unknown-field|duplicate-field|wrong-type|not-found|static-pod|not-yet|defect|
	pod removed|pod has ended|pod changed|stop requested|no source names this pod|container definition changed|
	container is in an unknown state|container is in an unknown state, it is started again|
	container resize requires restart|container is not in the manifest|a newer instance has taken its place|
	Evicted|memory.available|allocatableMemory.available|nodefs.available|nodefs.inodesFree|imagefs.available|
	imagefs.inodesFree|containerfs.available|containerfs.inodesFree|pid.available|memory|ephemeral-storage|inodes|pids|
	MemoryPressure|DiskPressure|PIDPressure|
	it counts as having ended|its sandbox is not the pod's|its sandbox has another network than the pod`)

// reasonWords are the words of sentences about a container; the container's name is between them.
var reasonWords = set("Init|container|Container|failed|startup|liveness|readiness|probe|will|be|restarted")

// conditions are the types of conditions that are not a user's.
var conditions = set("Ready|Initialized|ContainersReady|PodScheduled|PodReadyToStartContainers|DisruptionTarget|" +
	"PodResizeInProgress|PodResizePending|AllContainersRestarting")

// The names of timers.
var (
	timers = set("orphan|sandbox|volumes|tear down|resize|grace|starting pods|opening|deadline|eviction")

	timersOfContainers = []string{"start ", "back-off ", "pre-stop ", "cpus "}
	timersOfSeconds    = []string{"active deadline "}
)
