package node

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
)

// register creates the Node. If the Node exists, even if this node may not create it, it is shown and then taken over.
func (d *Driver) register(ctx context.Context) error {
	d.mu.Lock()
	world := d.world
	d.mu.Unlock()
	d.attempted()
	now, at := d.opts.Now(), d.opts.Monotonic()
	n := initial(&d.opts.Settings, &world, now)
	created, err := d.requests().CreateNode(ctx, n)
	if apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) {
		refused := err
		var existing *corev1.Node
		if existing, err = d.requests().Node(ctx); err == nil {
			d.show(existing)
			return nil
		}
		if apierrors.IsForbidden(refused) {
			err = refused // it says why the Node cannot be created
		}
	}
	if err != nil {
		d.warn("the Node is not registered", err)
		return err
	}
	d.mu.Lock()
	d.registered = created.UID
	d.mu.Unlock()
	d.reported(at, true)
	d.opts.Log.Info("created the Node", "node", created.Name, "uid", created.UID)
	d.emitConditions(nil, n.Status.Conditions)
	d.created()
	if err := d.opts.Sink(ctx, &journaletv1.NodeRegistered{Uid: string(created.UID), Created: true}); err != nil {
		return err
	}
	d.failures = 0
	d.show(created)
	d.becameReady(&n.Status)
	return nil
}

// adopt takes over an existing Node.
func (d *Driver) adopt(ctx context.Context, existing *corev1.Node) error {
	if d.opts.Register {
		desired := existing.DeepCopy()
		// Another agent may have reported itself as this Node since; after a lost journal nothing is known of its devices.
		ours := d.recovered == existing.UID && strings.Contains(existing.Status.NodeInfo.KubeletVersion, versionMark)
		takeOver(desired, &d.opts.Settings, ours)
		diff, err := compare(existing, desired)
		if err != nil {
			return err
		}
		if !diff.empty() {
			got, err := d.write(ctx, diff)
			if err != nil {
				d.warn("the existing Node is not corrected", err)
				return err
			}
			d.show(got)
		}
	}
	other := ownerBefore(existing, &d.opts.Settings.Machine)
	if other != nil {
		d.opts.Log.Warn("the Node was another machine's; this one takes it over", "node", existing.Name,
			"machine ID", other.GetMachineId(), "address", other.GetAddress())
	}
	registered := &journaletv1.NodeRegistered{Uid: string(existing.UID), OtherMachine: other}
	if err := d.opts.Sink(ctx, registered); err != nil {
		return err
	}
	d.failures = 0
	d.mu.Lock()
	d.registered, d.urgent = existing.UID, true
	d.mu.Unlock()
	return nil
}

// warn logs the first failure in a row, and then each tenth.
func (d *Driver) warn(what string, err error) {
	if d.failures%10 == 0 {
		d.opts.Log.Warn(what+"; trying again", "node", d.opts.Settings.Name, "error", client.Message(err))
	}
	d.failures++
}

// keepCSINode creates the CSINode once the Node is known; until it exists, the node is not ready. Its drivers come when
// they register (csi.go).
func (d *Driver) keepCSINode(ctx context.Context) {
	var done types.UID
	retry := firstRetry
	d.awaitNode(ctx)
	for ctx.Err() == nil {
		n := d.Node()
		if n == nil || n.UID == done {
			if !sleep(ctx, firstRetry, n != nil) {
				return
			}
			continue
		}
		if err := d.CSINode(ctx, n); err != nil {
			d.opts.Log.Debug("the CSINode does not exist yet", "error", client.Message(err))
			if !sleep(ctx, retry, false) {
				return
			}
			retry = min(2*retry, maxRetry)
			continue
		}
		done, retry = n.UID, firstRetry
	}
}

// awaitNode waits until a Node was shown.
func (d *Driver) awaitNode(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-d.known:
	}
}

// nodeCheck is how often it is checked whether the Node is another one.
const nodeCheck = time.Minute

// sleep waits, longer once nothing is left to do, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration, done bool) bool {
	if done {
		d = nodeCheck
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// CSINode creates the CSINode of a Node unless it exists. One of an earlier version gets the annotation.
func (d *Driver) CSINode(ctx context.Context, n *corev1.Node) error {
	existing, err := d.requests().CSINode(ctx)
	switch {
	case apierrors.IsNotFound(err):
		now := &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, OwnerReferences: []metav1.OwnerReference{owner(n)}},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{}},
		}
		setMigrated(now)
		_, err = d.requests().CreateCSINode(ctx, now)
	case err == nil:
		if now := existing.DeepCopy(); setMigrated(now) {
			_, err = d.requests().UpdateCSINode(ctx, now)
		}
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	d.change(func() { d.world.NoCSINode, d.urgent = false, true })
	d.onceCreated.Do(func() { close(d.hasCSINode) })
	return nil
}

// owner returns a reference to a Node.
func owner(n *corev1.Node) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
}
