package actors

// ReasonUnsupported is the reason of a pod of the API server that needs what this version does not carry out: it is
// rejected, or left alone if it runs already (kubelet: the same, for features that a node does not declare).
const ReasonUnsupported = "PodFeatureUnsupported"
