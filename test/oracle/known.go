package oracle

// known holds the differences that are meant, each with its reason. The key is the comparer's name and what differs; a
// key that ends in * matches every longer one. An entry that no longer occurs fails the run. docs/SCOPE.md describes
// the differences for users.
var known = map[string]string{
	// Manifests.
	"decode: default metadata.uid": "ours is a hash of the manifest as written, " +
		"theirs of internal types",
	"decode: default metadata.annotations[kubernetes.io/config.hash]": "it is the UID",
	"decode: default spec.priority": "we set it as the API server does, from the " +
		"class or 0; no API server did",
	onlyWe +
		"spec.containers[].limits": "an unknown field: the kubelet drops it and runs the pod without",
	onlyWe +
		"spec.priorityClassName": "a class of the cluster, which no static pod can have",
	onlyWe +
		"spec.nodeName": "a pod for another node: the kubelet runs it here",
	onlyWe +
		"spec.automountServiceAccountToken": "a token from the API server: the kubelet runs the pod without",
	onlyWe + "spec.terminationGracePeriodSeconds": "more than 68 years",
	onlyWe +
		"spec.containers[].ports[].hostIP": "an invalid address: for the kubelet the network plugin fails",
	onlyWe +
		"spec.volumes[].emptyDir.medium": "an invalid medium: the kubelet fails at the mount",
	onlyWe +
		"spec.securityContext.seccompProfile.localhostProfile": "an empty name: the kubelet fails at the start",
	onlyWe +
		"spec.containers[].env[].valueFrom.resourceFieldRef.containerName": "an unknown container: the kubelet fails at " +
		"the start",
	onlyWe +
		"spec.containers[].securityContext.seccompProfile.localhostProfile": "an empty name: the kubelet fails at the start",
	onlyWe + "spec.containers[].securityContext.capabilities.add[]":  "an invalid name: the kubelet fails at the creation",
	onlyWe + "spec.containers[].securityContext.capabilities.drop[]": "an invalid name: the kubelet fails at the creation",
	onlyWe + "spec.containers[].image":                               "an invalid name: the kubelet fails at the pull",
	onlyWe +
		"metadata.uid": "it names directories and subjects, so it may hold no separators",
	// The same verdict on a more exact field, or on more fields at once.
	onlyWe + "spec.containers[].env[].valueFrom.fieldRef.apiVersion":     "the kubelet names fieldPath",
	onlyKubelet + "spec.containers[].env[].valueFrom.fieldRef.fieldPath": "we name apiVersion",
	onlyWe +
		"spec.containers[].env[].valueFrom.resourceFieldRef.divisor": "the kubelet checks the divisor only of a valid " +
		"resource",
	onlyWe + "spec.containers[].volumeMounts[].mountPropagation": "the kubelet does not name the mount",
	onlyWe +
		"spec.volumes[].name": "the kubelet checks duplicate names only of valid volumes",
	onlyWe + "spec.dnsConfig.searches[]":     "with policy None the kubelet stops at a missing nameserver",
	onlyWe + "spec.dnsConfig.options[].name": "with policy None the kubelet stops at a missing nameserver",
	onlyWe + "spec.volumes[].hostPath.type":  "the kubelet checks the type only with a path",
	onlyWe +
		"spec.containers[].resources.limits[]": "a limit above the pod's: the kubelet names an unknown field below " +
		"spec.resources",
	onlyKubelet +
		"spec.containers[].volumeMounts[].name": "for the kubelet an invalid volume does not exist, so it reports its " +
		"mounts as well",
	onlyKubelet + "spec.containers[].ports[].hostPort": "with hostNetwork it is the containerPort, which we name",

	// Configurations.
	"config: container linux.securityContext.namespaceOptions.usernsOptions.mode": "the kubelet asks for no user " +
		"namespace, we leave it out",
	"config: sandbox linux.securityContext.namespaceOptions.usernsOptions.mode":        "the same",
	"config: copied sandbox linux.securityContext.namespaceOptions.usernsOptions.mode": "the same",
	"config: sandbox linux.securityContext.runAsGroup.value": "CRI rejects a group without a " +
		"user, and with it the kubelet's sandbox",
	"config: copied sandbox linux.securityContext.runAsGroup.value": "the same",
	"config: container linux.resources.unified[memory.low]":         "a new cgroup has 0",
	"config: container linux.resources.unified[memory.min]":         "a new cgroup has 0",

	// The end of a container.
	"message: message beyond 4096 bytes":       "the runtime's message counts as part of the message",
	"message: message with a log that is gone": "our own error is not the container's message",

	// Admission.
	"admission: ours NodePorts, the kubelet's admitted": ":: is every address of the host, also for a process that " +
		"binds 0.0.0.0",

	// Resizes.
	"resize: " + inUse +
		"resources reported": "of a container whose new first limit could not be applied we report what is allocated, the " +
		"kubelet what it reported before, which was never applied",

	// Histories. An entry covers everything that follows from one class of histories (class.go).
	"history: " + neverStarted +
		"*": "we create it again and remove the first one; the kubelet takes it for a terminated one without an exit code, " +
		"under Never and OnFailure does nothing, and keeps it",
	"history: " + unknownAgain +
		"*": "we start it again; the kubelet takes the end of the instance before for its own, under Never and " +
		"OnFailure does nothing, and counts it as dead",
	"history: " + unknownEnds +
		"*": "we stop it before its sandbox, and under Never it counts as terminated (ADR 015); the kubelet takes it " +
		"for dead, or starts it again",

	"lifecycle: " + neverStarted + "*": "as above",
	"lifecycle: " + unknownAgain + "*": "as above",
	"lifecycle: " + unknownEnds +
		"*": "as above; and an init container whose own policy is Never has then failed the pod, where the kubelet " +
		"starts again in another sandbox",
	"lifecycle: " + ownPolicyLost +
		"*": "its own policy holds for a new sandbox, too; the kubelet uses the pod's, and starts terminated containers " +
		"again",
	"lifecycle: " + initLost +
		"*": "we keep and count its newest dead instance as every container's; the kubelet removes all instances and " +
		"counts from 0 again",
	"lifecycle: " + startedAgain +
		"*": "the new instance has not started up; the kubelet reports that it has until its startup probe has run " +
		"(feature gate ChangeContainerStatusOnKubeletRestart), and starts the containers after a sidecar",
	"lifecycle: " + startingSide + "*": "we replace it at once; the kubelet waits until its startup probe has succeeded",
	"lifecycle: " + unhealthyRules +
		"*": "the exit code of a container stopped as unhealthy has no meaning, so we apply no rule (ADR 011); the " +
		"kubelet applies them one sync later",
	"lifecycle: " + endingForGood + "*": "we start it once more, until the last main container has ended",
	"lifecycle: " + initGone +
		"*": "our message differs; when it runs again in a new sandbox, the kubelet counts the presumed run",
}

// How the keys of comparePaths begin.
const (
	onlyWe      = "decode: only we reject "
	onlyKubelet = "decode: only the kubelet rejects "
)
