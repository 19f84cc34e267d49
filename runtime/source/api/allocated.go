package api

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	actor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// A pod whose resize was pending when a kubelet ended is added as the kubelet had admitted it, with the resources that
// were allocated to it. When the source has added it, its spec follows as an update: so the pod requests its admission
// as before, and then its resize.

// allocatedAs is the annotation of a stored pod with the digest of its manifest as asAllocated returns it. If the API
// server sends this annotation, it is dropped.
const allocatedAs = "journalet.io/allocated-as"

// asAllocated returns a pod with the resources that a kubelet had allocated to it, until the source has added it. It
// returns nil where the spec counts.
func (d *Driver) asAllocated(p *corev1.Pod) *corev1.Pod {
	if d.opts.Allocated == nil {
		return nil
	}
	d.mu.Lock()
	added := d.recorded[p.UID] != "" && !d.adding[p.UID]
	d.mu.Unlock()
	if added {
		return nil
	}
	return d.opts.Allocated(p)
}

// storeAllocated stores a large pod as asAllocated returns it; nil: the spec counts.
func (d *Driver) storeAllocated(ctx context.Context, p *manifest.Parsed) error {
	if p == nil {
		return nil
	}
	if err := d.opts.Store(ctx, maps.All(map[string][]byte{p.Digest: p.Canonical})); err != nil {
		return err
	}
	d.opts.Prime(p.Digest, p.Pod)
	return nil
}

// awaitAdding has the spec of a pod follow when the source has added it: the source may have to wait for the pod's UID,
// and adds the newest manifest then.
func (d *Driver) awaitAdding(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.adding[uid] = true
}

// recoverAdding notes the recorded pods that the source has not added.
func (d *Driver) recoverAdding(r fold.Recovered) {
	if d.opts.Allocated == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid := range d.recorded {
		d.adding[uid] = true
	}
	fold.EachOf(r, func(ref messages.Ref, a *actor.Actor) {
		if a.Pod().GetSource() != "" {
			delete(d.adding, types.UID(ref.ID))
		}
	})
}

// Stored implements drivers.Storer.
func (d *Driver) Stored(rec *journaletv1.Record) {
	for _, uid := range d.added(rec) {
		d.markDirty(uid)
	}
}

// added returns the pods of adding that a record of the source adds, and removes them from adding.
func (d *Driver) added(rec *journaletv1.Record) (uids []types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.adding) == 0 {
		return nil
	}
	for _, e := range messages.Events(rec) {
		if uid := types.UID(e.GetPodUpdated().GetPod().GetUid()); d.adding[uid] {
			delete(d.adding, uid)
			uids = append(uids, uid)
		}
	}
	return uids
}
