// Package volume makes what a pod's containers mount, and takes it down again: the pod's folders, emptyDir volumes on
// disk and in memory, checked hostPath volumes, the files that an agent mounts into containers, and in the end the
// removal of all that with the pod's logs. It may not talk to the container runtime or decide when a pod is done with
// its volumes. Names come from manifests and folder contents from containers, so all access below a pod's folder goes
// through os.Root, links are never followed, and nothing is removed through a mount. Start reading at driver.go, then
// emptydir.go and cleanup.go.
package volume
