package node

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/runtime/cluster/client"
)

// Requests are what the driver requests of the API server about one node. The methods return errors of apimachinery's
// package api/errors, or of the transport.
type Requests interface {
	Node(ctx context.Context) (*corev1.Node, error)
	CreateNode(ctx context.Context, n *corev1.Node) (*corev1.Node, error)
	// PatchNode patches the Node, or a subresource, with a strategic merge.
	PatchNode(ctx context.Context, patch []byte, subresources ...string) (*corev1.Node, error)
	Lease(ctx context.Context) (*coordinationv1.Lease, error)
	CreateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error)
	// UpdateLease replaces the Lease, with its resourceVersion as a precondition.
	UpdateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error)
	CSINode(ctx context.Context) (*storagev1.CSINode, error)
	CreateCSINode(ctx context.Context, n *storagev1.CSINode) (*storagev1.CSINode, error)
	// UpdateCSINode replaces the CSINode, with its resourceVersion as a precondition.
	UpdateCSINode(ctx context.Context, n *storagev1.CSINode) (*storagev1.CSINode, error)
}

// requests returns what sends the driver's requests.
func (d *Driver) requests() Requests {
	if d.opts.Requests != nil {
		return d.opts.Requests
	}
	return restRequests{d.opts.Client, d.opts.Settings.Name}
}

// restRequests sends requests over HTTP. The status of the Node and its Lease have the client of heartbeats.
type restRequests struct {
	*client.Client
	name string
}

// Node implements Requests, as do the methods below.
func (r restRequests) Node(ctx context.Context) (*corev1.Node, error) {
	return client.Get(ctx, r.Heartbeat(), client.Nodes, "", r.name)
}

// CreateNode creates the Node.
func (r restRequests) CreateNode(ctx context.Context, n *corev1.Node) (*corev1.Node, error) {
	return client.Create(ctx, r.Client, client.Nodes, "", n)
}

// PatchNode patches the Node.
func (r restRequests) PatchNode(ctx context.Context, patch []byte, subresources ...string) (*corev1.Node, error) {
	return client.Patch(ctx, r.Heartbeat(), client.Nodes, "", r.name, types.StrategicMergePatchType, patch,
		subresources...)
}

// Lease returns the Lease.
func (r restRequests) Lease(ctx context.Context) (*coordinationv1.Lease, error) {
	return client.Get(ctx, r.Heartbeat(), client.Leases, leaseNamespace, r.name)
}

// CreateLease creates the Lease.
func (r restRequests) CreateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return client.Create(ctx, r.Heartbeat(), client.Leases, leaseNamespace, l)
}

// UpdateLease replaces the Lease.
func (r restRequests) UpdateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return client.Update(ctx, r.Heartbeat(), client.Leases, leaseNamespace, r.name, l)
}

// CSINode returns the CSINode.
func (r restRequests) CSINode(ctx context.Context) (*storagev1.CSINode, error) {
	return client.Get(ctx, r.Client, client.CSINode, "", r.name)
}

// CreateCSINode creates the CSINode.
func (r restRequests) CreateCSINode(ctx context.Context, n *storagev1.CSINode) (*storagev1.CSINode, error) {
	return client.Create(ctx, r.Client, client.CSINode, "", n)
}

// UpdateCSINode replaces the CSINode.
func (r restRequests) UpdateCSINode(ctx context.Context, n *storagev1.CSINode) (*storagev1.CSINode, error) {
	return client.Update(ctx, r.Client, client.CSINode, "", r.name, n)
}
