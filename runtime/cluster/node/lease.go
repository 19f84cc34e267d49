package node

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/journalet/journalet/runtime/cluster/client"
)

const (
	// leaseNamespace has the Leases of all nodes.
	leaseNamespace = "kube-node-lease"
	// leaseShare is the part of a Lease's duration after which it is renewed, leaseJitter how much longer it may take
	// (both the kubelet's).
	leaseShare  = 4
	leaseJitter = 0.04
	// leaseTries are the attempts of one renewal (kubelet: 5), leaseRetry the first pause while there is no Lease.
	leaseTries = 5
	leaseRetry = 200 * time.Millisecond
)

// keepLease renews the Lease until ctx ends. It stays then: its end is what the control plane waits for.
func (d *Driver) keepLease(ctx context.Context) {
	var last *coordinationv1.Lease
	retry, failures := leaseRetry, 0
	d.awaitNode(ctx)
	for {
		next, err := d.Renew(ctx, last)
		pause := wait.Jitter(d.opts.Lease/leaseShare, leaseJitter)
		switch {
		case err == nil && next != nil:
			last, retry, failures = next, leaseRetry, 0
		case err == nil: // no Node yet
			pause = firstRetry
		default:
			if failures++; failures == 2 {
				// The connection may be dead without having been closed.
				d.opts.Client.CloseIdle()
			}
			d.opts.Log.Debug("the Lease is not renewed", "error", client.Message(err))
			if last == nil {
				pause, retry = retry, min(2*retry, maxRetry)
			}
		}
		if !sleep(ctx, pause, false) {
			return
		}
	}
}

// Renew renews the Lease, or creates it; nil without an error: there is no Node yet.
func (d *Driver) Renew(ctx context.Context, last *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	beat, name := d.requests(), d.opts.Settings.Name
	var err error
	for range leaseTries {
		if last == nil {
			last, err = beat.Lease(ctx)
			if apierrors.IsNotFound(err) {
				n := d.Node()
				if n == nil {
					return nil, nil
				}
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
					Name: name, Namespace: leaseNamespace, OwnerReferences: []metav1.OwnerReference{owner(n)},
				}}
				d.beat(lease)
				return beat.CreateLease(ctx, lease)
			}
			if err != nil {
				return nil, err
			}
		}
		next := last.DeepCopy()
		d.beat(next)
		var got *coordinationv1.Lease
		if got, err = beat.UpdateLease(ctx, next); err == nil {
			return got, nil
		}
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			last = nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// beat sets what a renewal changes.
func (d *Driver) beat(l *coordinationv1.Lease) {
	l.Spec.HolderIdentity = new(d.opts.Settings.Name)
	l.Spec.LeaseDurationSeconds = new(int32(d.opts.Lease / time.Second))
	l.Spec.RenewTime = &metav1.MicroTime{Time: d.opts.Now()}
	if n := d.Node(); n != nil {
		l.OwnerReferences = []metav1.OwnerReference{owner(n)}
	}
}
