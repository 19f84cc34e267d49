package why

// Start is where the time of a pod's start went.
type Start struct{}
