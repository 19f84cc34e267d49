// Package persistentvolume sets up and tears down PersistentVolumes, and the inline volumes of CSI drivers. Of a CSI
// volume it waits until it is attached, and the driver stages and publishes it (ADR 068); a local, hostPath or NFS one
// has no driver and is mounted here. The package knows the drivers that have registered, and reports them for the
// CSINode. It may not decide when a pod needs a volume: that is the pod's actor.
//
// What drivers answer is hostile: each RPC has a deadline, its answer a bound, and the mount table is read after it.
// Secrets go to the driver and nowhere else. Start reading at volumes.go; records.go has what is on disk.
package persistentvolume
