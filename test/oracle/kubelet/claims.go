package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra/state"
)

// NotedClaims returns what the state file of the DRA manager in a directory has, one claim a line: its pods, and of
// each driver which calls a kubelet makes to it, and the devices.
func NotedClaims(dir, file string) (string, error) {
	c, err := state.NewCheckpointer(dir, file)
	if err != nil {
		return "", err
	}
	all, err := c.GetOrCreate()
	if err != nil {
		return "", err
	}
	list, err := all.GetClaimInfoStateList()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, claim := range list {
		fmt.Fprintf(&out, "%s/%s %s of %s:", claim.Namespace, claim.ClaimName, claim.ClaimUID, sets.List(claim.PodUIDs))
		for _, name := range slices.Sorted(maps.Keys(claim.DriverState)) {
			driver := claim.DriverState[name]
			fmt.Fprintf(&out, " %s prepares %t unprepares %t", name,
				!driver.Skips(resourcev1.SkipNodeOperationNodePrepareResources),
				!driver.Skips(resourcev1.SkipNodeOperationNodeUnprepareResources))
			for _, d := range driver.Devices {
				share := ""
				if d.ShareID != nil {
					share = string(*d.ShareID)
				}
				fmt.Fprintf(&out, " %s/%s %q %s %s", d.PoolName, d.DeviceName, share, d.RequestNames, d.CDIDeviceIDs)
			}
		}
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// ClaimDevices returns the CDI devices that a kubelet with the state file in a directory gives to a container that it
// starts again.
func ClaimDevices(dir string, pod *v1.Pod, c *v1.Container) ([]string, error) {
	m, err := dra.NewManager(klog.Background(), nil, dir)
	if err != nil {
		return nil, err
	}
	info, err := m.GetResources(pod, c)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range info.CDIDevices {
		names = append(names, d.Name)
	}
	return names, nil
}
