// Package volume sets up and tears down what a pod's containers mount: the pod's directories, emptyDir volumes on disk,
// in memory and in huge pages, checked hostPath volumes, files of ConfigMaps, Secrets and projections, and the files
// that the agent mounts into containers. At the end it removes all of that and the pod's logs. At the start of the
// agent it compares the disk and the mount table with the journal. It may not talk to the container runtime or decide
// when a pod needs its volumes no longer (ADR 039, ADR 041).
//
// Names come from manifests and directory contents from containers, so all access below a pod's directory goes through
// os.Root, links are never followed, nothing is removed through a mount, and no error has a value. Start reading at
// setup.go, then contents.go and writer.go; teardown.go and reconcile.go stand alone.
package volume
