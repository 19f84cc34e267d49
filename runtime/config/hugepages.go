package config

import (
	"bytes"
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
)

// HugePages are the node's huge pages of one size.
type HugePages struct{ PageBytes, Bytes int64 }

// hugePages returns the node's huge pages by size, also a size of which there are none.
func hugePages(root string) []HugePages {
	const prefix, suffix = "hugepages-", "kB"
	dir := filepath.Join(root, "sys/kernel/mm/hugepages")
	var out []HugePages
	for e, err := range bounded.Entries(dir) {
		if err != nil {
			break // the kernel has none
		}
		size, ok := strings.CutPrefix(e.Name(), prefix)
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(size, suffix), 10, 32)
		if !ok || err != nil || kilobytes <= 0 {
			continue
		}
		data, err := bounded.ReadFile(filepath.Join(dir, e.Name(), "nr_hugepages"), maxKernelFile)
		pages, perr := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err != nil || perr != nil || pages < 0 || pages > math.MaxInt64/(kilobytes<<10) {
			continue
		}
		out = append(out, HugePages{PageBytes: kilobytes << 10, Bytes: pages * (kilobytes << 10)})
	}
	slices.SortFunc(out, func(x, y HugePages) int { return cmp.Compare(x.PageBytes, y.PageBytes) })
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
