// Package podsapi serves the API Pods v1alpha1 (KEP-4188) on a socket: the pods of the node with their status, and a
// watch of them, for agents of the node. It knows neither actors nor the journal: both come as functions. While nobody
// watches, a stored record costs it one comparison, and it has no copy of a pod (ADR 104).
//
// Start at server.go. watch.go has what watchers share; package clients bounds what clients may keep.
package podsapi
