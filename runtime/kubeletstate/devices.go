package kubeletstate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// checkpointData is the content of the device manager's file. Its checksum covers its fields and the fields of its
// parts, with their types and their order.
type checkpointData struct {
	PodDeviceEntries  []podDevicesEntry
	RegisteredDevices map[string][]string
}

// podDevicesEntry are the devices of one container and resource. AllocResp is the plugin's response; the agent calls
// the plugin again before it starts a container.
type podDevicesEntry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     devicesPerNUMA
	AllocResp     []byte
}

// devicesPerNUMA are ids by NUMA node.
type devicesPerNUMA map[int64][]string

// deviceCheckpoint is the device manager's file.
type deviceCheckpoint struct {
	Data     checkpointData
	Checksum checksum
}

// deviceEntries returns the entries of the device manager's file.
func deviceEntries(data []byte) ([]podDevicesEntry, error) {
	file := deviceCheckpoint{Data: checkpointData{
		PodDeviceEntries: []podDevicesEntry{}, RegisteredDevices: map[string][]string{},
	}}
	if err := decode(data, &file); err != nil {
		return nil, err
	}
	return file.Data.PodDeviceEntries, verify(file.Data, file.Checksum)
}

// devices reads the devices that containers have.
func (s *state) devices(data []byte) error {
	entries, err := deviceEntries(data)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !s.has(e.PodUID) {
			continue
		}
		ids, err := e.ids()
		if err == nil && len(s.out.Pods[e.PodUID].GetDevices()) == maxContainers {
			err = fmt.Errorf("at most %d resources of containers are read", maxContainers)
		}
		if err != nil {
			s.problem("%s: pod %s: %v", DeviceFile, e.PodUID, err)
			continue
		}
		p := s.pod(e.PodUID)
		p.Devices = append(p.Devices, &journaletv1.ContainerDevices{
			Container: e.ContainerName, Resource: e.ResourceName, Ids: ids,
		})
	}
	for _, p := range s.out.GetPods() {
		slices.SortStableFunc(p.Devices, func(x, y *journaletv1.ContainerDevices) int {
			return cmp.Or(cmp.Compare(x.GetContainer(), y.GetContainer()), cmp.Compare(x.GetResource(), y.GetResource()))
		})
	}
	return nil
}

// ids returns the ids of an entry, sorted.
func (e podDevicesEntry) ids() (ids []string, err error) {
	if err := nameable("container", e.ContainerName); err != nil {
		return nil, err
	}
	if err := nameable("resource", e.ResourceName); err != nil {
		return nil, err
	}
	for _, list := range e.DeviceIDs {
		if len(list) > maxDevices || len(ids) > maxDevices {
			return nil, fmt.Errorf("more than %d devices of %s", maxDevices, e.ResourceName)
		}
		ids = append(ids, list...)
	}
	for _, id := range ids {
		if err := nameable("device", id); err != nil {
			return nil, err
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil // one at two NUMA nodes is there twice
}
