// Package lockfile takes the lock of --lock-file, which has the kubelets of a machine start one after the other, and
// ends the run when another process wants the lock. It is not the lock of the root directory, which package bus takes.
// Start with hold.go.
package lockfile
