package cri

// Labels and annotations on what this agent makes. Those of io.kubernetes.* are the kubelet's, so that crictl, log
// shippers and metrics agents find what they know.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"

	AnnotationHash                     = "io.kubernetes.container.hash"
	AnnotationRestartCount             = "io.kubernetes.container.restartCount"
	AnnotationTerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationPorts                    = "io.kubernetes.container.ports"
	AnnotationPreStopHandler           = "io.kubernetes.container.preStopHandler"
	AnnotationTerminationGracePeriod   = "io.kubernetes.pod.terminationGracePeriod"
	AnnotationDeletionGracePeriod      = "io.kubernetes.pod.deletionGracePeriod"
	AnnotationConfigSource             = "kubernetes.io/config.source"

	// AnnotationIntent holds the id of the intent that an object was made for: it settles an intent in doubt.
	AnnotationIntent = "journalet.io/intent"
	// AnnotationAgent holds the AgentID of the agent that made an object. Without it, hands off.
	AnnotationAgent = "journalet.io/agent"
)
