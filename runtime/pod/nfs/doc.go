// Package nfs mounts and unmounts NFS exports by mount(8) and umount(8), whose helper mount.nfs negotiates with the
// server. It may not decide when a pod needs one, nor touch what is mounted: a server that is away would block that
// for as long as it is away. So every process has a deadline and is killed with its children, and what is mounted
// where is read from the mount table (package mount8, ADR 071). Start reading at mount.go.
package nfs
