package cri

// Labels and annotations of the objects that this agent creates. Those of io.kubernetes.* are the kubelet's, so that
// crictl, log shippers and metrics agents find what they know.
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

	// AnnotationIntent holds the id of the intent that created the object. It resolves an intent in doubt.
	AnnotationIntent = "journalet.io/intent"
	// AnnotationAgent holds the AgentID of the agent that created the object: see Owner.
	AnnotationAgent = "journalet.io/agent"
)
