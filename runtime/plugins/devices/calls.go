package devices

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/plugins"
)

// errAbsent is why a call fails whose plugin is not there.
var errAbsent = errors.New("the device plugin is not there; the call is repeated when it has registered")

// Allocate requests of a plugin what a container with some of its devices needs. again reports that the same call may
// succeed later: the plugin did not answer, or is not there.
func (d *Driver) Allocate(
	ctx context.Context, req *journaletv1.AllocateDevices,
) (answer *journaletv1.DeviceAnswer, again bool, err error) {
	p := d.plugin(req.GetResource())
	if p == nil {
		return nil, true, errAbsent
	}
	timeout := d.opts.Timeouts.Allocate
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, unanswered("Allocate", timeout))
	defer cancel()
	if err := p.take(ctx); err != nil {
		return nil, true, err
	}
	defer p.free()
	r, err := p.client.Allocate(ctx, &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: req.GetIds()}},
	})
	if err != nil {
		return nil, passes(err), explain(ctx, "Allocate", err)
	}
	if n := len(r.GetContainerResponses()); n != 1 {
		return nil, false, fmt.Errorf("the plugin answered for %d containers instead of 1", n)
	}
	answer, err = readAnswer(r.GetContainerResponses()[0])
	return answer, false, err
}

// PreStart has a plugin prepare devices for a container that is about to start.
func (d *Driver) PreStart(ctx context.Context, resource string, ids []string) error {
	p := d.plugin(resource)
	if p == nil {
		return fmt.Errorf("device plugin of %s: %w", resource, errAbsent)
	}
	timeout := d.opts.Timeouts.PreStart
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, unanswered("PreStartContainer", timeout))
	defer cancel()
	if _, err := p.client.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: ids}); err != nil {
		return fmt.Errorf("device plugin of %s: %w", resource, explain(ctx, "PreStartContainer", err))
	}
	return nil
}

// Stored handles a stored record: the node may request what a plugin prefers. It is always answered.
func (d *Driver) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		if q := e.GetPreferredDevicesRequested(); q != nil {
			d.answer(q)
		}
	}
}

func (d *Driver) answer(q *journaletv1.PreferredDevicesRequested) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return // the next run requests it again
	}
	d.running.Go(func() {
		ids, err := d.preferred(q)
		if d.ctx.Err() != nil {
			return
		}
		out := &journaletv1.PreferredDevicesRead{RequestId: q.GetRequestId(), Uid: q.GetUid(), Ids: ids}
		if err != nil {
			out.Message = plugins.Message(err)
		}
		d.opts.Outcome(messages.NewEvent(out))
	})
}

// preferred requests of a plugin which devices it would choose.
func (d *Driver) preferred(q *journaletv1.PreferredDevicesRequested) ([]string, error) {
	p := d.plugin(q.GetResource())
	if p == nil {
		return nil, errAbsent
	}
	timeout := d.opts.Timeouts.Preferred
	ctx, cancel := context.WithTimeoutCause(d.ctx, timeout, unanswered("GetPreferredAllocation", timeout))
	defer cancel()
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	defer p.free()
	r, err := p.client.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs: q.GetAvailable(), MustIncludeDeviceIDs: q.GetChosen(),
			AllocationSize: int32(min(q.GetCount(), maxDevices)),
		}},
	})
	if err != nil {
		return nil, explain(ctx, "GetPreferredAllocation", err)
	}
	if len(r.GetContainerResponses()) != 1 {
		return nil, fmt.Errorf("the plugin answered for %d containers instead of 1", len(r.GetContainerResponses()))
	}
	ids := r.GetContainerResponses()[0].GetDeviceIDs()
	if len(ids) > len(q.GetAvailable()) {
		return nil, fmt.Errorf("the plugin prefers %d devices of %d", len(ids), len(q.GetAvailable()))
	}
	for _, id := range ids {
		if len(id) > maxIDBytes || !utf8.ValidString(id) {
			return nil, errors.New("the plugin prefers a device that it does not have")
		}
	}
	return ids, nil
}

// take waits for the plugin's slot.
func (p *plugin) take(ctx context.Context) error {
	select {
	case p.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.ctx.Done():
		return errAbsent
	}
}

func (p *plugin) free() { <-p.slot }

// unanswered is why a call is given up.
func unanswered(call string, after time.Duration) error {
	return fmt.Errorf("%s: the plugin did not answer within %s", call, after)
}

// explain returns the error of a call: the plugin's, or our deadline's. The plugin's process knows the deadline too,
// and may end the call between the deadline and the context's timer: that counts as our deadline as well.
func explain(ctx context.Context, call string, err error) error {
	if deadline, ok := ctx.Deadline(); ok && !deadline.After(time.Now()) {
		<-ctx.Done()
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errors.New(plugins.Message(fmt.Errorf("%s: %w", call, err)))
}

// passes reports whether a call failed before the plugin refused it, so that the same one may succeed later.
func passes(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted:
		return true
	default:
		return false
	}
}
