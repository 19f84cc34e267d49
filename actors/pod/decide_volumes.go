package pod

import (
	"slices"
	"time"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
)

// volumeTimer ends the wait of a volume whose set-up failed. The volume's name follows.
const volumeTimer = "volume "

const (
	// firstVolumeDelay and maxVolumeDelay bound the wait after a failed set-up of a volume; it doubles between the two.
	// kubelet: exponentialbackoff, 500 ms and 2 min 2 s.
	firstVolumeDelay = 500 * time.Millisecond
	maxVolumeDelay   = 122 * time.Second
)

// setObjects emits which objects the pod refers to, when that has changed.
func (d *step) setObjects() {
	var refs []*journaletv1.ObjectRef
	if s := d.state.GetStage(); (s == runningPod || s == terminating) && !d.LeftAlone() {
		refs = d.derive().refs
	}
	if references.Same(refs, d.state.GetObjectRefs()) {
		return
	}
	set := &journaletv1.ObjectsSet{Refs: refs, Namespace: d.state.GetPod().GetNamespace()}
	if d.state.GetPod().GetApi() != nil {
		set.Api, set.PodName = true, d.state.GetPod().GetName()
	}
	d.decide(set)
}

// setUpVolumes requests the set-up of all volumes that are not, or that have other contents than desired. Those of CSI
// drivers and NFS servers have a call of their own, beside that for the others: they may take minutes. Before the store
// has read the pod's objects, which takes milliseconds, none of the others is requested: one call does for all.
func (d *step) setUpVolumes() {
	if !slices.ContainsFunc(d.derive().volumes, desiredVolume.unread) {
		d.setUpVolumesOf(false)
	}
	d.setUpVolumesOf(true)
}

// setUpVolumesOf requests the set-up of the volumes of CSI drivers and NFS servers, or of all others. A volume whose
// object is missing waits for the object; a volume that failed waits for its back-off. A failure that only another
// manifest or object can end is not repeated.
func (d *step) setUpVolumesOf(apart bool) {
	same := func(r *journaletv1.CallRequested) bool {
		return volumesCall(r) && r.GetSetUpVolumes().GetCsi() == apart
	}
	if d.calling(same) {
		return
	}
	var all []*journaletv1.DesiredVolume
	for _, v := range d.derive().volumes {
		if v.apart != apart {
			continue
		}
		r := d.state.Volumes[v.name]
		due := v.contents != "" && (r.GetStage() != volumeSetUp || r.GetContents() != v.contents)
		if due && r.GetFailedContents() == v.contents {
			if wait := d.left(r.GetFailedAt(), volumeDelay(r.GetFailures())); wait > 0 && !r.GetPermanent() {
				d.timer(volumeTimer+v.name, wait)
				continue
			}
			due = !r.GetPermanent()
		}
		d.clearTimer(volumeTimer + v.name)
		if due {
			all = append(all, &journaletv1.DesiredVolume{Name: v.name, Contents: v.contents})
		}
	}
	if len(all) == 0 {
		return
	}
	d.requestCall(&journaletv1.SetUpVolumes{
		Digest: d.state.GetPod().GetDigest(), Volumes: all, AllocatedDigest: d.state.GetAllocatedDigest(),
		UserNamespace: d.state.GetUserNamespace(), Csi: apart,
	})
}

// volumeDelay returns the wait after so many failed set-ups of a volume in a row.
func volumeDelay(failures uint32) time.Duration {
	return doubled(failures, firstVolumeDelay, maxVolumeDelay)
}

// hasApart reports whether CSI drivers may still have volumes of a pod that has ended, or exports of NFS servers be
// mounted for it. Until then the pod's object is not deleted: the control plane takes the volumes for free afterwards.
func (d *step) hasApart() bool {
	if d.manifest == nil || !d.state.GetUsedRuntime() {
		return false
	}
	for i := range d.manifest.Spec.Volumes {
		v := &d.manifest.Spec.Volumes[i]
		if references.IsSetUpApart(v) && d.state.Volumes[v.Name].GetStage() != tornDown {
			return true
		}
	}
	return false
}

// tearsDown reports whether volumes of a pod that has ended are still to be torn down. A call that was withdrawn may
// have set some up, so those without a record count.
func (d *step) tearsDown() bool {
	if d.manifest == nil || !d.state.GetUsedRuntime() {
		return false
	}
	for i := range d.manifest.Spec.Volumes {
		if d.state.Volumes[d.manifest.Spec.Volumes[i].Name].GetStage() != tornDown {
			return true
		}
	}
	return false
}
