package cri

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// Cgroups are the limits that a node's cgroups support.
type Cgroups struct {
	// HugePages are the node's sizes of huge pages, as CRI writes them ("2MB"), sorted. Without the controller hugetlb
	// they cannot be limited, and there are none: containerd passes such limits over, and CRI-O fails on them.
	HugePages []string
	// Swap reports whether swap can be limited.
	Swap bool
}

// maxProcFile bounds what is read of /proc/self/cgroup: a line for each hierarchy.
const maxProcFile = 64 << 10

// DetectCgroups inspects the node below root, which is "/" except in tests. v2 means that the node has only the unified
// hierarchy. What cannot be read counts as missing, so that the runtime gets no settings that it would refuse.
func DetectCgroups(root string, v2 bool) Cgroups {
	out := Cgroups{}
	if cgroup.BoundsHugePages(filepath.Join(root, "sys/fs/cgroup"), v2) {
		out.HugePages = sizesOfHugePages(root)
	}
	swap := filepath.Join(root, "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
	if v2 {
		// The root cgroup has no such file, so this process's own cgroup is read.
		own, _ := bounded.ReadFile(filepath.Join(root, "proc/self/cgroup"), maxProcFile)
		_, group, _ := strings.Cut(strings.TrimSpace(string(own)), "::")
		swap = filepath.Join(root, "sys/fs/cgroup", group, "memory.swap.max")
	}
	_, err := os.Stat(swap)
	out.Swap = err == nil
	return out
}

// sizesOfHugePages returns the sizes of huge pages that the node has, sorted.
func sizesOfHugePages(root string) (sizes []string) {
	for e, err := range bounded.Entries(filepath.Join(root, "sys/kernel/mm/hugepages")) {
		if err != nil {
			break
		}
		size, ok := strings.CutPrefix(e.Name(), "hugepages-")
		kilobytes, err := strconv.ParseUint(strings.TrimSuffix(size, "kB"), 10, 64)
		if ok && err == nil {
			sizes = append(sizes, cgroup.PageSize(kilobytes))
		}
	}
	slices.Sort(sizes)
	return sizes
}
