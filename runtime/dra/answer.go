package dra

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// maxClaimBytes bounds what a driver answers for one claim: it is recorded. A claim has at most 32 devices
	// (resource.k8s.io/v1: AllocationResultsMaxSize).
	maxClaimBytes = 32 << 10
	// maxText bounds a name in an answer, in bytes. A CDI device has vendor, class and name.
	maxText = 512
)

// readDevices returns the devices that a driver has prepared for a claim. What no runtime could use is an error that
// names it.
func readDevices(driver string, in *dra.NodePrepareResourceResponse) ([]*journaletv1.ClaimDevice, error) {
	if n := proto.Size(in); n > maxClaimBytes {
		return nil, fmt.Errorf("DRA driver %s answers with %d bytes for one claim; at most %d are taken", driver, n,
			maxClaimBytes)
	}
	var out []*journaletv1.ClaimDevice
	for _, d := range in.GetDevices() {
		for _, text := range append([]string{d.GetPoolName(), d.GetDeviceName(), d.GetShareId()}, d.GetRequestNames()...) {
			if len(text) > maxText {
				return nil, fmt.Errorf("DRA driver %s has a pool, device, share or request %.64q of %d bytes; at most %d are "+
					"taken", driver, text, len(text), maxText)
			}
		}
		for _, name := range d.GetCdiDeviceIds() {
			if _, _, _, err := parser.ParseQualifiedName(name); err != nil || len(name) > maxText {
				return nil, fmt.Errorf("DRA driver %s names the CDI device %.64q, which is none, such as vendor.com/class=device",
					driver, name)
			}
		}
		out = append(out, &journaletv1.ClaimDevice{
			Driver: driver, Pool: d.GetPoolName(), Device: d.GetDeviceName(), ShareId: d.GetShareId(),
			Requests: d.GetRequestNames(), CdiDevices: d.GetCdiDeviceIds(),
		})
	}
	return out, nil
}
