// Package fakecri is a container runtime of which both sides of the oracle get one each: the kubelet through the Go
// interface of its CRI client, ours through a gRPC connection that goes nowhere. It keeps sandboxes and containers,
// writes down every call that changes something, and has no time but what it is given. It judges nothing and must not
// differ between the two sides. Start reading at runtime.go; service.go is the kubelet's door, conn.go ours.
package fakecri
