package persistentvolume

import (
	"context"

	"k8s.io/utils/ptr"
)

// forgetAttachments has volumes no longer be in use that the control plane has attached, if their CSIDriver does not
// require that any more: it detaches them then, and their pods run on. kubelet: the same, with the next sync of a pod.
func (v *Volumes) forgetAttachments(ctx context.Context, o Objects, all []refreshed) {
	for _, f := range all {
		if f.record.Attach != "true" {
			continue
		}
		d, err := o.Driver(ctx, f.record.Driver)
		if err != nil || d == nil || ptr.Deref(d.Spec.AttachRequired, true) {
			return
		}
		if err := v.forgetAttachment(ctx, f); err != nil {
			v.opts.Log.Warn("a volume stays in use that needs no attachment any more", "volume", f.record.Name,
				"driver", f.record.Driver, "error", err)
		}
	}
	v.reportInUse()
}

func (v *Volumes) forgetAttachment(ctx context.Context, f refreshed) error {
	release, err := v.locks.lock(ctx, f.record.key())
	if err != nil {
		return err
	}
	defer release()
	r := v.claimOf(f.uid, f.dir)
	if !r.isDone(published, v.opts.BootID) || r.key() != f.record.key() {
		return nil // its set-up or its end says whether it is in use
	}
	v.mu.Lock()
	delete(v.waiting[f.uid], r.key())
	v.mu.Unlock()
	r.Attach = ""
	return v.save(f.uid, v.claimDir(f.uid, f.dir), r)
}
