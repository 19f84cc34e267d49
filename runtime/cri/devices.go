package cri

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri/expand"
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

// withDeviceEnvs returns a container's variables and the variables of its devices; the container's own replace the
// devices'. Their size is charged to the budget.
func withDeviceEnvs(
	own []*runtimeapi.KeyValue, all []*journaletv1.ContainerDevices, budget *expand.Budget,
) ([]*runtimeapi.KeyValue, error) {
	set := map[string]bool{}
	for _, e := range own {
		set[e.GetKey()] = true
	}
	var out []*runtimeapi.KeyValue
	for _, d := range all {
		for _, e := range d.GetAnswer().GetEnvs() {
			if set[e.GetName()] {
				continue
			}
			set[e.GetName()] = true
			value, err := budget.Variable(e.GetName(), e.GetValue(), nil)
			if err != nil {
				return nil, fmt.Errorf("environment variable %s of %s: %w", e.GetName(), d.GetResource(), err)
			}
			out = append(out, &runtimeapi.KeyValue{Key: e.GetName(), Value: []byte(value)})
		}
	}
	return append(out, own...), nil
}

// deviceMounts returns what plugins mount into a container. Of two mounts at one path the first counts.
func deviceMounts(all []*journaletv1.ContainerDevices) []*runtimeapi.Mount {
	var out []*runtimeapi.Mount
	at := map[string]bool{}
	for _, d := range all {
		for _, m := range d.GetAnswer().GetMounts() {
			if !at[m.GetContainerPath()] {
				at[m.GetContainerPath()] = true
				out = append(out, &runtimeapi.Mount{
					ContainerPath: m.GetContainerPath(), HostPath: m.GetHostPath(), Readonly: m.GetReadOnly(),
				})
			}
		}
	}
	return out
}

// deviceNodes returns the device files that plugins give a container. Of two at one path the first counts.
func deviceNodes(all []*journaletv1.ContainerDevices) []*runtimeapi.Device {
	var out []*runtimeapi.Device
	at := map[string]bool{}
	for _, d := range all {
		for _, n := range d.GetAnswer().GetNodes() {
			if !at[n.GetContainerPath()] {
				at[n.GetContainerPath()] = true
				out = append(out, &runtimeapi.Device{
					ContainerPath: n.GetContainerPath(), HostPath: n.GetHostPath(), Permissions: n.GetPermissions(),
				})
			}
		}
	}
	return out
}

// checkDevices fails unless what plugins mount into a container, and their device files, are on the node. The runtime
// would create a directory for a mount that is missing.
func (c *call) checkDevices(ctx context.Context, all []*journaletv1.ContainerDevices) error {
	for _, d := range all {
		var paths []string
		for _, m := range d.GetAnswer().GetMounts() {
			paths = append(paths, m.GetHostPath())
		}
		for _, n := range d.GetAnswer().GetNodes() {
			paths = append(paths, n.GetHostPath())
		}
		for _, path := range paths {
			_, err := bounded.Within(ctx, c.answers, path, bounded.AnswerTimeout, func() (os.FileInfo, error) {
				return c.opts.Stat(path)
			})
			switch {
			case err == nil:
			case ctx.Err() != nil:
				return ctx.Err()
			default:
				return calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, fmt.Sprintf(
					"what the plugin of %s gives the container is not on the node: %v", d.GetResource(), err))
			}
		}
	}
	return nil
}

// pluginCDIDevices returns the CDI devices that plugins name for a container.
func pluginCDIDevices(all []*journaletv1.ContainerDevices) []*runtimeapi.CDIDevice {
	var out []*runtimeapi.CDIDevice
	for _, d := range all {
		for _, name := range d.GetAnswer().GetCdiDevices() {
			if !slices.ContainsFunc(out, func(o *runtimeapi.CDIDevice) bool { return o.GetName() == name }) {
				out = append(out, &runtimeapi.CDIDevice{Name: name})
			}
		}
	}
	return out
}

// deviceAnnotations returns the annotations that plugins give a container; ours replace them.
func deviceAnnotations(all []*journaletv1.ContainerDevices) map[string]string {
	out := map[string]string{}
	for _, d := range all {
		for _, a := range d.GetAnswer().GetAnnotations() {
			if _, set := out[a.GetName()]; !set {
				out[a.GetName()] = a.GetValue()
			}
		}
	}
	return out
}

// claimCDIDevices returns the CDI devices of a container's claims that are not there yet.
func claimCDIDevices(there []*runtimeapi.CDIDevice, names []string) []*runtimeapi.CDIDevice {
	for _, name := range names {
		if !slices.ContainsFunc(there, func(o *runtimeapi.CDIDevice) bool { return o.GetName() == name }) {
			there = append(there, &runtimeapi.CDIDevice{Name: name})
		}
	}
	return there
}
