// Package volume sets up and tears down what a pod's containers mount: the pod's directories, emptyDir volumes on disk
// and in memory, checked hostPath volumes, and the files that the agent mounts into containers. At the end it removes
// all of that and the pod's logs. It may not talk to the container runtime or decide when a pod needs its volumes no
// longer. Names come from manifests and directory contents from containers, so all access below a pod's directory goes
// through os.Root, links are never followed, and nothing is removed through a mount. Start reading at driver.go, then
// emptydir.go and cleanup.go.
package volume
