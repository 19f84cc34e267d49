package main

import (
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/journalet/journalet/test/must"
)

func TestCallsOutOfOrderAreRefused(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	d := &driver{options: options{state: dir, ordered: true}, volumes: map[string]*volume{}}
	n := &node{driver: d}
	refused := func(what string, err error) {
		t.Helper()
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := d.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: "v"})
	must.OK(t, err)
	target := filepath.Join(dir, "target")
	_, err = n.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: "v", StagingTargetPath: "/staged",
		TargetPath: target})
	refused("publish before staging", err)
	stage := &csi.NodeStageVolumeRequest{VolumeId: "v", StagingTargetPath: "/staged"}
	for range 2 {
		_, err = n.NodeStageVolume(ctx, stage)
		must.OK(t, err)
	}
	_, err = n.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: "v", StagingTargetPath: "/other"})
	refused("stage at two paths", err)
	_, err = d.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: "v"})
	refused("delete what is staged", err)
	d.volumes["v"].published[target] = true
	_, err = n.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: "v", StagingTargetPath: "/staged"})
	refused("unstage what is published", err)
	delete(d.volumes["v"].published, target)
	_, err = n.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: "v", StagingTargetPath: "/staged"})
	must.OK(t, err)
	_, err = d.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: "v"})
	must.OK(t, err)
}
