package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/journalet/journalet/actors/devices"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/plugins"
)

const (
	// maxDevices bounds the devices of one plugin, maxIDBytes the id of one, maxNUMANodes the nodes that it is at.
	maxDevices   = 4096
	maxIDBytes   = 128
	maxNUMANodes = 64
	// maxListBytes bounds a list, and any other answer of a plugin: all devices, with what their topology may take.
	maxListBytes = 4 << 20
	// readPause is the pause between two lists that are read of a plugin, however fast it sends them.
	readPause = 100 * time.Millisecond
	// devicesPerFact keeps a fact below the size of a record.
	devicesPerFact = 1024
	// factPause is the pause between two facts of a plugin: one whose devices change faster is recorded as it is then.
	factPause = time.Second
)

// errReplaced ends a plugin whose resource another one offers now.
var errReplaced = errors.New("another plugin has registered for its resource")

// plugin is one plugin that is there.
type plugin struct {
	resource, path string
	conn           *grpc.ClientConn
	client         pluginapi.DevicePluginClient
	options        *pluginapi.DevicePluginOptions
	ctx            context.Context
	end            context.CancelCauseFunc
	// slot is free unless Allocate or GetPreferredAllocation is under way: plugins know these one at a time.
	slot chan struct{}
	// done is closed when nothing more is recorded of it.
	done chan struct{}
	// listed is how many devices it has; the driver's lock guards it.
	listed int

	mu     sync.Mutex
	newest map[string]*journaletv1.Device
}

// follow records the devices of a plugin until it goes; before is the one whose place it takes.
func (d *Driver) follow(p, before *plugin) {
	defer close(p.done)
	defer p.conn.Close()
	if before != nil {
		<-before.done
	}
	if p.ctx.Err() != nil {
		d.gone(p, context.Cause(p.ctx))
		return
	}
	changed := make(chan struct{}, 1)
	failed := make(chan error, 1)
	d.running.Go(func() { failed <- d.receive(p, changed) })
	var known map[string]*journaletv1.Device
	for {
		select {
		case err := <-failed:
			d.gone(p, err)
			return
		case <-changed:
		}
		p.mu.Lock()
		newest := p.newest
		p.mu.Unlock()
		if err := d.record(p, known, newest); err != nil {
			p.end(err)
			ended := plugins.Message(cmp.Or(<-failed, err))
			d.opts.Log.Debug("the stream of a device plugin ended", "resource", p.resource, "error", ended)
			d.gone(p, err)
			return
		}
		known = newest
		select {
		case <-d.opts.After(factPause): // also for the plugin that takes its place
		case <-d.ctx.Done():
		}
	}
}

// receive keeps the newest list of a plugin, until its stream ends.
func (d *Driver) receive(p *plugin, changed chan<- struct{}) error {
	stream, err := p.client.ListAndWatch(p.ctx, &pluginapi.Empty{})
	for err == nil {
		var r *pluginapi.ListAndWatchResponse
		if r, err = stream.Recv(); err != nil {
			break
		}
		var list map[string]*journaletv1.Device
		if list, err = read(r.GetDevices()); err == nil {
			err = d.count(p, len(list))
		}
		if err != nil {
			p.end(err)
			break
		}
		p.mu.Lock()
		p.newest = list
		p.mu.Unlock()
		select {
		case changed <- struct{}{}:
		default:
		}
		select {
		case <-time.After(readPause):
		case <-p.ctx.Done():
		}
	}
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	return fmt.Errorf("ListAndWatch ended: %w", err)
}

// count counts the devices that a plugin lists, unless the node has too many with them.
func (d *Driver) count(p *plugin, listed int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := listed
	for _, other := range d.plugins {
		if other != p {
			all += other.listed
		}
	}
	if all > devices.MaxOfNode {
		return fmt.Errorf("with its %d devices the node has %d; at most %d are taken", listed, all, devices.MaxOfNode)
	}
	p.listed = listed
	return nil
}

