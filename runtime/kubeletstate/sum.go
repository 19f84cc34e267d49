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

// sumOf returns the sum of a file's content.
func sumOf(content any) checksum {
	sum := fnv.New32a()
	_, _ = kubeletTypes.WriteString(sum, dump.ForHash(content)) // a sum in memory takes whatever is written
	return checksum(sum.Sum32())
}

// verify returns an error unless a file's content has the sum that is in it.
func verify(content any, want checksum) error {
	if has := sumOf(content); has != want {
		return fmt.Errorf("it is damaged: its content has the checksum %d, and %d is written in it", has, want)
	}
	return nil
}
