package config

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/topology"
)

// HugePages are the node's huge pages of one size.
type HugePages struct{ PageBytes, Bytes int64 }

// hugePages returns the node's huge pages by size, also sizes without any pages.
func hugePages(root string) []HugePages {
	var out []HugePages
	for _, h := range topology.HugePages(filepath.Join(root, "sys/kernel/mm/hugepages")) {
		out = append(out, HugePages{PageBytes: h.GetPageBytes(), Bytes: h.GetBytes()})
	}
	return out
}

// AllocatableMemory returns the memory in bytes that pods may request: what is allocatable, without the huge pages,
// which nothing else can use. (kubelet: the same.)
func (f *NodeFacts) AllocatableMemory() int64 {
	left := f.Allocatable.MemoryBytes
	for _, h := range f.HugePages {
		left = max(0, minus(left, h.Bytes))
	}
	return left
}

// memoryField returns a field of /proc/meminfo in bytes; 0 if it is missing.
func memoryField(root, name string) int64 {
	data, err := bounded.ReadFile(filepath.Join(root, "proc/meminfo"), maxKernelFile)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) == 3 && fields[0] == name+":" && fields[2] == "kB" {
			if kb, err := strconv.ParseInt(fields[1], 10, 64); err == nil && kb > 0 {
				return kb << 10
			}
		}
	}
	return 0
}