// read returns a plugin's list by id.
func read(list []*pluginapi.Device) (map[string]*journaletv1.Device, error) {
	if len(list) > maxDevices {
		return nil, fmt.Errorf("it lists %d devices; at most %d are taken", len(list), maxDevices)
	}
	out := make(map[string]*journaletv1.Device, len(list))
	for _, in := range list {
		id := in.GetID()
		switch {
		case id == "" || len(id) > maxIDBytes || !utf8.ValidString(id):
			return nil, fmt.Errorf("the id of a device is empty, not UTF-8, or of more than %d bytes: %.64q", maxIDBytes, id)
		case out[id] != nil:
			return nil, fmt.Errorf("it lists the device %q twice", id)
		case len(in.GetTopology().GetNodes()) > maxNUMANodes:
			return nil, fmt.Errorf("the device %q is at more than %d NUMA nodes", id, maxNUMANodes)
		}
		device := &journaletv1.Device{Id: id, Healthy: in.GetHealth() == pluginapi.Healthy}
		for _, n := range in.GetTopology().GetNodes() {
			device.NumaNodes = append(device.NumaNodes, n.GetID())
		}
		slices.Sort(device.NumaNodes)
		out[id] = device
	}
	return out, nil
}

// record records how the devices of a plugin differ from the known devices. A nil known means that the plugin is new.
func (d *Driver) record(p *plugin, known, newest map[string]*journaletv1.Device) error {
	facts := differences(p, known, newest)
	for _, f := range facts {
		if err := d.opts.Sink(p.ctx, messages.NewEvent(f)); err != nil {
			return fmt.Errorf("its devices cannot be recorded: %w", err)
		}
	}
	if known == nil {
		d.opts.Log.Info("device plugin is there", "resource", p.resource, "devices", len(newest))
	}
	return nil
}

// differences returns the facts that turn one list into another; no facts if the two are equal.
func differences(p *plugin, known, newest map[string]*journaletv1.Device) []*journaletv1.DevicesObserved {
	var changed []*journaletv1.Device
	for _, id := range slices.Sorted(maps.Keys(newest)) {
		if old := known[id]; old == nil || !proto.Equal(old, newest[id]) {
			changed = append(changed, newest[id])
		}
	}
	var removed []string
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if newest[id] == nil {
			removed = append(removed, id)
		}
	}
	if known != nil && len(changed)+len(removed) == 0 {
		return nil
	}
	last := &journaletv1.DevicesObserved{
		Resource: p.resource, Connected: true, All: known == nil, Removed: removed,
		PreStart: p.options.GetPreStartRequired(), Preferred: p.options.GetGetPreferredAllocationAvailable(),
	}
	var facts []*journaletv1.DevicesObserved
	for len(changed) > devicesPerFact {
		facts = append(facts, &journaletv1.DevicesObserved{
			Resource: p.resource, Connected: known != nil, All: last.GetAll(), Changed: changed[:devicesPerFact], More: true,
			PreStart: last.GetPreStart(), Preferred: last.GetPreferred(),
		})
		changed, last.All = changed[devicesPerFact:], false
	}
	last.Changed = changed
	return append(facts, last)
}

// gone records that a plugin has gone, unless another one is in its place or the agent stops. A plugin that never
// listed its devices has its resource recorded without any, as with the kubelet: what requests it is told why it
// waits.
func (d *Driver) gone(p *plugin, why error) {
	d.mu.Lock()
	ours := d.plugins[p.resource] == p
	if ours {
		delete(d.plugins, p.resource)
	}
	d.mu.Unlock()
	if d.ctx.Err() != nil || !ours {
		return
	}
	text := plugins.Message(cmp.Or(why, errors.New("unknown")))
	d.opts.Log.Warn("device plugin has gone", "resource", p.resource, "error", text)
	fact := &journaletv1.DevicesObserved{Resource: p.resource, Message: text}
	if err := d.opts.Sink(d.ctx, messages.NewEvent(fact)); err != nil {
		d.opts.Log.Warn("that a device plugin has gone was not recorded", "resource", p.resource, "error", err)
	}
}
