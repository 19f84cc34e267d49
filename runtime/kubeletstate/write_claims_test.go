package kubeletstate

import (
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// A claim is written for the pods that use it, with what any of them knows of its devices. test/oracle has the
// kubelet's own manager read such files.
func TestClaimsOfPodsAreWritten(t *testing.T) {
	claim := func(name string, stage journaletv1.ClaimStage, devices ...*journaletv1.ClaimDevice) *journaletv1.PodClaim {
		return &journaletv1.PodClaim{Stage: stage, Devices: devices, Claim: &journaletv1.ResourceClaim{
			Namespace: "d", Name: name, Uid: "uid-" + name, Prepare: []string{"gpu"}, Unprepare: []string{"gpu"},
		}}
	}
	const (
		read       = journaletv1.ClaimStage_CLAIM_STAGE_READ
		preparing  = journaletv1.ClaimStage_CLAIM_STAGE_PREPARING
		prepared   = journaletv1.ClaimStage_CLAIM_STAGE_PREPARED
		unprepared = journaletv1.ClaimStage_CLAIM_STAGE_UNPREPARED
	)
	gpu := &journaletv1.ClaimDevice{Driver: "gpu", Pool: "p", Device: "d", CdiDevices: []string{"v.com/c=1"}}
	other := &journaletv1.ClaimDevice{Driver: "other", Pool: "p", Device: "d"}
	dir := t.TempDir()
	_, err := Write(dir, Given{Claims: map[string][]*journaletv1.PodClaim{
		"pod-1": {claim("shared", preparing), claim("read", read)},
		"pod-2": {claim("shared", prepared, gpu, other), claim("gone", unprepared, gpu)},
		"pod-3": {claim("shared", prepared, gpu)},
	}})
	must.OK(t, err)
	b, err := os.ReadFile(filepath.Join(dir, ClaimFile))
	must.OK(t, err)
	var file claimFile
	must.OK(t, decode(b, &file))
	const want = `{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":[{` +
		`"ClaimUID":"uid-shared","ClaimName":"shared","Namespace":"d","PodUIDs":{"pod-1":{},"pod-2":{},"pod-3":{}},` +
		`"DriverState":{"gpu":{"Devices":[{"PoolName":"p","DeviceName":"d","ShareID":null,"RequestNames":null,` +
		`"CDIDeviceIDs":["v.com/c=1"]}]}}}]}`
	if file.Data != want || file.Checksum != crc32.ChecksumIEEE([]byte(want)) {
		t.Errorf("got %s with the sum %d, want %s", file.Data, file.Checksum, want)
	}
}
