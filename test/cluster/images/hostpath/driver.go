package main

import (
	"context"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// driver is the identity and the controller of the driver. What it knows ends with its process, as the directories of
// its volumes do.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	options

	mu    sync.Mutex
	sizes map[string]int64 // of the volumes that there are, by their IDs
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
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER}
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

// CreateVolume creates a volume, once for a name; its directory comes when it is staged.
func (d *driver) CreateVolume(
	_ context.Context, r *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := r.GetName()
	if _, ok := d.sizes[id]; !ok {
		d.sizes[id] = r.GetCapacityRange().GetRequiredBytes()
	}
	v := &csi.Volume{VolumeId: id, CapacityBytes: d.sizes[id], VolumeContext: r.GetParameters()}
	if d.topology {
		v.AccessibleTopology = []*csi.Topology{d.where()}
	}
	return &csi.CreateVolumeResponse{Volume: v}, nil
}

// DeleteVolume forgets a volume.
func (d *driver) DeleteVolume(
	_ context.Context, r *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sizes, r.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, nil
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
	d.sizes[r.GetVolumeId()] = size
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: d.expandNode}, nil
}
