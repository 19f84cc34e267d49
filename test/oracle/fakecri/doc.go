// Package fakecri is a fake container runtime. Each side of the oracle has one: the kubelet through the Go interface of
// its CRI client, ours through an in-process connection. It keeps sandboxes and containers, records every call
// that changes something, and has the caller's clock. It must not differ between the two sides. Start reading at
// runtime.go; service.go is the kubelet's interface, conn.go ours.
package fakecri
