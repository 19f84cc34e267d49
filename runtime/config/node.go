package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Capacity is what there is, or what pods may ask for in sum.
type Capacity struct {
	MilliCPU, MemoryBytes, EphemeralStorageBytes int64
	// Pids are processes; 0: not known.
	Pids int64
}

// NodeFacts is what the machine says, together with what was configured about it.
type NodeFacts struct {
	// NodeName is a DNS subdomain in lower case.
	NodeName string
	// BootID changes with every boot: nothing that ran under another one can run now.
	BootID string
	// HostIPs are the primary address and, at most, one of the other family. Empty on a machine without network.
	HostIPs []string
	// Labels are kubernetes.io/hostname, os and arch, and the configured ones, which win.
	Labels map[string]string
	// Capacity is the machine's, Allocatable what is left without what is reserved.
	Capacity, Allocatable Capacity
}

// NodeFacts reads the machine. It fails when there is no usable name, when /proc does not tell what it should, and when
// more is reserved than there is.
func (c *Config) NodeFacts() (*NodeFacts, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the node's name: %w; give it with --hostname-override", err)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("find the node's address: %w; is the network up?", err)
	}
	return c.nodeFacts("/", host, addrs)
}

// nodeFacts reads a machine whose file system begins at root.
func (c *Config) nodeFacts(root, host string, addrs []net.Addr) (*NodeFacts, error) {
	name, err := c.nodeName(host)
	if err != nil {
		return nil, err
	}
	boot, err := os.ReadFile(filepath.Join(root, "proc/sys/kernel/random/boot_id"))
	if err != nil {
		return nil, fmt.Errorf("find the boot id: %w; is /proc mounted?", err)
	}
	f := &NodeFacts{NodeName: name, BootID: strings.TrimSpace(string(boot))}
	if f.HostIPs, err = c.hostIPs(addrs); err != nil {
		return nil, err
	}
	f.Labels = map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/os": runtime.GOOS, "kubernetes.io/arch": runtime.GOARCH,
	}
	maps.Copy(f.Labels, c.NodeLabels)
	if f.Capacity, err = capacity(root, c.RootDir); err != nil {
		return nil, err
	}
	if f.Allocatable, err = c.allocatable(f.Capacity); err != nil {
		return nil, err
	}
	return f, nil
}

func (c *Config) nodeName(host string) (string, error) {
	name := c.HostnameOverride
	if name == "" {
		name = host
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if why := validation.IsDNS1123Subdomain(name); len(why) > 0 {
		return "", fmt.Errorf("%q cannot be a node's name: %s; give one with --hostname-override", name, why[0])
	}
	return name, nil
}

// hostIPs takes what is configured, else the first address that others can reach, and one of the other family.
func (c *Config) hostIPs(addrs []net.Addr) ([]string, error) {
	ips, err := parseNodeIPs(c.NodeIP)
	if err != nil {
		return nil, err
	}
	if len(ips) == 0 {
		var four, six []netip.Addr
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			ip, ok := netip.AddrFromSlice(n.IP)
			if ip = ip.Unmap(); !ok || !ip.IsGlobalUnicast() {
				continue
			}
			if ip.Is4() {
				four = append(four, ip)
			} else {
				six = append(six, ip)
			}
		}
		for _, family := range [][]netip.Addr{four, six} {
			if len(family) > 0 {
				ips = append(ips, family[0])
			}
		}
	}
	var out []string
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return out, nil
}

func capacity(root, rootDir string) (Capacity, error) {
	var out Capacity
	cpus, err := onlineCPUs(root)
	if err != nil {
		return out, err
	}
	out.MilliCPU = int64(cpus) * 1000
	if out.MemoryBytes, err = memTotal(root); err != nil {
		return out, err
	}
	// The data folder may not have been made yet: its nearest parent is on the same file system.
	var st unix.Statfs_t
	for dir := rootDir; ; dir = filepath.Dir(dir) {
		err = unix.Statfs(dir, &st)
		if err == nil || !errors.Is(err, unix.ENOENT) || dir == filepath.Dir(dir) {
			break
		}
	}
	if err != nil {
		return out, fmt.Errorf("measure the file system of %s: %w; see to it that the agent may reach it", rootDir, err)
	}
	out.EphemeralStorageBytes = int64(st.Blocks) * st.Bsize
	out.Pids = maxPids(root)
	return out, nil
}

// maxPids is how many processes the kernel can have, which two settings bound; 0 if it does not tell.
func maxPids(root string) int64 {
	var least int64
	for _, file := range []string{"pid_max", "threads-max"} {
		data, err := os.ReadFile(filepath.Join(root, "proc/sys/kernel", file))
		n, perr := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err == nil && perr == nil && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// onlineCPUs reads the kernel's list and not this process's share of it, which the agent's own unit may narrow.
func onlineCPUs(root string) (int, error) {
	data, err := os.ReadFile(filepath.Join(root, "sys/devices/system/cpu/online"))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return runtime.NumCPU(), nil
		}
		return 0, fmt.Errorf("count the CPUs: %w; is /sys mounted?", err)
	}
	total := 0
	for _, part := range strings.Split(strings.TrimSpace(string(data)), ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if errA != nil || errB != nil || b < a {
			return 0, fmt.Errorf("count the CPUs: %q is no list of CPUs; is /sys what it should be?", strings.TrimSpace(string(data)))
		}
		total += b - a + 1
	}
	return total, nil
}

func memTotal(root string) (int64, error) {
	data, err := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return 0, fmt.Errorf("measure the memory: %w; is /proc mounted?", err)
	}
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			if kb, err := strconv.ParseInt(fields[1], 10, 64); err == nil && kb > 0 {
				return kb << 10, nil
			}
		}
	}
	return 0, errors.New("measure the memory: /proc/meminfo has no MemTotal; is /proc what it should be?")
}

// allocatable takes off what is reserved. Nothing is taken off for eviction, which this version does not do.
func (c *Config) allocatable(has Capacity) (Capacity, error) {
	left := has
	for _, reserved := range []map[string]string{c.SystemReserved, c.KubeReserved} {
		for name, text := range reserved {
			q, err := resource.ParseQuantity(text)
			if err != nil {
				return left, fmt.Errorf("reserved %s: %q is no quantity; write one such as 200m or 500Mi", name, text)
			}
			switch name {
			case "cpu":
				left.MilliCPU -= q.MilliValue()
			case "memory":
				left.MemoryBytes -= q.Value()
			case "ephemeral-storage":
				left.EphemeralStorageBytes -= q.Value()
			case "pid":
				if has.Pids > 0 {
					left.Pids -= q.Value()
				}
			}
		}
	}
	if left.MilliCPU < 0 || left.MemoryBytes < 0 || left.EphemeralStorageBytes < 0 || left.Pids < 0 {
		return left, fmt.Errorf("reserved is more than there is: %dm CPU, %d bytes of memory, %d bytes of storage, %d processes; lower systemReserved or kubeReserved",
			has.MilliCPU, has.MemoryBytes, has.EphemeralStorageBytes, has.Pids)
	}
	return left, nil
}
