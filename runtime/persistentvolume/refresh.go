package persistentvolume

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/redact"
)

const (
	// refreshPeriod is the pause between two rounds, and refreshJitter what it may be longer. kubelet: a pod is synced
	// after 1 min and up to half as much again.
	refreshPeriod = time.Minute
	refreshJitter = refreshPeriod / 2
	// maxRefreshes bounds how many volumes of a driver are refreshed at once, so that a driver that hangs leaves RPCs
	// for pods that start and end.
	maxRefreshes = 4
)

// Run acts on volumes until ctx ends. It has volumes of running pods published again if their driver requires it,
// expands volumes whose claims have another size by now, reports volumes as no longer in use if their driver no longer
// has them attached, and unstages volumes that no pod claims and that could not be unstaged before. While there is no
// such volume it waits for one, and no timer runs.
func (v *Volumes) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	rounds := clock.NewGroup(v.opts.Clock, 0)
	defer rounds.Wait()
	defer cancel()
	rounds.Go(func() { v.runLeft(ctx) })
	next := deadline{clock: v.opts.Clock}
	for {
		switch {
		case len(v.due()) == 0:
			next.clear()
		case !next.isSet():
			next.set(refreshPeriod + time.Duration(v.opts.Jitter(int64(refreshJitter))))
		}
		passed, err := next.wait(ctx, v.changed)
		if err != nil {
			return err
		}
		if passed {
			all := v.due()
			for _, name := range slices.Sorted(maps.Keys(all)) {
				v.begin(ctx, rounds, name, all[name])
			}
		}
	}
}

// begin begins a round of a driver, unless its last round has not ended: a driver that hangs delays no other.
func (v *Volumes) begin(ctx context.Context, rounds clock.Group, driver string, all []refreshed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.rounds[driver] {
		return
	}
	v.rounds[driver] = true
	rounds.Go(func() {
		v.round(ctx, all)
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.rounds, driver)
	})
}

// refreshed is a volume of a pod that is refreshed.
type refreshed struct {
	uid, dir string
	record   record
	// expands: its size is compared with its claim's. Of the claims of pods on one volume one is.
	expands bool
}

// due returns the volumes that are to be refreshed, by driver, each in the order of the pods.
func (v *Volumes) due() map[string][]refreshed {
	v.mu.Lock()
	defer v.mu.Unlock()
	out, compared := map[string][]refreshed{}, map[key]bool{}
	for _, uid := range slices.Sorted(maps.Keys(v.pods)) {
		for _, dir := range slices.Sorted(maps.Keys(v.pods[uid])) {
			if r := v.pods[uid][dir]; r.refreshes() && r.isDone(published, v.opts.BootID) {
				expands := r.Expand == "true" && !compared[r.key()]
				compared[r.key()] = compared[r.key()] || expands
				out[r.Driver] = append(out[r.Driver], refreshed{uid, dir, *r, expands})
			}
		}
	}
	return out
}

// round refreshes volumes of one driver.
func (v *Volumes) round(ctx context.Context, all []refreshed) {
	o := &oneRead{Objects: v.opts.Objects, lock: clock.NewLock(v.opts.Clock)}
	v.forgetAttachments(ctx, o, all)
	g := clock.NewGroup(v.opts.Clock, maxRefreshes)
	for _, f := range all {
		g.Go(func() {
			if ctx.Err() == nil {
				v.refresh(ctx, o, f)
			}
		})
	}
	g.Wait()
}

// refresh refreshes one volume, if its pod still runs. A failure changes nothing of the volume.
func (v *Volumes) refresh(ctx context.Context, o Objects, f refreshed) {
	pod := v.opts.Pod(f.uid)
	if pod == nil || pod.DeletionTimestamp != nil || len(f.record.volumes()) == 0 {
		return
	}
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == f.record.volumes()[0] })
	if i < 0 {
		return
	}
	for _, step := range []struct {
		due            bool
		do             func(*setUp, context.Context, Objects, refreshed) error
		reason, prefix string
	}{
		{f.record.Republish == "true", (*setUp).republish, "FailedMount", "MountVolume.SetUp"},
		{f.expands, (*setUp).expandOnline, "VolumeResizeFailed", "NodeExpandVolume.NodeExpandVolume"},
	} {
		if !step.due {
			continue
		}
		err := step.do(&setUp{Volumes: v, pod: pod, vol: &pod.Spec.Volumes[i]}, ctx, o, f)
		if ctx.Err() != nil {
			return
		}
		v.noteRefresh(f, pod, step.reason, err)
		if err != nil {
			v.emit(podReference(pod), corev1.EventTypeWarning, step.reason,
				fmt.Sprintf("%s failed for volume %q : %v", step.prefix, f.record.Name, err))
		}
	}
}

