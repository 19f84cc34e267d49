// Package client is the agent's one way to the API server: a REST client over the API groups that a node uses (ADR
// 051).
//
// Load reads a kubeconfig. New creates a Client: its QPS and burst limit all requests except events and heartbeats,
// which have limits of their own (Client.Events, Client.Heartbeat). Get, List, Create, Update, Patch, Delete and
// ListWatch take a Client and a Resource, such as Pods. Contact reports when the API server stops answering, and when
// it answers again.
//
// Nothing here runs or is allocated without a kubeconfig. The generated clientset and its scheme are not imported:
// they register every group of Kubernetes.
//
// Start at client.go.
package client
