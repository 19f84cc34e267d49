package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// driver is the identity and the controller of the driver. What it knows ends with its process.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	options

	mu      sync.Mutex
	volumes map[string]*volume // by their IDs
}

// GetPluginInfo names the driver.
func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "0"}, nil
}

// Probe says that the driver is ready.
func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// GetPluginCapabilities names the services.
func (d *driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if d.topology {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	out := new(csi.GetPluginCapabilitiesResponse)
	for _, s := range services {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: s}}})
	}
	return out, nil
}

// ControllerGetCapabilities names what this file does.
func (d *driver) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	capabilities := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER, csi.ControllerServiceCapability_RPC_CLONE_VOLUME}
	if d.modify {
		capabilities = append(capabilities, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME)
	}
	if d.attach {
		capabilities = append(capabilities, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	out := new(csi.ControllerGetCapabilitiesResponse)
	for _, c := range capabilities {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}}})
	}
	return out, nil
}

// CreateVolume creates a volume, once for a name, and with what another one contains if it is to be its clone.
func (d *driver) CreateVolume(
	_ context.Context, r *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.accept(r.GetMutableParameters()); err != nil {
		return nil, err
	}
	id := r.GetName()
	v, ok := d.volumes[id]
	if !ok {
		source := r.GetVolumeContentSource()
		from := d.volumes[source.GetVolume().GetVolumeId()]
		if source != nil && from == nil {
			return nil, status.Errorf(codes.NotFound, "there is no volume %s to clone", source.GetVolume().GetVolumeId())
		}
		block := slices.ContainsFunc(r.GetVolumeCapabilities(), func(c *csi.VolumeCapability) bool {
			return c.GetBlock() != nil
		})
		var err error
		if v, err = create(filepath.Join(d.state, id), r.GetCapacityRange().GetRequiredBytes(), block, from); err != nil {
			return nil, err
		}
		d.volumes[id] = v
	}
	out := &csi.Volume{VolumeId: id, CapacityBytes: v.bytes, VolumeContext: r.GetParameters(),
		ContentSource: r.GetVolumeContentSource()}
	if d.topology {
		out.AccessibleTopology = []*csi.Topology{d.where()}
	}
	return &csi.CreateVolumeResponse{Volume: out}, nil
}

// known returns a volume and creates it if it is new: a volume of one pod, or a volume that somebody else has
// provisioned.
func (d *driver) known(id string, as *csi.VolumeCapability) (*volume, error) {
	if v, ok := d.volumes[id]; ok {
		return v, nil
	}
	v, err := create(filepath.Join(d.state, id), defaultBytes, as.GetBlock() != nil, nil)
	if err != nil {
		return nil, err
	}
	d.volumes[id] = v
	return v, nil
}

// defaultBytes is the size of a volume that nobody has given one.
const defaultBytes = 1 << 20

// DeleteVolume deletes a volume.
func (d *driver) DeleteVolume(
	_ context.Context, r *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.volumes[r.GetVolumeId()]
	if !ok {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if d.ordered && (v.staged != "" || len(v.published) > 0) {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is staged at %q, published at %v", r.GetVolumeId(),
			v.staged, v.published)
	}
	delete(d.volumes, r.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, v.remove()
}

// ControllerModifyVolume takes the parameters that are accepted, which change nothing.
func (d *driver) ControllerModifyVolume(
	_ context.Context, r *csi.ControllerModifyVolumeRequest,
) (*csi.ControllerModifyVolumeResponse, error) {
	return &csi.ControllerModifyVolumeResponse{}, d.accept(r.GetMutableParameters())
}

// accept refuses parameters that are not accepted.
func (d *driver) accept(parameters map[string]string) error {
	for name := range parameters {
		if !slices.Contains(strings.Split(d.mutable, ","), name) {
			return status.Errorf(codes.InvalidArgument, "the parameter %s is not accepted", name)
		}
	}
	return nil
}

// ControllerPublishVolume attaches a volume to the one node that there is.
func (d *driver) ControllerPublishVolume(
	_ context.Context, r *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	if r.GetNodeId() != d.node {
		return nil, status.Errorf(codes.NotFound, "there is no node %s", r.GetNodeId())
	}
	return &csi.ControllerPublishVolumeResponse{}, nil
}

// ControllerUnpublishVolume detaches a volume.
func (d *driver) ControllerUnpublishVolume(
	context.Context, *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// ControllerExpandVolume gives a volume the size; directories have none.
func (d *driver) ControllerExpandVolume(
	_ context.Context, r *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	size := r.GetCapacityRange().GetRequiredBytes()
	if v, ok := d.volumes[r.GetVolumeId()]; ok {
		if err := v.resize(size); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: d.expandNode}, nil
}
