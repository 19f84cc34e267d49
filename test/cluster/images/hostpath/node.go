package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// node is the driver's part on a node.
type node struct {
	csi.UnimplementedNodeServer
	*driver
}

// ephemeralKey marks the volume of one pod: an agent sets it in the volume's context.
const ephemeralKey = "csi.storage.k8s.io/ephemeral"

// NodeGetInfo describes the node.
func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId: n.options.node, MaxVolumesPerNode: n.limit, AccessibleTopology: n.where(),
	}, nil
}

// NodeGetCapabilities names what this file does.
func (n *node) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	capabilities := []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER}
	if n.expandNode {
		capabilities = append(capabilities, csi.NodeServiceCapability_RPC_EXPAND_VOLUME)
	}
	out := new(csi.NodeGetCapabilitiesResponse)
	for _, c := range capabilities {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
	}
	return out, nil
}

// NodeStageVolume notes the path; what is published is the volume itself.
func (n *node) NodeStageVolume(
	_ context.Context, r *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, err := n.known(r.GetVolumeId(), r.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	if n.ordered && v.staged != "" && v.staged != r.GetStagingTargetPath() {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is staged at %s", r.GetVolumeId(), v.staged)
	}
	v.staged = r.GetStagingTargetPath()
	return &csi.NodeStageVolumeResponse{}, v.attach()
}

// NodeUnstageVolume detaches the loop device.
func (n *node) NodeUnstageVolume(
	_ context.Context, r *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, ok := n.volumes[r.GetVolumeId()]
	if !ok || v.staged == "" {
		return &csi.NodeUnstageVolumeResponse{}, nil
	}
	if n.ordered && len(v.published) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is published at %v", r.GetVolumeId(), v.published)
	}
	v.staged = ""
	return &csi.NodeUnstageVolumeResponse{}, v.detach()
}

// NodePublishVolume mounts the volume at the target. The volume of one pod is created.
func (n *node) NodePublishVolume(
	_ context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ephemeral := r.GetVolumeContext()[ephemeralKey] == "true"
	if v := n.volumes[r.GetVolumeId()]; n.ordered && !ephemeral && (v == nil || v.staged != r.GetStagingTargetPath()) {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is not staged at %s", r.GetVolumeId(),
			r.GetStagingTargetPath())
	}
	v, err := n.known(r.GetVolumeId(), r.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	v.ephemeral = ephemeral
	return &csi.NodePublishVolumeResponse{}, v.publish(r.GetTargetPath(), r.GetReadonly())
}

// NodeUnpublishVolume unmounts the target and removes it, and with it the volume of one pod.
func (n *node) NodeUnpublishVolume(
	_ context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := vacate(r.GetTargetPath()); err != nil {
		return nil, err
	}
	v, ok := n.volumes[r.GetVolumeId()]
	if !ok {
		return &csi.NodeUnpublishVolumeResponse{}, nil
	}
	delete(v.published, r.GetTargetPath())
	if !v.ephemeral {
		return &csi.NodeUnpublishVolumeResponse{}, nil
	}
	delete(n.volumes, r.GetVolumeId())
	return &csi.NodeUnpublishVolumeResponse{}, v.remove()
}

// NodeGetVolumeStats measures the volume.
func (n *node) NodeGetVolumeStats(
	_ context.Context, r *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, ok := n.volumes[r.GetVolumeId()]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "there is no volume %s", r.GetVolumeId())
	}
	usage := &csi.VolumeUsage{Unit: csi.VolumeUsage_BYTES, Total: v.bytes}
	if !v.block {
		bytes, err := used(v.path)
		if err != nil {
			return nil, err
		}
		usage.Used, usage.Available = bytes, max(0, v.bytes-bytes)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{usage}}, nil
}

// NodeExpandVolume gives the volume the size.
func (n *node) NodeExpandVolume(
	_ context.Context, r *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, ok := n.volumes[r.GetVolumeId()]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "there is no volume %s", r.GetVolumeId())
	}
	if err := v.resize(r.GetCapacityRange().GetRequiredBytes()); err != nil {
		return nil, err
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.bytes}, nil
}
