// Package quota reads what a directory takes from the project quota of its file system, in place of walking its tree.
// Directories are only measured: no limit is set, because a pod that exceeds its limit is evicted and does not get
// ENOSPC. It is for directories that processes of other user namespaces write: in the node's own one, the owner of a
// file may give it to another project, and so hide it. Start reading at Assign
// in quota.go.
package quota
