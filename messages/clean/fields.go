package clean

// class is what may be in a string.
type class uint8

const (
	// name is what programs read: an id, a reference, a path, a value, a word of the contract. Drivers and actors compare
	// names, so one that a record can hold is never changed: views quote it. One that has to be changed ends
	// in "~" and a sum of what it was: two names stay two, and none becomes another's.
	name class = iota
	// text is for people: messages and errors, with newlines and tabs. Other control characters become \u001b, and a
	// text that is cut ends in "...".
	text
	// words are a tenant's, which the API server gets as a kubelet would report them: control characters stay, and
	// views quote them.
	words
)

// Bounds of the classes, in bytes.
const (
	// maxStoredNameBytes is twice the longest name that a manifest may have, an image (manifest.Gate): runtimes put a
	// registry before what a pod says.
	maxStoredNameBytes = 2 << 10
	// maxTextBytes is what a call to the runtime may report.
	maxTextBytes = 4 << 10
	// maxWordsBytes is the kubelet's bound of a termination message.
	maxWordsBytes = 4096
	// maxPathBytes is the longest path that Linux takes, and longer than any URL of a source.
	maxPathBytes = 4096
	// maxAnswerBytes is the whole answer of a device plugin for a container.
	maxAnswerBytes = 16 << 10
	// maxListBytes has room for each second of 8192 CPUs, which are the most that Linux knows: 0,2,4 and so on.
	maxListBytes = 20 << 10
	// maxSelectorBytes are all references to objects that a pod may have together (manifest.Gate).
	maxSelectorBytes = 512 << 10
)

func (c class) most() int {
	switch c {
	case name:
		return maxStoredNameBytes
	case text:
		return maxTextBytes
	case words:
	}
	return maxWordsBytes
}

// bounds are those of single fields, in bytes, where they are not their class's: more than one may be in a fact, or the
// contract or Kubernetes promises it.
var bounds = map[string]int{
	"ApiPod.unsupported":             256,
	"ApiServerContact.message":       512,
	"CertificateChanged.message":     512,
	"ClaimDeviceHealth.message":      1024, // corev1.ResourceHealthMessageMaxLength
	"ClaimOutcome.message":           1 << 10,
	"DeviceMount.container_path":     maxAnswerBytes,
	"DeviceMount.host_path":          maxAnswerBytes,
	"DeviceNode.container_path":      maxAnswerBytes,
	"DeviceNode.host_path":           maxAnswerBytes,
	"ExclusiveContainer.cpus":        maxListBytes,
	"KubeletState.problems":          512,
	"ManifestFile.path":              maxPathBytes,
	"ManifestProblem.field":          1 << 10,
	"ManifestProblem.message":        1 << 10,
	"ManifestProblem.pod":            1 << 10,
	"NamedValue.name":                maxAnswerBytes,
	"NamedValue.value":               maxAnswerBytes,
	"ObjectRead.file":                maxPathBytes,
	"ObjectRead.message":             1 << 10,
	"ObjectRef.selector":             maxSelectorBytes,
	"ProbeResult.message":            1 << 10,
	"ReadinessGateCondition.status":  64, // True, False and Unknown mean something
	"ResourceManagers.reserved_cpus": maxListBytes,
	"RestOfResources.cpus":           maxListBytes,
	"SessionStarted.client":          512,
	"SessionStarted.command":         128,
	"VolumeOutcome.message":          1 << 10,
}

