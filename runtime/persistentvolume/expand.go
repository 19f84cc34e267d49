package persistentvolume

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attempts is what is known of earlier attempts to expand a volume, in memory as with the kubelet.
type attempts struct {
	// inUse: the driver expands no volume that is in use. It is not called again until the volume is unstaged.
	inUse bool
	// refused: the driver has refused a size.
	refused bool
}

// expandAtSetUp expands a volume that has just been published, if it is due. The volume is not set up until it is.
func (s *setUp) expandAtSetUp(ctx context.Context, r *record) error {
	if s.src.claim == nil {
		return nil
	}
	had := s.src.claim.Status.Capacity[corev1.ResourceStorage]
	r.Expand, r.Size = flag(s.can.expand && !s.src.readOnly), cmp.Or(s.sizeHere(s.src.key), had.String())
	if s.src.capacity.Cmp(had) <= 0 {
		return nil
	}
	if s.src.readOnly {
		s.emitResize(corev1.EventTypeWarning, "FileSystemResizeFailed", "failed", "requested read-only file system")
		return nil
	}
	size, err := s.expand(ctx, had)
	if err != nil {
		return fmt.Errorf("MountVolume.Setup failed while expanding volume: %w", err)
	}
	r.Size = size.String()
	return s.resized(s.src.key, size)
}

// sizeHere returns the size that a volume has on this node, as another pod's claim on it has that; empty without one.
func (v *Volumes) sizeHere(k key) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, dirs := range v.pods {
		for _, r := range dirs {
			if r.key() == k && r.isDone(published, v.opts.BootID) && r.Size != "" {
				return r.Size
			}
		}
	}
	return ""
}

// expandOnline expands a volume in use, if it is due.
func (s *setUp) expandOnline(ctx context.Context, o Objects, f refreshed) (err error) {
	defer func() { err = s.withheld(err) }()
	had, err := resource.ParseQuantity(f.record.Size)
	if err != nil {
		return fmt.Errorf("the size in %s: %w", recordFile, err)
	}
	claim, err := readClaim(ctx, o, s.pod, s.vol)
	if err != nil {
		return err
	}
	if !mayResize(claim, had) {
		return nil
	}
	release, err := s.again(ctx, o, f)
	if err != nil || release == nil {
		return err
	}
	defer release()
	began := s.opts.Clock.Now()
	size, err := s.expand(ctx, had)
	s.observe(ctx, opExpand, began, err)
	if err != nil {
		return err
	}
	return s.resized(s.src.key, size)
}

// resized notes the size that a volume has on this node, in each claim on it.
func (v *Volumes) resized(k key, size resource.Quantity) error {
	type at struct{ uid, dir string }
	var all []at
	v.mu.Lock()
	for uid, dirs := range v.pods {
		for dir, r := range dirs {
			if r.key() == k && r.Size != size.String() {
				all = append(all, at{uid, dir})
			}
		}
	}
	v.mu.Unlock()
	var errs []error
	for _, a := range all {
		if r := v.claimOf(a.uid, a.dir); r != nil {
			r.Size = size.String()
			errs = append(errs, v.save(a.uid, v.claimDir(a.uid, a.dir), r))
		}
	}
	return errors.Join(errs...)
}

// expand has the driver expand the volume if it is due, and the claim's status say so. It returns the size that the
// volume has then. The volume's lock is held.
func (s *setUp) expand(ctx context.Context, had resource.Quantity) (resource.Quantity, error) {
	r := resizeOf(s.src.claim, s.src.capacity, had)
	tried := s.attempted(s.src.key)
	if !r.call || tried.inUse {
		return r.size, nil
	}
	if !s.can.expand && (r.updated || !r.recovers) {
		return r.size, nil
	}
	if r.recovers && !r.updated {
		if err := s.patchClaim(ctx, func(c *corev1.PersistentVolumeClaim) {
			setResizing(c, corev1.PersistentVolumeClaimNodeResizeInProgress)
		}); err != nil {
			return had, err
		}
	}
	if err := s.withheld(s.callExpand(ctx, r.size)); err != nil {
		return had, s.notExpanded(ctx, r, err)
	}
	s.emitResize(corev1.EventTypeNormal, "FileSystemResizeSuccessful", "succeeded", s.opts.NodeName)
	if r.updated {
		return r.size, nil
	}
	return r.size, s.patchClaim(ctx, func(c *corev1.PersistentVolumeClaim) { setResized(c, r.size) })
}

