package kubeletstate

import (
	"cmp"
	"encoding/json"
	"hash/crc32"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// ClaimFile is the file of a kubelet's DRA manager, below the root directory (KEP-4381): which pods use a claim, and
// what drivers have prepared for it. Without it a kubelet starts no container of such a pod again, and has no driver
// unprepare the claim; by an older one it has drivers unprepare claims that pods use.
const ClaimFile = "dra_manager_state"

// claimFile is that file: its content as a text, and the CRC-32 of the text.
type claimFile struct {
	Data     string
	Checksum uint32
}

// claimData is the content of that file.
type claimData struct {
	metav1.TypeMeta
	ClaimInfoStateList []*claimEntry
}

// claimEntry is one claim in it (kubelet: ClaimInfoState).
type claimEntry struct {
	ClaimUID    string
	ClaimName   string
	Namespace   string
	PodUIDs     map[string]struct{}
	DriverState map[string]*driverEntry

	complete bool // its devices are there
}

// driverEntry is what one driver has prepared for a claim (kubelet: DriverState).
type driverEntry struct {
	Devices            []deviceEntry
	SkipNodeOperations []resourcev1.SkipNodeOperation `json:"skipNodeOperations,omitempty"`
}

// deviceEntry is one device of a claim (kubelet: Device).
type deviceEntry struct {
	PoolName     string
	DeviceName   string
	ShareID      *string
	RequestNames []string
	CDIDeviceIDs []string
}

// claims returns the DRA manager's file: the claims that drivers may have prepared for a pod.
func (g *Given) claims() ([]byte, error) {
	entries := map[string]*claimEntry{} // by UID
	for _, uid := range slices.Sorted(maps.Keys(g.Claims)) {
		for _, c := range g.Claims[uid] {
			switch c.GetStage() {
			case journaletv1.ClaimStage_CLAIM_STAGE_PREPARING, journaletv1.ClaimStage_CLAIM_STAGE_PREPARED:
				addClaim(entries, uid, c)
			}
		}
	}
	text, err := json.Marshal(claimData{
		TypeMeta: metav1.TypeMeta{Kind: "DRACheckpoint", APIVersion: "checkpoint.dra.kubelet.k8s.io/v1"},
		ClaimInfoStateList: slices.SortedFunc(maps.Values(entries), func(x, y *claimEntry) int {
			return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.ClaimName, y.ClaimName),
				cmp.Compare(x.ClaimUID, y.ClaimUID))
		}),
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(claimFile{string(text), crc32.ChecksumIEEE(text)})
}

// addClaim adds a claim that a pod uses, with its devices once they are known: all pods that use it have the same.
func addClaim(entries map[string]*claimEntry, uid string, c *journaletv1.PodClaim) {
	claim := c.GetClaim()
	e := entries[claim.GetUid()]
	if e == nil {
		e = &claimEntry{
			ClaimUID: claim.GetUid(), ClaimName: claim.GetName(), Namespace: claim.GetNamespace(),
			PodUIDs: map[string]struct{}{}, DriverState: driversOf(claim),
		}
		entries[claim.GetUid()] = e
	}
	e.PodUIDs[uid] = struct{}{}
	if e.complete || len(c.GetDevices()) == 0 {
		return
	}
	e.complete = true
	for _, d := range c.GetDevices() {
		driver := e.DriverState[d.GetDriver()]
		if driver == nil {
			continue // no driver of the claim
		}
		device := deviceEntry{
			PoolName: d.GetPool(), DeviceName: d.GetDevice(), RequestNames: d.GetRequests(), CDIDeviceIDs: d.GetCdiDevices(),
		}
		if share := d.GetShareId(); share != "" {
			device.ShareID = &share
		}
		driver.Devices = append(driver.Devices, device)
	}
}

// driversOf returns the drivers of a claim. A driver that is only to prepare it, or only to undo that, skips the other.
func driversOf(claim *journaletv1.ResourceClaim) map[string]*driverEntry {
	drivers := map[string]*driverEntry{}
	for _, name := range claim.GetPrepare() {
		drivers[name] = &driverEntry{}
		if !slices.Contains(claim.GetUnprepare(), name) {
			drivers[name].SkipNodeOperations = []resourcev1.SkipNodeOperation{resourcev1.SkipNodeOperationNodeUnprepareResources}
		}
	}
	for _, name := range claim.GetUnprepare() {
		if drivers[name] == nil {
			drivers[name] = &driverEntry{SkipNodeOperations: []resourcev1.SkipNodeOperation{
				resourcev1.SkipNodeOperationNodePrepareResources,
			}}
		}
	}
	return drivers
}
