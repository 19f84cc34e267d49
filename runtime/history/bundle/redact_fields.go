package bundle

// fields says what becomes of each field of a record in a redacted bundle, by message and field. A field that is
// missing here is dropped, and a test fails: each new field of the contract needs a decision here.
var fields = map[action][]string{
	keep: {
		"Actor.kind", "AdmissionDecided.admitted", "AdmissionDecided.incarnation",
		"AdmissionRequested.incarnation", "AdmissionRequested.priority", "AdmissionRequested.qos",
		"AgentConfig.app_armor", "AgentConfig.max_pods", "AgentConfig.pull_concurrency",
		"AgentConfig.start_concurrency", "AgentConfig.stop_concurrency", "AgentStarted.epoch",
		"AllContainersRestarting.all_stopped", "CallDispatched.in_doubt", "CallFinished.error",
		"CallFinished.image_bytes", "CallFinished.retryable", "CleanPod.all", "Condition.status",
		"ContainerObservation.attempt", "ContainerObservation.exit_code", "ContainerObservation.state",
		"Duration.nanos", "Duration.seconds", "ImagePullDecided.bytes", "ImagePullDecided.error",
		"JournalDamaged.expected_seq", "JournalDamaged.found_seq", "ManifestFile.unreadable",
		"ManifestProblem.line", "ManifestsRead.synced", "MemoryLimit.bytes",
		"NodeCapacity.ephemeral_storage_bytes", "NodeCapacity.memory_bytes", "NodeCapacity.milli_cpu",
		"PodDemand.ephemeral_storage_bytes", "PodDemand.memory_bytes", "PodDemand.milli_cpu", "PodFinished.orphan",
		"PodStatusChanged.phase", "PodStatusChanged.ready", "PodStatusChanged.restarts", "PodTerminated.phase",
		"PodTerminating.failed", "PodUpdated.operation", "ProbeResult.kind", "ProbeResult.success",
		"ProbesSet.kinds", "PullProgressed.bytes", "QuarantineLifted.skipped", "Quarantined.cause",
		"Quarantined.code", "Record.epoch", "Record.seq", "RemoveContainer.keep_as_last",
		"ResizeDecided.allocated", "ResizeDecided.request_id", "ResizePendingPreemption.request_id",
		"ResizeRequested.guaranteed", "ResizeRequested.priority", "ResizeRequested.request_id",
		"Resources.cpu_limit_millis", "Resources.cpu_request_millis", "Resources.memory_limit_bytes",
		"Resources.memory_request_bytes", "RunHook.kind", "RunSandbox.attempt", "RunSandbox.host_network",
		"RuntimeHealthChanged.network_ready", "RuntimeHealthChanged.runtime_ready", "SandboxObservation.attempt",
		"SandboxObservation.network", "SandboxObservation.state", "StartContainer.at_least_once",
		"StartContainer.attempt", "StartContainer.init", "StartContainer.part", "StartContainer.pulled_for_start",
		"Step.after", "Step.cause", "Step.more", "Step.offset", "TimerFired.generation", "TimerSet.generation",
		"Timestamp.nanos", "Timestamp.seconds", "UidDeferred.request_id", "UidGranted.request_id",
		"UidRequested.request_id", "UidWithdrawn.request_id",
		"ObjectRead.immutable", "ObjectRead.state", "ObjectRef.kind", "StorageExceeded.limit_bytes",
		"StorageExceeded.used_bytes", "UserNamespace.host_id", "UserNamespace.length", "VolumeOutcome.retryable",
		"AdmissionRequested.user_namespace", "HugePages.bytes", "HugePages.page_bytes", "SandboxObservation.no_address",
		"UserNamespaceRange.first", "UserNamespaceRange.ids_per_pod", "UserNamespaceRange.pods",
	},
	vocabulary: {
		"AdmissionDecided.reason", "AgentStopped.reason", "Condition.reason", "ContainerObservation.reason",
		"ContainerWaiting.reason", "ManifestIgnored.reason", "ManifestProblem.code", "PodStatusChanged.reason",
		"PodTerminating.reason", "QuarantineLifted.kind", "Quarantined.kind", "ReadinessGateCondition.status",
		"ResizeDecided.reason", "ResizePendingPreemption.reason", "RunHook.reason",
		"RuntimeHealthChanged.runtime_name", "StopContainer.reason",
	},
	version: {
		"AgentStarted.version", "RuntimeHealthChanged.runtime_version",
	},
	condition: {
		"Condition.type", "PodStatusChanged.removed_conditions", "ReadinessGateCondition.type",
		"ReadinessGatesSet.types",
	},
	actorID: {
		"Actor.id", "QuarantineLifted.id", "Quarantined.id",
	},
	uid: {
		"AdmissionDecided.uid", "AdmissionDeferred.holder_uid", "AdmissionDeferred.uid",
		"AdmissionPendingPreemption.uid", "AdmissionPendingPreemption.victims", "AdmissionRequested.uid",
		"CallRequested.pod_uid", "ImagePullDecided.uid", "ImagePullRequested.uid", "ImagePullWithdrawn.uid",
		"OrphanConfirmed.uid", "OrphanFound.uid", "PodFinished.uid", "PodForgotten.uid", "PodObserved.uid",
		"PodRef.uid", "PodTerminated.uid", "ProbeResult.uid", "ReadinessGatesRead.uid", "ResizeCompleted.uid",
		"ResizeDecided.uid", "ResizePendingPreemption.uid", "ResizePendingPreemption.victims",
		"ResizeRequested.uid", "ResizeStarted.uid", "ResizeWithdrawn.uid", "UidDeferred.uid", "UidGranted.uid",
		"UidRequested.uid", "UidWithdrawn.uid",
		"AgentStarted.found_user_namespaces", "ObjectsRead.uid", "PodCgroupLost.uid", "PodDirectoryFound.uid",
		"StorageExceeded.uid", "VolumesLost.uid",
	},
	namespace: {
		"AdmissionRequested.namespace", "CleanPod.namespace", "PodObserved.pod_namespace", "PodRef.namespace",
		"ObjectsSet.namespace",
	},
	podName: {
		"AdmissionRequested.name", "CleanPod.name", "PodObserved.pod_name", "PodRef.name",
	},
	fullName: {
		"AdmissionPendingPreemption.full_name", "ManifestProblem.pod", "ResizePendingPreemption.full_name",
	},
	container: {
		"AllContainersRestarting.container", "BackOffStarted.container", "ContainerObservation.name",
		"MemoryLimit.container", "PodStatusChanged.waiting", "ProbeResult.container", "ProbesSet.container",
		"RemoveContainer.container", "RunHook.container", "StartContainer.container", "StopContainer.container",
		"UpdateContainer.container",
		"StorageExceeded.container",
	},
	containerID: {
		"AllContainersRestarting.container_id", "CallFinished.container_id", "ContainerObservation.id",
		"MemoryLimit.container_id", "ProbeResult.container_id", "ProbesSet.container_id",
		"RemoveContainer.container_id", "RunHook.container_id", "StartContainer.container_id",
		"StopContainer.container_id", "UpdateContainer.container_id",
	},
	sandboxID: {
		"CallFinished.sandbox_id", "ContainerObservation.sandbox_id", "RemoveSandbox.sandbox_id",
		"SandboxObservation.id", "StartContainer.sandbox_id", "StopSandbox.sandbox_id",
		"UpdateContainer.sandbox_id",
	},
	image: {
		"ContainerObservation.image", "ImagePullDecided.image", "ImagePullRequested.image",
		"ImagePullWithdrawn.image", "PullImage.image", "PullProgressed.image",
		"CallFinished.missing_volume_image", "StartContainer.pulled_volume_images",
	},
	imageRef: {
		"CallFinished.image_ref", "ContainerObservation.image_ref", "ImagePullDecided.image_ref",
	},
	digest: {
		"AdmissionRequested.digest", "PodRef.digest", "ProbesSet.digest", "ResizeDecided.digest",
		"ResizePendingPreemption.digest", "ResizeRequested.digest", "RunHook.digest",
		"RunSandbox.allocated_digest", "RunSandbox.digest", "SetUpVolumes.allocated_digest",
		"SetUpVolumes.digest",
		"StartContainer.allocated_digest", "StartContainer.digest", "UpdateContainer.allocated_digest",
		"UpdateContainer.digest",
	},
	intent: {
		"CallDispatched.intent_id", "CallDropped.intent_id", "CallFinished.intent_id", "CallWithdrawn.intent_id",
		"ContainerObservation.intent_id", "SandboxObservation.intent_id",
	},
	reference: {
		"CallDropped.requester", "CallFinished.requester",
	},
	source: {
		"AgentConfig.sources", "ManifestsRead.source", "PodFinished.source", "PodForgotten.source",
		"PodUpdated.source", "SourceSynced.source", "UidDeferred.holder", "UidDeferred.source",
		"UidGranted.source", "UidRequested.source", "UidWithdrawn.source",
	},
	path: {
		"ManifestFile.path", "ManifestIgnored.path",
	},
	node: {
		"AgentConfig.node_name",
	},
	timer: {
		"TimerCleared.name", "TimerFired.name", "TimerSet.name",
	},
	hash: {
		"BackOffStarted.key", "ContainerObservation.hash",
	},
	drop: {
		"AdmissionDecided.message", "AgentConfig.node_labels", "AgentStarted.agent_id", "AgentStarted.boot_id",
		"CallFinished.message", "Condition.message", "ContainerObservation.message", "ContainerWaiting.message",
		"ImagePullDecided.message", "JournalDamaged.message", "ManifestIgnored.message", "ManifestProblem.field",
		"ManifestProblem.message", "PodDemand.host_ports", "PodStatusChanged.message", "PodTerminating.message",
		"ProbeResult.message", "ProbesSet.pod_ips", "Quarantined.message", "Record.previous_hash",
		"ResizeDecided.message", "ResizePendingPreemption.message", "RunHook.pod_ips",
		"RuntimeHealthChanged.message", "SandboxObservation.ips", "StartContainer.pod_ips",
		"DesiredVolume.contents", "DesiredVolume.name", "ObjectRead.digest", "ObjectRead.message",
		"ObjectRead.version", "ObjectRef.name", "ObjectRef.selector", "SetUpVolumes.pod_ips",
		"StorageExceeded.message", "StorageExceeded.volume", "VolumeOutcome.message", "VolumeOutcome.name",
		"VolumesLost.names",
	},
}