// notExpanded has the claim's status say why its volume was not expanded. It returns nil for a driver that expands no
// volume in use: its pods keep running.
func (s *setUp) notExpanded(ctx context.Context, r resize, why error) error {
	code := status.Code(unwrapped(why))
	var said interface{ GRPCStatus() *status.Status }
	final := errors.As(why, &said) && !transient(code)
	tried := s.attempted(s.src.key)
	want := s.src.claim.Spec.Resources.Requests[corev1.ResourceStorage]
	infeasible := final && (code == codes.InvalidArgument || code == codes.OutOfRange || code == codes.NotFound ||
		tried.refused && want.Cmp(r.size) != 0)
	if final {
		s.noteAttempt(attempts{inUse: code == codes.FailedPrecondition, refused: true})
	}
	if r.recovers && !errors.Is(why, errNotCalled) {
		now := metav1.NewTime(s.opts.Clock.Now())
		if err := s.patchClaim(ctx, func(c *corev1.PersistentVolumeClaim) {
			if infeasible {
				setResizing(c, corev1.PersistentVolumeClaimNodeResizeInfeasible)
			}
			setResizeError(c, now, why)
		}); err != nil {
			s.opts.Log.Warn("a claim does not say why its volume was not expanded", "namespace", s.src.claim.Namespace,
				"claim", s.src.claim.Name, "error", err)
		}
	}
	if code == codes.FailedPrecondition {
		s.opts.Log.Warn("a volume is not expanded while it is in use", "driver", s.src.key.driver, "volume", s.src.dir,
			"error", why)
		return nil
	}
	return why
}

// transient reports whether a code leaves open whether the RPC continues. kubelet: the same.
func transient(c codes.Code) bool {
	switch c {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return true
	}
	return false
}

// callExpand has the driver expand the volume.
func (s *setUp) callExpand(ctx context.Context, size resource.Quantity) error {
	if !s.can.expand {
		return fmt.Errorf("NodeExpand is not supported by the CSI driver %s", s.src.key.driver)
	}
	if s.src.driverless() {
		return s.opts.Disks.Grow(ctx, s.diskDir(s.src.key), s.disk())
	}
	secrets, err := s.read(ctx, s.src.expandSecret)
	if err != nil {
		return err
	}
	return s.driver.Call(ctx, "NodeExpandVolume", func(ctx context.Context, c csi.NodeClient) error {
		_, err := c.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{
			VolumeId: s.src.handle, VolumePath: s.target(string(s.pod.UID), s.src.dir), StagingTargetPath: s.stagedAt(),
			CapacityRange:    &csi.CapacityRange{RequiredBytes: size.Value()},
			VolumeCapability: s.src.capability(s.can, nil, ""), Secrets: secrets,
		})
		return err
	})
}

// patchClaim changes the status of the volume's claim.
func (s *setUp) patchClaim(ctx context.Context, change func(*corev1.PersistentVolumeClaim)) error {
	before := s.src.claim
	after := before.DeepCopy()
	change(after)
	patch, err := claimPatch(before, after)
	if err != nil || patch == nil {
		return err
	}
	now, err := s.opts.Objects.PatchClaim(ctx, before.Namespace, before.Name, patch)
	if err != nil {
		return fmt.Errorf("patch the status of PersistentVolumeClaim %s/%s: %w", before.Namespace, before.Name, err)
	}
	s.src.claim = now
	return nil
}

// emitResize emits an event of the pod and of its claim, in the kubelet's words.
func (s *setUp) emitResize(kind, reason, outcome, more string) {
	message := fmt.Sprintf("MountVolume.NodeExpandVolume %s for volume %q %s", outcome, s.src.dir, more)
	s.emit(podReference(s.pod), kind, reason, message)
	s.emit(corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: s.src.claim.Namespace, Name: s.src.claim.Name,
		UID: s.src.claim.UID, ResourceVersion: s.src.claim.ResourceVersion,
	}, kind, reason, message)
}

// attempted returns what is known of earlier attempts to expand a volume.
func (v *Volumes) attempted(k key) attempts {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.attempts[k]
}

func (s *setUp) noteAttempt(a attempts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Volumes.attempts[s.src.key] = a
}
