package oracle

// known are the differences that are meant, or that wait to be mended, each with its reason. The key is the comparer's
// name and what differs; one that ends in * stands for all that begin like it. One that occurs no more fails the run: a list
// of exceptions must not outlive them. docs/SCOPE.md tells the same to those who run the agent.
var known = map[string]string{
	// Meant: manifests.
	"decode: default metadata.uid":                                                             "ours is a hash over what the author wrote, theirs over internal types",
	"decode: default metadata.annotations[kubernetes.io/config.hash]":                          "it is the UID",
	"decode: default spec.priority":                                                            "filled in as the API server does, from the class or 0; nobody else is there to do it",
	"decode: only we refuse spec.containers[].limits":                                          "a field that does not exist: the kubelet drops it and runs the pod without",
	"decode: only we refuse spec.priorityClassName":                                            "a class that nobody can look up",
	"decode: only we refuse spec.nodeName":                                                     "a pod for another node: the kubelet runs it here",
	"decode: only we refuse spec.automountServiceAccountToken":                                 "a token that nobody can give: the kubelet runs the pod without",
	"decode: only we refuse spec.terminationGracePeriodSeconds":                                "more than 68 years",
	"decode: only we refuse spec.containers[].ports[].hostIP":                                  "no address: the kubelet finds out from the network plugin",
	"decode: only we refuse spec.volumes[].emptyDir.medium":                                    "no medium: the kubelet finds out when it mounts the volume",
	"decode: only we refuse spec.securityContext.seccompProfile.localhostProfile":              "an empty name: the kubelet finds out when it starts the container",
	"decode: only we refuse spec.containers[].env[].valueFrom.resourceFieldRef.containerName":  "no such container: the kubelet finds out when it starts the container",
	"decode: only we refuse spec.containers[].securityContext.seccompProfile.localhostProfile": "the same",
	"decode: only we refuse spec.containers[].securityContext.capabilities.add[]":              "no capability's name: the kubelet finds out when it makes the container",
	"decode: only we refuse spec.containers[].securityContext.capabilities.drop[]":             "the same",
	"decode: only we refuse spec.containers[].image":                                           "no image's name: the kubelet finds out when it pulls",
	"decode: only we refuse metadata.uid":                                                      "it names folders and subjects, and must lead nowhere else",
	// Meant: the same verdict, told of a more exact field, or of more fields at once.
	"decode: only we refuse spec.containers[].env[].valueFrom.fieldRef.apiVersion":          "the kubelet says it of fieldPath",
	"decode: only the kubelet refuses spec.containers[].env[].valueFrom.fieldRef.fieldPath": "we say it of apiVersion",
	"decode: only we refuse spec.containers[].env[].valueFrom.resourceFieldRef.divisor":     "the kubelet looks at the divisor only once the resource is right",
	"decode: only we refuse spec.containers[].volumeMounts[].mountPropagation":              "the kubelet leaves out which mount it is",
	"decode: only we refuse spec.volumes[].name":                                            "the kubelet looks for a second one of a name only among good volumes",
	"decode: only we refuse spec.dnsConfig.searches[]":                                      "with policy None the kubelet looks no further than at a missing nameserver",
	"decode: only we refuse spec.dnsConfig.options[].name":                                  "the same",
	"decode: only we refuse spec.volumes[].hostPath.type":                                   "the kubelet looks at the type only once there is a path",
	"decode: only we refuse spec.containers[].resources.limits[]":                           "a limit above the pod's: the kubelet names a field below spec.resources that does not exist",
	"decode: only the kubelet refuses spec.containers[].volumeMounts[].name":                "for the kubelet a bad volume does not exist, which it tells of each mount as well",
	"decode: only the kubelet refuses spec.containers[].ports[].hostPort":                   "with hostNetwork it is the containerPort, of which we say it",

	// Meant: configurations.
	"config: container linux.securityContext.namespaceOptions.usernsOptions.mode":      "the kubelet says that there is no user namespace, we say nothing",
	"config: sandbox linux.securityContext.namespaceOptions.usernsOptions.mode":        "the same",
	"config: copied sandbox linux.securityContext.namespaceOptions.usernsOptions.mode": "the same",
	"config: sandbox linux.securityContext.runAsGroup.value":                           "CRI refuses a group without a user, and with it the kubelet's whole sandbox",
	"config: copied sandbox linux.securityContext.runAsGroup.value":                    "the same",
	"config: container linux.resources.unified[memory.low]":                            "0 is what a new cgroup has",
	"config: container linux.resources.unified[memory.min]":                            "0 is what a new cgroup has",

	// Meant: the end of a container.
	"message: message beyond 4096 bytes":       "the runtime's own word counts as part of the message",
	"message: message with a log that is gone": "an error of ours is no message of the container's",

	// Meant: admission.
	"admission: we say NodePorts, the kubelet admitted": ":: is every address of the host, also to those who bind 0.0.0.0",

	// Meant: resizes.
	"resize: " + inUse + "resources told": "of a container without a limit that could not be given one we tell what is allocated, the kubelet what it told before, which was never in force",

	// Meant: histories. Each stands for all that follows from one thing, which classOf finds out exactly.
	"history: " + neverStarted + "*": "one that was made and never started is made again and removed; the kubelet takes it for one that ended without a word, under Never and OnFailure lets it be, and keeps it",
	"history: " + unknownAgain + "*": "it is started again; the kubelet takes the end of the one before it for its own, under Never and OnFailure lets it be, and counts it as dead",
	"history: " + unknownEnds + "*":  "it is stopped before its sandbox is, and under Never it counts as ended (ADR 015); the kubelet takes it for dead, or starts it again",

	"lifecycle: " + neverStarted + "*":   "as above",
	"lifecycle: " + unknownAgain + "*":   "as above",
	"lifecycle: " + unknownEnds + "*":    "as above; and an init container whose own policy is Never has failed the pod then, where the kubelet begins anew in another sandbox",
	"lifecycle: " + ownPolicyLost + "*":  "its own policy holds for a new sandbox, too; the kubelet asks the pod's and starts again what has ended for good",
	"lifecycle: " + initLost + "*":       "its newest dead instance is kept and counted as every container's; the kubelet removes all instances and begins to count anew",
	"lifecycle: " + startedAgain + "*":   "the new instance has not started up; the kubelet says so of it until its own startup probe has run (feature gate ChangeContainerStatusOnKubeletRestart), and starts what comes after a sidecar",
	"lifecycle: " + startingSide + "*":   "it is replaced at once; the kubelet waits until its startup probe has succeeded",
	"lifecycle: " + unhealthyRules + "*": "the exit code of what was ended as unhealthy says nothing, so no rule is asked (ADR 011); the kubelet asks them one sync later",
	"lifecycle: " + endingForGood + "*":  "it is started once more, until the last main container has ended",
	"lifecycle: " + initThatIsGone + "*": "told in our own words; when it runs again in a new sandbox, the kubelet counts what it presumed as a run",
}
