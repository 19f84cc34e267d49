package persistentvolume

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/redact"
)

// ErrAttachLimit means that the control plane could not attach a volume because the node has no room for another one of
// its driver, whose limit is kept up to date. What follows for the pod is its decider's (ADR 099).
var ErrAttachLimit = errors.New("the node has no room for another volume of the driver")

// notAttached returns why the wait for an attachment is over. As the kubelet, it asks for the reason only now: an
// attacher tries again meanwhile, and may have room when another volume has gone.
func (s *setUp) notAttached(ctx context.Context) error {
	name := s.src.attachment(s.opts.NodeName)
	if s.src.allocatableUpdates() && ctx.Err() == nil {
		if a, err := s.opts.Objects.Attachment(ctx, name); err != nil {
			s.opts.Log.Warn("it is not known why a volume is not attached", "attachment", name, "error", err)
		} else if isExhausted(a) {
			s.opts.Drivers.Recount(ctx, s.src.key.driver)
			return fmt.Errorf("VolumeAttachment %s: %w: %.512s", name, ErrAttachLimit,
				redact.URLs(a.Status.AttachError.Message))
		}
	}
	return fmt.Errorf("timed out waiting for the volume to be attached: its VolumeAttachment is %s", name)
}

// allocatableUpdates reports whether the CSIDriver has the limit of volumes of a node kept up to date.
func (s *source) allocatableUpdates() bool {
	return ptr.Deref(s.driver.NodeAllocatableUpdatePeriodSeconds, 0) > 0
}

// isExhausted reports whether an attachment has failed for lack of room on the node.
func isExhausted(a *storagev1.VolumeAttachment) bool {
	e := a.Status.AttachError
	return e != nil && e.ErrorCode != nil && *e.ErrorCode == int32(codes.ResourceExhausted)
}
