package topology

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
)

// Bounds of what is read.
const (
	// maxFile bounds a file of /sys or /proc: the longest, a list of CPUs, has a few KiB.
	maxFile = 64 << 10
	// maxNumber is the highest number of a CPU or a NUMA node: several times what a kernel can have, 8192 and 1024.
	maxNumber = 1<<16 - 1
	// lastLevel is the level of the cache that cores share, or not.
	lastLevel = 3
)

// reader reads below a root directory, which is / on a real machine.
type reader struct{ root string }

// Read returns the CPUs that are online and the memory of each NUMA node, with the machine's file system at root. A
// machine without NUMA nodes has one, 0. It fails without /sys and /proc.
func Read(root string) (*journaletv1.NodeTopology, error) {
	r := reader{root}
	online, err := r.list("sys/devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("read the CPUs that are online: %w; is /sys mounted?", err)
	}
	nodes, err := r.nodes(online)
	if err != nil {
		return nil, err
	}
	out := new(journaletv1.NodeTopology)
	left := online
	for _, n := range nodes {
		cpus := left.Intersection(n.cpus)
		left = left.Difference(cpus)
		cores, err := r.cores(n.GetId(), cpus)
		if err != nil {
			return nil, err
		}
		out.Nodes, out.Cores = append(out.Nodes, n.NumaNode), append(out.Cores, cores...)
	}
	if !left.IsEmpty() {
		return nil, fmt.Errorf("CPUs %s are online and in no NUMA node; is /sys of another machine mounted?", left)
	}
	return out, nil
}

// numaNode is a NUMA node with its CPUs, also CPUs that are not online.
type numaNode struct {
	*journaletv1.NumaNode
	cpus cpuset.CPUSet
}

func (r reader) nodes(online cpuset.CPUSet) ([]numaNode, error) {
	const dir = "sys/devices/system/node"
	var out []numaNode
	for e, err := range bounded.Entries(filepath.Join(r.root, dir)) {
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list the NUMA nodes: %w", err)
		}
		text, is := strings.CutPrefix(e.Name(), "node")
		id, err := strconv.ParseUint(text, 10, 16)
		if !is || err != nil {
			continue
		}
		n, err := r.node(uint32(id), filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the NUMA node %d: %w; is /sys mounted?", id, err)
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(x, y numaNode) int { return cmp.Compare(x.GetId(), y.GetId()) })
	if len(out) > 0 {
		return out, nil
	}
	memory, err := r.memory("proc/meminfo", 0)
	if err != nil {
		return nil, fmt.Errorf("measure the memory: %w; is /proc mounted?", err)
	}
	return []numaNode{{&journaletv1.NumaNode{
		MemoryBytes: memory, HugePages: HugePages(filepath.Join(r.root, "sys/kernel/mm/hugepages")), Distances: []uint32{10},
	}, online}}, nil
}

func (r reader) node(id uint32, dir string) (numaNode, error) {
	cpus, err := r.list(filepath.Join(dir, "cpulist"))
	if err != nil {
		return numaNode{}, err
	}
	memory, err := r.memory(filepath.Join(dir, "meminfo"), 2) // "Node 0 MemTotal: ... kB"
	if err != nil {
		return numaNode{}, err
	}
	n := &journaletv1.NumaNode{Id: id, MemoryBytes: memory, HugePages: HugePages(filepath.Join(r.root, dir, "hugepages"))}
	text, err := r.text(filepath.Join(dir, "distance"))
	for _, field := range strings.Fields(text) {
		d, perr := strconv.ParseUint(field, 10, 16)
		if err != nil || perr != nil || len(n.Distances) > maxNumber {
			n.Distances = nil
			break
		}
		n.Distances = append(n.Distances, uint32(d))
	}
	return numaNode{n, cpus}, nil
}

