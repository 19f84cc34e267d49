// Package api reads the pods of this node from the API server: a Reflector lists and watches them, and what concerns
// the node becomes facts. It decides nothing: what is unsupported, deleted or ended it reports with the pod (ADR 051).
//
// Pods gives the newest objects to the components that write to the API server. Mirror pods are not pods of this
// source.
//
// Start with driver.go.
package api
