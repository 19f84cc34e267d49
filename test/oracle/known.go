package oracle

// known are the differences that are meant, each with its reason. The key is the comparer's name and what differs; a
// key that ends in * stands for all that begin like it. A difference that occurs no more fails the run: the list must
// not outlive its reasons. docs/SCOPE.md says the same to those who run the agent.
var known = map[string]string{
	// Meant: manifests.
	"decode: default metadata.uid": "" +
		"ours is a hash over what the author wrote, theirs over internal types",
	"decode: default metadata.annotations[kubernetes.io/config.hash]": "it is the UID",
	"decode: default spec.priority": "" +
		"filled in as the API server does, from the class or 0; a static pod passes no API server",
	"decode: only we refuse spec.containers[].limits": "" +
		"a field that does not exist: the kubelet drops it and runs the pod without",
	"decode: only we refuse spec.priorityClassName": "a class that cannot be looked up without an API server",
	"decode: only we refuse spec.nodeName":          "a pod for another node: the kubelet runs it here",
	"decode: only we refuse spec.automountServiceAccountToken": "" +
		"a token that only an API server can issue: the kubelet runs the pod without",
	"decode: only we refuse spec.terminationGracePeriodSeconds": "more than 68 years",
	"decode: only we refuse spec.containers[].ports[].hostIP": "" +
		"not an IP address: the kubelet leaves the error to the network plugin",
	"decode: only we refuse spec.volumes[].emptyDir.medium": "not a medium: the kubelet fails when it mounts the volume",
	"decode: only we refuse spec.securityContext.seccompProfile.localhostProfile": "" +
		"an empty name: the kubelet fails when it starts the container",
	"decode: only we refuse spec.containers[].env[].valueFrom.resourceFieldRef.containerName": "" +
		"no such container: the kubelet fails when it starts the container",
	"decode: only we refuse spec.containers[].securityContext.seccompProfile.localhostProfile": "the same",
	"decode: only we refuse spec.containers[].securityContext.capabilities.add[]": "" +
		"not a capability: the kubelet fails when it creates the container",
	"decode: only we refuse spec.containers[].securityContext.capabilities.drop[]": "the same",
	"decode: only we refuse spec.containers[].image": "" +
		"not an image reference: the kubelet fails when it pulls",
	"decode: only we refuse metadata.uid": "" +
		"it is part of directories and subjects, and must not lead out of them",
	// Meant: the same verdict, reported for a more exact field, or for more fields at once.
	"decode: only we refuse spec.containers[].env[].valueFrom.fieldRef.apiVersion": "" +
		"the kubelet reports fieldPath",
	"decode: only the kubelet refuses spec.containers[].env[].valueFrom.fieldRef.fieldPath": "we report apiVersion",
	"decode: only we refuse spec.containers[].env[].valueFrom.resourceFieldRef.divisor": "" +
		"the kubelet checks the divisor only if the resource is valid",
	"decode: only we refuse spec.containers[].volumeMounts[].mountPropagation": "the kubelet omits the index of the mount",
	"decode: only we refuse spec.volumes[].name": "" +
		"the kubelet looks for duplicate names only among valid volumes",
	"decode: only we refuse spec.dnsConfig.searches[]": "" +
		"with policy None the kubelet stops at a missing nameserver",
	"decode: only we refuse spec.dnsConfig.options[].name": "the same",
	"decode: only we refuse spec.volumes[].hostPath.type": "" +
		"the kubelet checks the type only if there is a path",
	"decode: only we refuse spec.containers[].resources.limits[]": "" +
		"a limit above the pod's: the kubelet reports a field below spec.resources that does not exist",
	"decode: only the kubelet refuses spec.containers[].volumeMounts[].name": "" +
		"for the kubelet an invalid volume does not exist, which it reports for each mount as well",
	"decode: only the kubelet refuses spec.containers[].ports[].hostPort": "" +
		"with hostNetwork it is the containerPort, and we report that",

	// Meant: configurations.
	"config: container linux.securityContext.namespaceOptions.usernsOptions.mode": "" +
		"the kubelet sets that there is no user namespace, we leave the field empty",
	"config: sandbox linux.securityContext.namespaceOptions.usernsOptions.mode":        "the same",
	"config: copied sandbox linux.securityContext.namespaceOptions.usernsOptions.mode": "the same",
	"config: sandbox linux.securityContext.runAsGroup.value": "" +
		"CRI refuses a group without a user, and so the kubelet's whole sandbox",
	"config: copied sandbox linux.securityContext.runAsGroup.value": "the same",
	"config: container linux.resources.unified[memory.low]":         "0 is what a new cgroup has",
	"config: container linux.resources.unified[memory.min]":         "0 is what a new cgroup has",

	// Meant: the end of a container.
	"message: message beyond 4096 bytes":       "the runtime's own text counts as part of the message",
	"message: message with a log that is gone": "an error of the agent is not the container's message",

	// Meant: admission.
	"admission: we say NodePorts, the kubelet admitted": ":: is every address of the host, also for who binds 0.0.0.0",

	// Meant: resizes.
	"resize: " + inUse + "reported resources": "" +
		"if a container without a limit could not be given one, we report what is allocated; the kubelet reports what it " +
		"reported before, which was never applied",

	// Meant: histories. Each stands for all that follows from one thing, which classOf finds out exactly.
	"history: " + neverStarted + "*": "" +
		"a container that was created and never started is created again, and the first instance removed; the kubelet " +
		"takes it for one that ended without a message, leaves it alone under Never and OnFailure, and keeps it",
	"history: " + unknownAgain + "*": "" +
		"it is started again; the kubelet takes the exit of the instance before for its own, leaves it alone under Never " +
		"and OnFailure, and counts it as dead",
	"history: " + unknownEnds + "*": "" +
		"it is stopped before its sandbox is, and counts as ended under Never (ADR 015); the kubelet counts it as dead, " +
		"or starts it again",

	"lifecycle: " + neverStarted + "*": "as above",
	"lifecycle: " + unknownAgain + "*": "as above",
	"lifecycle: " + unknownEnds + "*": "" +
		"as above; and an init container whose own policy is Never then fails the pod, while the kubelet starts again in " +
		"another sandbox",
	"lifecycle: " + ownPolicyLost + "*": "" +
		"its own policy holds for a new sandbox, too; the kubelet applies the pod's policy and starts again what has " +
		"ended for good",
	"lifecycle: " + initLost + "*": "" +
		"its newest dead instance is kept and counted, as for every container; the kubelet removes all instances and " +
		"counts from 0 again",
	"lifecycle: " + startedAgain + "*": "" +
		"the new instance has not started up; the kubelet says so of it until its own startup probe has run (feature " +
		"gate ChangeContainerStatusOnKubeletRestart), and starts what comes after a sidecar",
	"lifecycle: " + startingSide + "*": "it is replaced at once; the kubelet waits until its startup probe has succeeded",
	"lifecycle: " + unhealthyRules + "*": "" +
		"the exit code of a container that was killed as unhealthy is not its own, so no rule is applied (ADR 011); the " +
		"kubelet applies them one sync later",
	"lifecycle: " + endingForGood + "*": "it is started once more, until the last main container has ended",
	"lifecycle: " + initThatIsGone + "*": "" +
		"reported in our own words; when it runs again in a new sandbox, the kubelet counts the presumed run, too",
}
