package oracle

// meant is a difference on purpose.
type meant struct {
	// why is its reason.
	why string
	// scope begins its row in the tables of docs/SCOPE.md, which describe the differences for users.
	scope string
}

// known holds the differences on purpose. The key is the comparer's name, the container that it concerns, if not all,
// and what differs. A kept case in testdata shows each difference; a difference that no case shows any more fails the
// run.
var known = with(map[string]meant{
	// Pulls.
	"credentials: a secret that cannot be read": {
		"the other credentials are tried: the image may be public",
		"a pull secret, or one of its entries, that cannot be read",
	},
	// Manifests.
	"decode: default metadata.uid": {
		"ours is a hash of the manifest as written, theirs of internal types",
		"UID of a static pod",
	},
	"decode: default metadata.annotations[kubernetes.io/config.hash]": {"it is the UID", "UID of a static pod"},
	"decode: default spec.priority": {
		"we set it as the API server does, from the class or 0; no API server did",
		"priority of a static pod",
	},
	onlyWe + "a field that does not exist": {
		"an unknown field: the kubelet drops it and runs the pod without",
		"unknown field",
	},
	onlyWe + "spec.priorityClassName": {"a class of the cluster, which no static pod can have", "priority class"},
	onlyWe + "spec.nodeName":          {"a pod for another node: the kubelet runs it here", "values that can never work"},
	onlyWe + "spec.automountServiceAccountToken": {
		"a token from the API server: the kubelet runs the pod without",
		"field that needs an API server",
	},
	onlyWe + "spec.terminationGracePeriodSeconds": {"more than 68 years", "values that can never work"},
	onlyWe + "spec.containers[].ports[].hostIP": {
		"an invalid address: for the kubelet the network plugin fails",
		"values that can never work",
	},
	onlyWe + "spec.volumes[].emptyDir.medium": {
		"an invalid medium: the kubelet fails at the mount",
		"values that can never work",
	},
	onlyWe + "spec.securityContext.seccompProfile.localhostProfile": {
		"an empty name: the kubelet fails at the start",
		"values that can never work",
	},
	onlyWe + "spec.containers[].env[].valueFrom.resourceFieldRef.containerName": {
		"an unknown container: the kubelet fails at the start",
		"values that can never work",
	},
	onlyWe + "spec.containers[].securityContext.seccompProfile.localhostProfile": {
		"an empty name: the kubelet fails at the start",
		"values that can never work",
	},
	onlyWe + "spec.containers[].securityContext.capabilities.add[]": {
		"an invalid name: the kubelet fails at the creation",
		"values that can never work",
	},
	onlyWe + "spec.containers[].securityContext.capabilities.drop[]": {
		"an invalid name: the kubelet fails at the creation",
		"values that can never work",
	},
	onlyWe + "spec.containers[].image": {
		"an invalid name: the kubelet fails at the pull",
		"values that can never work",
	},
	onlyWe + "spec.volumes[].image.reference": {
		"an invalid name: the kubelet fails at the pull",
		"values that can never work",
	},
	onlyWe + "spec.volumes[].downwardAPI.resourceFieldRef.containerName": {
		"an unknown container: the kubelet fails at the mount",
		"values that can never work",
	},
	onlyWe + "spec.volumes[].projected.sources[].downwardAPI.resourceFieldRef.containerName": {
		"the same",
		"values that can never work",
	},
	onlyWe + "metadata.uid": {
		"it names directories and subjects, so it may hold no separators",
		"values that can never work",
	},
	"decode: reference of a static pod to an object": {
		"ours have ConfigMaps, Secrets, tokens and trust bundles from files of the node",
		"objects of static pods",
	},
	// The same verdict on a more exact field, or on more fields at once.
	onlyWe + "spec.containers[].env[].valueFrom.fieldRef.apiVersion": {
		"the kubelet names fieldPath",
		"field that an error names",
	},
	onlyKubelet + "spec.containers[].env[].valueFrom.fieldRef.fieldPath": {
		"we name apiVersion",
		"field that an error names",
	},
	onlyWe + "spec.volumes[].downwardAPI.resourceFieldRef.resource": {
		"the kubelet checks the resource only with a container",
		"field that an error names",
	},
	onlyWe + "spec.volumes[].projected.sources[].downwardAPI.resourceFieldRef.resource": {
		"the same",
		"field that an error names",
	},
	onlyWe + "spec.volumes[].name": {
		"the kubelet checks duplicate names only of valid volumes",
		"field that an error names",
	},
	onlyWe + "spec.volumes[].hostPath.type": {
		"the kubelet checks the type only with a path",
		"field that an error names",
	},
	onlyWe + "spec.containers[].resources.limits[]": {
		"a limit above the pod's: the kubelet names an unknown field below spec.resources",
		"field that an error names",
	},
	onlyKubelet + "spec.nodeName": {
		"a pod with scheduling gates, which nothing would ever remove",
		"scheduling gates of a static pod",
	},
	onlyKubelet + "spec.containers[].volumeMounts[].name": {
		"for the kubelet an invalid volume does not exist, so it reports its mounts as well",
		"field that an error names",
	},
	onlyKubelet + "spec.containers[].ports[].hostPort": {
		"with hostNetwork it is the containerPort, which we name",
		"field that an error names",
	},
	// Configurations.
	"config: container linux.securityContext.namespaceOptions.usernsOptions.mode": {
		"the kubelet asks for no user namespace, we leave it out",
		"namespace options",
	},
	"config: sandbox linux.securityContext.namespaceOptions.usernsOptions.mode": {"the same", "namespace options"},
	"config: copied sandbox linux.securityContext.namespaceOptions.usernsOptions.mode": {
		"the same",
		"namespace options",
	},
	"config: sandbox linux.securityContext.runAsGroup.value": {
		"CRI rejects a group without a user, and with it the kubelet's sandbox",
		"runAsGroup without runAsUser",
	},
	"config: copied sandbox linux.securityContext.runAsGroup.value": {"the same", "runAsGroup without runAsUser"},
	"config: container with an optional file that is missing, outcome": {
		"the API leaves the variable out; the kubelet cannot open the file",
		"optional `fileKeyRef` to a file that does not exist",
	},
	"config: container with a variable that is no text, outcome": {
		"a key with other bytes is another key",
		"variable of a Secret whose bytes are not UTF-8",
	},
	"config: container linux.resources.unified[memory.low]": {"a new cgroup has 0", "memory.low and memory.min"},
	"config: container linux.resources.unified[memory.min]": {"a new cgroup has 0", "memory.low and memory.min"},
	// The end of a container.
	"message: message beyond 4096 bytes": {
		"the runtime's message counts as part of the message",
		"termination message",
	},
	"message: message with a log that is gone": {
		"our own error is not the container's message",
		"termination message",
	},
	// Statuses at the API server.
	"merge: revived in a terminal phase": {
		"a container that has ended has ended for the API server, too, as a journal that was lost does not know",
		"container of a pod with a terminal phase",
	},
	// Admission.
	"admission: ours NodePorts, the kubelet's admitted": {
		":: is every address of the host, also for a process that binds 0.0.0.0",
		"hostIP `::`",
	},
	"managers: exclusive resources after memory of several NUMA nodes was given back": {
		"the kubelet counts it for another node than it took it from; ours depends only on the pods that run",
		"memory of several NUMA nodes that a pod gives back",
	},
	// Pressure on the node.
	"eviction: pods that end within 10 s of the last crossing": {
		"a swing of 10 s around a threshold is one crossing, whose grace period and minimum reclaim stay",
		"pressure on the node | measured every 10 s",
	},
	"eviction: conditions after a swing": {
		"within 10 s a minimum reclaim that was there for a moment counts, too",
		"pressure on the node | measured every 10 s",
	},
	"allocate: what pods have after a waiting resize has changed": {
		"a resize to less goes first, as the kubelet's order says; the kubelet sorts only when a resize begins to wait",
		"waiting resize that changes to less",
	},
	"eviction: conditions that end a moment later": {
		"they hold from the end of the crossing, which is 10 s after the last sample that met a threshold",
		"pressure on the node | measured every 10 s",
	},
	"eviction: order of a pod that was not measured": {
		"it would be the first one, because its sandbox is new or the runtime slow",
		"pod that was not measured",
	},
	"eviction: pods that end when one was not measured": {"the same", "pod that was not measured"},
	"eviction: order by inodes of pods that request storage": {
		"the kubelet subtracts bytes of storage from a number of inodes",
		"requests of storage, when inodes are short",
	},
	"eviction: pods that end for inodes, of those that request storage": {
		"the same",
		"requests of storage, when inodes are short",
	},
	"eviction: pods that end around a signal that was not measured": {
		"a file system that hangs is neither full nor empty",
		"signal without figures",
	},
	"eviction: conditions around a signal that was not measured": {"the same", "signal without figures"},
	"eviction: pods that end after something else was removed": {
		"what is measured again and no longer acts costs no pod; the kubelet ends one if any threshold is met, also one " +
			"whose grace period is not over",
		"pressure that the removal of images or dead containers has ended",
	},
	// Resizes.
	"resize: " + inUse + "resources reported": {
		"of a container whose new first limit could not be applied we report what is allocated, " +
			"the kubelet what it reported before, which was never applied",
		"limit that could not be applied",
	},
	"config: port mappings of sidecars": {"the API accepts them, and admission counts them", "host ports of sidecars"},
	"config: hosts file: order of addresses": {
		"ours is that of the status; the kubelet's is the runtime's at the first start, later that of the status",
		"hosts file with two families",
	},
	// Histories; more of them are in known_history.go.
	"history: order of a container's start and that of init containers, when one starts again": {
		"a pod that has passed its init containers does not wait for one that starts again; the kubelet starts one after " +
			"the other",
		"init container or sidecar that starts again",
	},
}, histories)

// How the keys of comparePaths begin.
const (
	onlyWe      = "decode: only we reject "
	onlyKubelet = "decode: only the kubelet rejects "
)