// memory returns MemTotal of a meminfo file in bytes, whose lines begin with so many other words. A NUMA node may have
// none.
func (r reader) memory(name string, skip int) (int64, error) {
	text, err := r.text(name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != skip+3 || f[skip] != "MemTotal:" || f[skip+2] != "kB" {
			continue
		}
		if kb, err := strconv.ParseInt(f[skip+1], 10, 64); err == nil && kb >= 0 && kb <= math.MaxInt64>>10 {
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("%s has no MemTotal in kB", filepath.Join(r.root, name))
}

// HugePages returns the huge pages of a directory of the kernel by size, such as /sys/kernel/mm/hugepages, also sizes
// without any pages; nothing if the kernel has no huge pages.
func HugePages(dir string) []*journaletv1.HugePages {
	var out []*journaletv1.HugePages
	for e, err := range bounded.Entries(dir) {
		if err != nil {
			break
		}
		size, is := strings.CutPrefix(e.Name(), "hugepages-")
		kb, err := strconv.ParseInt(strings.TrimSuffix(size, "kB"), 10, 32)
		if !is || err != nil || kb <= 0 {
			continue
		}
		data, err := bounded.ReadFile(filepath.Join(dir, e.Name(), "nr_hugepages"), maxFile)
		pages, perr := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err != nil || perr != nil || pages < 0 || pages > math.MaxInt64/(kb<<10) {
			continue
		}
		out = append(out, &journaletv1.HugePages{PageBytes: kb << 10, Bytes: pages * (kb << 10)})
	}
	slices.SortFunc(out, func(x, y *journaletv1.HugePages) int { return cmp.Compare(x.GetPageBytes(), y.GetPageBytes()) })
	return out
}

// cores returns the cores of a NUMA node, by socket and number.
func (r reader) cores(node uint32, cpus cpuset.CPUSet) ([]*journaletv1.CpuCore, error) {
	type key struct{ socket, core int64 }
	byKey := map[key]*journaletv1.CpuCore{}
	var out []*journaletv1.CpuCore
	for _, cpu := range cpus.List() {
		dir := filepath.Join("sys/devices/system/cpu", "cpu"+strconv.Itoa(cpu))
		socket, err := r.number(filepath.Join(dir, "topology/physical_package_id"))
		if err != nil {
			return nil, fmt.Errorf("find the socket of CPU %d: %w", cpu, err)
		}
		core, err := r.number(filepath.Join(dir, "topology/core_id"))
		if err != nil {
			return nil, fmt.Errorf("find the core of CPU %d: %w", cpu, err)
		}
		socket = max(0, socket) // -1: the machine does not say
		k := key{socket, core}
		c := byKey[k]
		if c == nil {
			c = &journaletv1.CpuCore{NumaNode: node, Socket: uint32(socket), Cache: r.cache(dir, socket, cpus)}
			byKey[k] = c
			out = append(out, c)
		}
		c.Cpus = append(c.Cpus, uint32(cpu))
	}
	slices.SortStableFunc(out, func(x, y *journaletv1.CpuCore) int { return cmp.Compare(x.GetSocket(), y.GetSocket()) })
	return out, nil
}

// cache returns the last-level cache of a CPU: that which some CPUs of its NUMA node share, else the socket's number.
func (r reader) cache(dir string, socket int64, node cpuset.CPUSet) uint32 {
	for e, err := range bounded.Entries(filepath.Join(r.root, dir, "cache")) {
		if err != nil {
			break
		}
		cacheDir := filepath.Join(dir, "cache", e.Name())
		if level, err := r.number(filepath.Join(cacheDir, "level")); err != nil || level != lastLevel {
			continue
		}
		shared, err := r.list(filepath.Join(cacheDir, "shared_cpu_list"))
		if err != nil || shared.IsEmpty() || shared.Size() == node.Size() {
			break
		}
		id, err := r.number(filepath.Join(cacheDir, "id"))
		if err != nil || id < 0 {
			id = int64(shared.List()[0]) // older kernels do not number caches
		}
		return uint32(id)
	}
	return uint32(socket)
}

func (r reader) text(name string) (string, error) {
	data, err := bounded.ReadFile(filepath.Join(r.root, name), maxFile)
	return string(data), err
}

// number reads a file with one number, which fits 32 bits.
func (r reader) number(name string) (int64, error) {
	text, err := r.text(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: found %.20q, want a number", filepath.Join(r.root, name), text)
	}
	return n, nil
}

// list reads a file with a list of CPUs, which may be empty. Numbers are bounded before the list is expanded.
func (r reader) list(name string) (cpuset.CPUSet, error) {
	text, err := r.text(name)
	if err != nil {
		return cpuset.New(), err
	}
	text = strings.TrimSpace(text)
	bad := fmt.Errorf("%s: found %.40q, want a list of CPUs such as 0-3,8", filepath.Join(r.root, name), text)
	size := 0
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if from, err := strconv.Atoi(first); err == nil && ranged {
			to, _ := strconv.Atoi(last) // cpuset.Parse refuses what is no number
			size += max(0, to-from)
		}
		if size++; size > maxNumber {
			return cpuset.New(), bad
		}
	}
	set, err := cpuset.Parse(text)
	if err != nil {
		return cpuset.New(), bad
	}
	return set, nil
}
