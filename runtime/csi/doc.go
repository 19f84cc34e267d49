// Package csi sets up and tears down volumes of CSI drivers: it waits until a volume is attached, has its driver stage
// and publish it, and undoes both (ADR 068). Local volumes have no driver: it mounts them itself. It knows the drivers
// that have registered, and reports them for the CSINode. It may not decide when a pod needs a volume: that is the
// pod's actor.
//
// What drivers answer is hostile: each RPC has a deadline, its answer a bound, and the mount table is read after it.
// Secrets go to the driver and nowhere else. Start reading at volumes.go; records.go has what is on disk.
package csi
