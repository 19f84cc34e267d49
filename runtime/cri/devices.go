package cri

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// cdiDevices returns the devices that a container's limits name (vendor.com/class=device: 1), by name. The runtime has
// their specifications.
func cdiDevices(c *corev1.Container) []*runtimeapi.CDIDevice {
	var out []*runtimeapi.CDIDevice
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
		if strings.Contains(string(name), "=") {
			out = append(out, &runtimeapi.CDIDevice{Name: string(name)})
		}
	}
	return out
}