// fields declares the class of each string in a fact, by message and field; of a map with strings as values it is that
// of the values, and keys are names. A field that is missing here is only made valid UTF-8, and a test fails: each new
// field of a fact needs a decision here.
var fields = map[class][]string{
	name: {
		"AgentConfig.allowed_unsafe_sysctls", "AgentConfig.node_labels", "AgentConfig.node_name", "AgentConfig.sources",
		"AgentStarted.agent_id", "AgentStarted.boot_id", "AgentStarted.found_resources", "AgentStarted.found_user_namespaces",
		"AgentStarted.version", "ApiDeleteFinished.uid", "ApiPod.ready_containers",
		"CallFinished.container_id", "CallFinished.image_ref",
		"CallFinished.intent_id", "CallFinished.missing_volume_image", "CallFinished.name_holder_uid",
		"CallFinished.requester",
		"CallFinished.sandbox_id", "CertificateChanged.request", "ClaimDevice.cdi_devices", "ClaimDevice.device",
		"ClaimDevice.driver", "ClaimDevice.pool", "ClaimDevice.requests", "ClaimDevice.share_id",
		"ClaimDeviceHealth.device", "ClaimDeviceHealth.driver", "ClaimDeviceHealth.pool",
		"ClaimHealthObserved.uid", "ClaimOutcome.boot_id", "ClaimOutcome.uid", "ContainerDevices.container",
		"ContainerDevices.ids", "ContainerDevices.resource", "ContainerExcess.container",
		"ContainerExcess.request", "ContainerExcess.used", "ContainerObservation.hash", "ContainerObservation.id",
		"ContainerObservation.image", "ContainerObservation.image_ref", "ContainerObservation.intent_id",
		"ContainerObservation.name", "ContainerObservation.sandbox_id", "Device.id", "DeviceAnswer.cdi_devices",
		"DeviceMount.container_path", "DeviceMount.host_path", "DeviceNode.container_path", "DeviceNode.host_path",
		"DeviceNode.permissions", "DevicesObserved.removed", "DevicesObserved.resource",
		"ExclusiveContainer.container", "ExclusiveContainer.cpus", "ExtendedClaim.name", "RestOfResources.cpus",
		"DevicesOfContainer.container", "DevicesOfContainer.ids", "DevicesOfContainer.resource",
		"ExtendedRequest.container", "ExtendedRequest.request", "ExtendedRequest.resource", "ImageObservation.id",
		"ImageObservation.names", "ImageRemovalRequested.image_id", "ImageRemovalRequested.name",
		"ImageRemovalRequested.request_id", "ImagesObserved.removed", "KubeletPull.repository",
		"KubeletPull.secrets", "KubeletPull.service_accounts", "KubeletState.images", "KubeletState.pods",
		"LogRotated.container",
		"LogRotated.container_id", "LogRotated.uid", "ManifestFile.path", "ManifestProblem.code",
		"ManifestsRead.source", "NamedValue.name", "NamedValue.value", "NodeIPs.external", "NodeIPs.internal",
		"NodeObserved.labels", "NodeObserved.pod_cidrs", "NodeObserved.uid", "NodeRegistered.uid", "RuntimeConfig.pod_cidr",
		"NodeTaint.effect", "NodeTaint.key",
		"NodeTaint.value", "ObjectRead.digest", "ObjectRead.file", "ObjectRead.version", "ObjectRef.name",
		"ObjectRef.selector", "ObjectRead.uid", "ObjectsRead.uid", "OomKillObserved.container",
		"OomKillObserved.container_id", "OomKillObserved.process", "OomKillObserved.uid",
		"OperatorPullRequested.image", "OperatorPullRequested.request_id",
		"OtherMachine.address", "OtherMachine.boot_id", "OtherMachine.machine_id", "PodCgroupLost.uid",
		"PodDirectoryFound.uid", "PodFinished.source", "PodFinished.uid", "PodObserved.pod_name",
		"PodObserved.pod_namespace", "PodObserved.uid", "PodRef.digest", "PodRef.name", "PodRef.namespace",
		"PodRef.uid", "PodRequest.name", "PodRequest.request", "PodRequest.used",
		"PodTerminated.uid", "PodUsage.uid", "PreferredDevicesRead.ids", "PreferredDevicesRead.uid",
		"ProbeResult.container", "ProbeResult.container_id", "ProbeResult.uid", "PullCredentials.repository",
		"PullCredentials.service_accounts", "PullProgressed.image", "PullSecret.digest", "PullSecret.name",
		"PullSecret.namespace", "PullSecret.uid", "QuarantineLifted.id", "QuarantineLifted.kind", "Quarantined.id",
		"Quarantined.kind", "ReadinessGateCondition.type", "ReadinessGatesRead.uid",
		"ResourceClaim.allocation", "ResourceClaim.name",
		"ResourceClaim.namespace", "ResourceClaim.pod_claims", "ResourceClaim.prepare", "ResourceClaim.uid",
		"ResourceClaim.unprepare", "ResourceManagers.reserved_cpus", "RestartRequested.container",
		"RestartRequested.uid", "RuntimeHealthChanged.runtime_name", "RuntimeHealthChanged.runtime_version",
		"SandboxObservation.id", "SandboxObservation.intent_id", "SandboxObservation.ips",
		"SessionEnded.container", "SessionEnded.session_id", "SessionEnded.uid", "SessionStarted.container",
		"SessionStarted.session_id", "SessionStarted.uid", "StorageExceeded.container", "StorageExceeded.uid",
		"StorageExceeded.volume", "ThresholdMet.quantity", "ThresholdMet.signal", "TimerFired.name",
		"VolumeOutcome.name", "VolumesLost.names", "VolumesLost.uid",
	},
	text: {
		"AgentStopped.reason", "ApiDeleteFinished.message", "ApiPod.unsupported", "ApiServerContact.message",
		"CallFinished.message", "CertificateChanged.message", "ClaimDeviceHealth.message", "ClaimOutcome.message",
		"ContainerObservation.reason", "DevicesObserved.message", "DrainRequested.client",
		"ImageRemovalRequested.client", "JournalDamaged.message", "KubeletState.problems", "LogRotated.message",
		"ManifestProblem.field", "ManifestProblem.message", "ManifestProblem.pod", "ObjectRead.message",
		"NodeObserved.failure",
		"OperatorPullRequested.client", "PreferredDevicesRead.message", "ProbeResult.message", "Quarantined.message",
		"ReadinessGateCondition.status", "RestartRequested.client", "RuntimeHealthChanged.message",
		"SessionEnded.message", "SessionStarted.client", "SessionStarted.command", "StorageExceeded.message",
		"UncordonRequested.client", "VolumeOutcome.message",
	},
	words: {
		"ContainerObservation.message",
	},
}
