package kubeletstate

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/utils/dump"
)

// checksum is the sum in a file: FNV-32a of a text that names each value with its Go type in the kubelet.
type checksum uint64

// kubeletTypes replaces the names of our types in such a text by the kubelet's names.
var kubeletTypes = strings.NewReplacer(
	"kubeletstate.checksum", "checksum.Checksum",
	"kubeletstate.cpuManagerCheckpoint", "state.CPUManagerCheckpoint",
	"kubeletstate.memoryManagerCheckpoint", "state.MemoryManagerCheckpoint",
	"kubeletstate.numaNodeMap", "state.NUMANodeMap",
	"kubeletstate.numaNodeState", "state.NUMANodeState",
	"kubeletstate.memoryTable", "state.MemoryTable",
	"kubeletstate.containerMemory", "state.ContainerMemoryAssignments",
	"kubeletstate.memoryBlock", "state.Block",
	"kubeletstate.checkpointData", "checkpoint.checkpointData",
	"kubeletstate.podDevicesEntry", "checkpoint.PodDevicesEntry",
	"kubeletstate.devicesPerNUMA", "checkpoint.DevicesPerNUMA",
)

// verify returns an error unless a file's content has the sum that is in it.
func verify(content any, want checksum) error {
	sum := fnv.New32a()
	if _, err := kubeletTypes.WriteString(sum, dump.ForHash(content)); err != nil {
		return err
	}
	if has := checksum(sum.Sum32()); has != want {
		return fmt.Errorf("it is damaged: its content has the checksum %d, and %d is written in it", has, want)
	}
	return nil
}