// noteRefresh logs that a volume is not published again or expanded, and that it is again: once each.
func (v *Volumes) noteRefresh(f refreshed, pod *corev1.Pod, reason string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := f.uid + "/" + f.dir
	log := v.opts.Log.With("namespace", pod.Namespace, "pod", pod.Name, "volume", f.record.Name, "driver", f.record.Driver,
		"reason", reason)
	switch is := v.stale[at][reason]; {
	case err != nil && !is:
		if v.stale[at] == nil {
			v.stale[at] = map[string]bool{}
		}
		v.stale[at][reason] = true
		log.Warn("a volume of a running pod is not refreshed, and stays as it is", "error", err)
	case err == nil && is:
		delete(v.stale[at], reason)
		log.Info("a volume of a running pod is refreshed again")
	}
}

// again prepares another RPC for a volume that is set up, and locks the volume. release is nil if there is nothing to
// do: the pod has ended meanwhile, or has another volume, which its set-up reports.
func (s *setUp) again(ctx context.Context, o Objects, f refreshed) (release func(), err error) {
	if s.src, err = s.resolve(ctx, o, s.pod, s.vol); err != nil {
		return nil, err
	}
	if s.driver, err = s.opts.Drivers.Caller(f.record.Driver); err != nil {
		return nil, err
	}
	release, err = s.locks.lock(ctx, f.record.key())
	if err != nil {
		return nil, err
	}
	if r := s.claimOf(f.uid, f.dir); !r.isDone(published, s.opts.BootID) || s.src.key != r.key() {
		release()
		return nil, nil
	}
	if s.can, err = capabilitiesOf(ctx, s.driver); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// republish has the volume published again at the same place. What is published stays, whatever fails.
func (s *setUp) republish(ctx context.Context, o Objects, f refreshed) (err error) {
	defer func() { err = s.withheld(err) }()
	release, err := s.again(ctx, o, f)
	if err != nil || release == nil {
		return err
	}
	defer release()
	r := s.claimOf(f.uid, f.dir)
	s.label = r.SELinux
	if !s.src.republished() {
		r.Republish = ""
		return s.save(f.uid, s.claimDir(f.uid, f.dir), r)
	}
	if s.src.attached() {
		if err := s.readAttachment(ctx); err != nil {
			return err
		}
	}
	attributes, secrets, err := s.attributes(ctx)
	if err != nil {
		return err
	}
	target, began := s.target(f.uid, f.dir), s.opts.Clock.Now()
	err = s.callPublish(ctx, target, attributes, secrets)
	s.observeOf(ctx, r, opMap, OpMount, began, err)
	if err != nil {
		return err
	}
	if there, err := s.isThere(target, r); err != nil || !there {
		return noTarget(r.Driver, target, s.src.block)
	}
	return s.own(ctx, target)
}

// oneRead reads the CSIDriver of a round once for all its volumes.
type oneRead struct {
	Objects

	lock   clock.Lock
	driver *storagev1.CSIDriver
}

// Driver reads a CSIDriver. A failure is not kept.
func (o *oneRead) Driver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	if err := o.lock.Acquire(ctx); err != nil {
		return nil, err
	}
	defer o.lock.Release()
	if o.driver != nil && o.driver.Name == name {
		return o.driver, nil
	}
	d, err := o.Objects.Driver(ctx, name)
	if err == nil {
		o.driver = d
	}
	return d, err
}

// podReference returns what an event says that it is about.
func podReference(pod *corev1.Pod) corev1.ObjectReference {
	return corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
	}
}

// emit emits an event.
func (v *Volumes) emit(about corev1.ObjectReference, kind, reason, message string) {
	if v.opts.Event != nil {
		v.opts.Event(about, kind, reason, redact.URLs(message))
	}
}
