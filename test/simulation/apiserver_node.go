package simulation

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/journalet/journalet/runtime/cluster/node"
	"github.com/journalet/journalet/runtime/source/manifest"
)

func compareNames(a, b podName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// nodeRequests are the requests of the driver of the Node, on the coroutine of their caller.
type nodeRequests struct{ *member }

var _ node.Requests = nodeRequests{}

// Node implements node.Requests, as do the methods below.
func (r nodeRequests) Node(context.Context) (out *corev1.Node, err error) {
	return out, r.request("get", func(a *apiServer) error {
		if out = a.node; out == nil {
			return apierrors.NewNotFound(nodesResource, nodeName)
		}
		return nil
	})
}

// CreateNode creates the Node.
func (r nodeRequests) CreateNode(_ context.Context, n *corev1.Node) (out *corev1.Node, err error) {
	return out, r.request("create", func(a *apiServer) error {
		if a.node != nil {
			return apierrors.NewAlreadyExists(nodesResource, nodeName)
		}
		out = a.putNode(n.DeepCopy())
		return nil
	})
}

// PatchNode patches the Node.
func (r nodeRequests) PatchNode(_ context.Context, patch []byte, _ ...string) (out *corev1.Node, err error) {
	return out, r.request("patch", func(a *apiServer) error {
		if a.node == nil {
			return apierrors.NewNotFound(nodesResource, nodeName)
		}
		next := new(corev1.Node)
		if err := merge(*a.node, patch, next); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if next.UID != a.node.UID {
			return apierrors.NewConflict(nodesResource, nodeName, fmt.Errorf("the UID is %s", a.node.UID))
		}
		out = a.putNode(next)
		return nil
	})
}

// Lease returns the Lease.
func (r nodeRequests) Lease(context.Context) (out *coordinationv1.Lease, err error) {
	return out, r.request("get", func(a *apiServer) error {
		if out = a.lease; out == nil {
			return apierrors.NewNotFound(leaseResource, nodeName)
		}
		return nil
	})
}

// CreateLease creates the Lease.
func (r nodeRequests) CreateLease(_ context.Context, l *coordinationv1.Lease) (
	out *coordinationv1.Lease, err error,
) {
	return out, r.request("create", func(a *apiServer) error {
		if a.lease != nil {
			return apierrors.NewAlreadyExists(leaseResource, nodeName)
		}
		out = a.putLease(l)
		return nil
	})
}

// UpdateLease replaces the Lease.
func (r nodeRequests) UpdateLease(_ context.Context, l *coordinationv1.Lease) (
	out *coordinationv1.Lease, err error,
) {
	return out, r.request("update", func(a *apiServer) error {
		switch {
		case a.lease == nil:
			return apierrors.NewNotFound(leaseResource, nodeName)
		case a.lease.ResourceVersion != l.ResourceVersion:
			return apierrors.NewConflict(leaseResource, nodeName, fmt.Errorf("the version is another"))
		}
		out = a.putLease(l)
		return nil
	})
}

// CSINode returns the CSINode.
func (r nodeRequests) CSINode(context.Context) (out *storagev1.CSINode, err error) {
	return out, r.request("get", func(a *apiServer) error {
		if out = a.csi; out == nil {
			return apierrors.NewNotFound(csiResource, nodeName)
		}
		return nil
	})
}

// CreateCSINode creates the CSINode.
func (r nodeRequests) CreateCSINode(_ context.Context, n *storagev1.CSINode) (out *storagev1.CSINode, err error) {
	return out, r.request("create", func(a *apiServer) error {
		if a.csi != nil {
			return apierrors.NewAlreadyExists(csiResource, nodeName)
		}
		a.csi, out = n, n
		return nil
	})
}

// UpdateCSINode replaces the CSINode.
func (r nodeRequests) UpdateCSINode(_ context.Context, n *storagev1.CSINode) (out *storagev1.CSINode, err error) {
	return out, r.request("update", func(a *apiServer) error {
		if a.csi == nil {
			return apierrors.NewNotFound(csiResource, nodeName)
		}
		a.csi, out = n, n
		return nil
	})
}

func (a *apiServer) putNode(n *corev1.Node) *corev1.Node {
	kind := watch.Modified
	if a.node == nil {
		kind, n.UID, n.CreationTimestamp = watch.Added, a.newUID("node"), a.now()
	}
	n.ResourceVersion = a.next()
	a.node = n
	a.changed(change{kind: kind, node: n})
	return n
}

func (a *apiServer) putLease(l *coordinationv1.Lease) *coordinationv1.Lease {
	a.lease = l.DeepCopy()
	a.lease.ResourceVersion = a.next()
	a.renewed = a.sim.clock.uptime
	return a.lease
}

// How long the control plane takes to remove what belonged to a Node, and the pods of a Node that does not come back.
const (
	ownedGone  = 20 * time.Second
	orphanGone = time.Minute
)

// deleteNode deletes the Node. What it owned follows; its pods only if it does not come back.
func (a *apiServer) deleteNode() {
	n := a.node
	if n == nil {
		return
	}
	a.node = nil
	gone := n.DeepCopy()
	gone.ResourceVersion = a.next()
	a.changed(change{kind: watch.Deleted, node: gone})
	a.sim.later(between(a.noise, 0, ownedGone), func() {
		for _, name := range a.names(manifest.IsMirror) {
			if p := a.pods[name]; p.OwnerReferences[0].UID == n.UID {
				a.remove(p)
			}
		}
		if l := a.lease; l != nil && len(l.OwnerReferences) > 0 && l.OwnerReferences[0].UID == n.UID {
			a.lease = nil
		}
		if c := a.csi; c != nil && c.OwnerReferences[0].UID == n.UID {
			a.csi = nil
		}
	})
	a.sim.later(orphanGone, func() {
		if a.node != nil {
			return
		}
		for _, name := range a.names(ofNode) {
			_ = a.deletePod(name, "", 0) // it exists
		}
	})
}
