// Package node keeps the Node of this machine at the API server as it should be: it creates it, patches its status when
// something has changed, renews its Lease, and creates its CSINode (ADR 053).
//
// object.go builds the Node from what the agent knows and does no I/O. register.go creates it or takes over an existing
// one, driver.go compares and patches, lease.go sends the heartbeats. Only NodeRegistered and NodeObserved are
// recorded, on change: what is written to the API server can be computed again.
//
// Start at driver.go.
package node
