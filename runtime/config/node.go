package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
)

// maxKernelFile bounds what is read of a file of /proc or /sys: the longest has about 2 KiB.
const maxKernelFile = 64 << 10

// Capacity are resources of a node: all of them, or those allocatable to pods.
type Capacity struct {
	MilliCPU, MemoryBytes, EphemeralStorageBytes int64
	// Pids are processes; 0: unknown.
	Pids int64
}

// NodeFacts are the facts of the machine, combined with the configuration.
type NodeFacts struct {
	// NodeName is a DNS subdomain in lower case.
	NodeName string
	// BootID changes with every boot: no process of an earlier boot can run.
	BootID string
	// HostIPs are the primary address and at most one of the other family; none on a machine without network.
	HostIPs []string
	// Labels are kubernetes.io/hostname, os and arch, and the configured ones, which win.
	Labels map[string]string
	// Capacity are the machine's resources. Enforced are those without what is reserved, which a cgroup may enforce for
	// all pods together; Allocatable are these without the hard eviction thresholds: what pods may request.
	Capacity, Enforced, Allocatable Capacity
	// HugePages are the huge pages that were reserved when the agent started, by size.
	HugePages []HugePages
	// SwapBytes is the size of all swap.
	SwapBytes int64
	// MaxPods bounds the pods: maxPods, or less by podsPerCore.
	MaxPods int32
	// AppArmor: the kernel confines processes by AppArmor profiles.
	AppArmor bool
	// Kernel is its version; nil: unknown.
	Kernel *journaletv1.KernelVersion
	// UserNamespaces are the ids for pods with user namespaces of their own.
	UserNamespaces IDRange
	// Managers are how exclusive CPUs and memory are given to containers; nil: no container gets any.
	Managers *journaletv1.ResourceManagers
}

// NodeFacts reads the machine. It fails without a valid node name, without the expected files in /proc, and if more is
// reserved than the capacity.
func (c *Config) NodeFacts() (*NodeFacts, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the node's name: %w; set it with --hostname-override", err)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("find the node's address: %w; is the network up?", err)
	}
	f, err := c.nodeFacts("/", host, network{addrs, lookUp, utilnet.ResolveBindAddress})
	if err != nil {
		return nil, err
	}
	if f.UserNamespaces, err = c.userNamespaces(getsubids); err != nil {
		return nil, err
	}
	return f, nil
}

// nodeFacts reads a machine with its file system at root.
func (c *Config) nodeFacts(root, host string, n network) (*NodeFacts, error) {
	name, err := c.nodeName(host)
	if err != nil {
		return nil, err
	}
	boot, err := bounded.ReadFile(filepath.Join(root, "proc/sys/kernel/random/boot_id"), maxKernelFile)
	if err != nil {
		return nil, fmt.Errorf("find the boot id: %w; is /proc mounted?", err)
	}
	f := &NodeFacts{NodeName: name, BootID: strings.TrimSpace(string(boot))}
	if f.HostIPs, err = c.hostIPs(name, n); err != nil {
		return nil, err
	}
	f.Labels = map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/os": runtime.GOOS, "kubernetes.io/arch": runtime.GOARCH,
	}
	maps.Copy(f.Labels, c.NodeLabels)
	if f.Capacity, err = c.capacity(root); err != nil {
		return nil, err
	}
	if f.Enforced, f.Allocatable, err = c.allocatable(root, f.Capacity); err != nil {
		return nil, err
	}
	if f.Managers, err = c.managers(root, f.Capacity, f.Allocatable); err != nil {
		return nil, err
	}
	f.AppArmor, f.HugePages, f.SwapBytes = appArmor(root), hugePages(root), memoryField(root, "SwapTotal")
	f.Kernel, f.MaxPods = kernelVersion(root), c.maxPods(f.Capacity)
	return f, nil
}

// appArmor reports whether AppArmor is enabled, by the same two files as the kubelet and runc.
func appArmor(root string) bool {
	if _, err := os.Stat(filepath.Join(root, "sys/kernel/security/apparmor")); err != nil {
		return false
	}
	// The file has one character and a newline.
	enabled, err := bounded.ReadFile(filepath.Join(root, "sys/module/apparmor/parameters/enabled"), maxKernelFile)
	return err == nil && len(enabled) > 1 && enabled[0] == 'Y'
}

func (c *Config) nodeName(host string) (string, error) {
	name := c.HostnameOverride
	if name == "" {
		name = host
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if why := validation.IsDNS1123Subdomain(name); len(why) > 0 {
		return "", fmt.Errorf("%q is not a valid node name: %s; set one with --hostname-override", name, why[0])
	}
	return name, nil
}

// network is where the node's addresses come from.
type network struct {
	// addrs are the addresses of the interfaces.
	addrs []net.Addr
	// lookUp resolves a name.
	lookUp func(name string) []net.IP
	// byRoute returns the address of the interface with the default route, preferably of the family of 0.0.0.0 or ::.
	byRoute func(unspecified net.IP) (net.IP, error)
}

// lookUpTimeout bounds the resolution of the node's name: a start must not wait for a name server.
const lookUpTimeout = 2 * time.Second

func lookUp(name string) []net.IP {
	ctx, stop := context.WithTimeout(context.Background(), lookUpTimeout)
	defer stop()
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", name)
	if err != nil {
		return nil
	}
	return ips
}

// GivenNodeIPs returns the addresses that --node-ip gives, in the form of the API; none if it names a family only.
func (c *Config) GivenNodeIPs() []string {
	ips, err := parseNodeIPs(c.NodeIP)
	if err != nil || len(ips) == 1 && ips[0].IsUnspecified() {
		return nil
	}
	return texts(ips)
}

func texts(ips []netip.Addr) []string {
	var out []string
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return out
}

// hostIPs returns the configured addresses. Without one, it returns the address of the node's name, else of the default
// route, as the kubelet does, else of the first interface; after it the first one of the other family. IPv4 is
// preferred, unless --node-ip is ::.
func (c *Config) hostIPs(name string, n network) ([]string, error) {
	ips, err := parseNodeIPs(c.NodeIP)
	if err != nil {
		return nil, err
	}
	switch {
	case len(ips) == 0:
		ips = n.choose(name, netip.IPv4Unspecified())
	case ips[0].IsUnspecified():
		ips = n.choose(name, ips[0])
	}
	return texts(ips), nil
}

// choose returns the primary address, preferably of the family of an unspecified one, and the first one of the other
// family. An address of the node's name comes before the default route's address, whatever its family.
func (n network) choose(name string, unspecified netip.Addr) []netip.Addr {
	var own []netip.Addr
	for _, a := range n.addrs {
		if at, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(at.IP); ok && ip.Unmap().IsGlobalUnicast() {
				own = append(own, ip.Unmap())
			}
		}
	}
	found := preferring(unspecified, n.lookUp(name))
	if ip, err := n.byRoute(unspecified.AsSlice()); err == nil {
		found = append(found, preferring(unspecified, []net.IP{ip})...)
	}
	found = slices.DeleteFunc(found, func(ip netip.Addr) bool { return !slices.Contains(own, ip) })
	slices.SortStableFunc(own, byFamily(unspecified))
	all := append(found, own...)
	if len(all) == 0 {
		return nil
	}
	for _, ip := range own {
		if ip.Is4() != all[0].Is4() {
			return []netip.Addr{all[0], ip}
		}
	}
	return all[:1]
}

// preferring returns addresses, one family first.
func preferring(family netip.Addr, ips []net.IP) []netip.Addr {
	var out []netip.Addr
	for _, ip := range ips {
		if a, ok := netip.AddrFromSlice(ip); ok {
			out = append(out, a.Unmap())
		}
	}
	slices.SortStableFunc(out, byFamily(family))
	return out
}

// byFamily orders one family before the other.
func byFamily(first netip.Addr) func(a, b netip.Addr) int {
	return func(a, b netip.Addr) int {
		if first.Is4() {
			return a.BitLen() - b.BitLen()
		}
		return b.BitLen() - a.BitLen()
	}
}

func (c *Config) capacity(root string) (Capacity, error) {
	var out Capacity
	cpus, err := onlineCPUs(root)
	if err != nil {
		return out, err
	}
	out.MilliCPU = int64(cpus.Size()) * 1000
	if out.MemoryBytes, err = memTotal(root); err != nil {
		return out, err
	}
	if c.LocalStorage {
		if out.EphemeralStorageBytes, err = sizeOf(c.RootDir); err != nil {
			return out, err
		}
	}
	out.Pids = maxPids(root)
	return out, nil
}

// sizeOf returns the size of the file system of a directory. It may not exist yet: its closest existing parent is on
// the same file system.
func sizeOf(rootDir string) (bytes int64, err error) {
	var st unix.Statfs_t
	for dir := rootDir; ; dir = filepath.Dir(dir) {
		err = unix.Statfs(dir, &st)
		if err == nil || !errors.Is(err, unix.ENOENT) || dir == filepath.Dir(dir) {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("measure the file system of %s: %w; check the agent's permissions", rootDir, err)
	}
	return int64(st.Blocks) * st.Bsize, nil
}

// maxPids returns the kernel's maximum number of processes, which two settings bound; 0 if it is unknown.
func maxPids(root string) int64 {
	var least int64
	for _, file := range []string{"pid_max", "threads-max"} {
		data, err := bounded.ReadFile(filepath.Join(root, "proc/sys/kernel", file), maxKernelFile)
		n, perr := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err == nil && perr == nil && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// onlineCPUs reads the kernel's list, not this process's affinity, which the agent's systemd unit may restrict.
func onlineCPUs(root string) (cpuset.CPUSet, error) {
	data, err := bounded.ReadFile(filepath.Join(root, "sys/devices/system/cpu/online"), maxKernelFile)
	if errors.Is(err, os.ErrNotExist) {
		return cpuset.Parse("0-" + strconv.Itoa(runtime.NumCPU()-1))
	}
	if err != nil {
		return cpuset.CPUSet{}, fmt.Errorf("count the CPUs: %w; is /sys mounted?", err)
	}
	text := strings.TrimSpace(string(data))
	set, err := cpuset.Parse(text)
	if err != nil || set.IsEmpty() {
		return set, fmt.Errorf("count the CPUs: %q is not a list of CPUs; is /sys mounted?", text)
	}
	return set, nil
}

func memTotal(root string) (int64, error) {
	if _, err := os.Stat(filepath.Join(root, "proc/meminfo")); err != nil {
		return 0, fmt.Errorf("measure the memory: %w; is /proc mounted?", err)
	}
	if total := memoryField(root, "MemTotal"); total > 0 {
		return total, nil
	}
	return 0, errors.New("measure the memory: /proc/meminfo has no MemTotal; is /proc mounted?")
}

// minus returns what is left of an amount, or -1 once less than nothing is: two large amounts must not wrap around.
func minus(left, reserved int64) int64 {
	if left < 0 || reserved > left {
		return -1
	}
	return left - reserved
}

// allocatable subtracts what is reserved, and then the hard eviction thresholds, which no cgroup enforces.
func (c *Config) allocatable(root string, has Capacity) (enforced, allocatable Capacity, err error) {
	left := has
	cpus, byList, err := c.reservedCPUs(root)
	if err != nil {
		return left, left, err
	}
	if byList { // instead of what systemReserved and kubeReserved have
		left.MilliCPU = minus(left.MilliCPU, int64(cpus)*1000)
	}
	for _, reserved := range []map[string]string{c.SystemReserved, c.KubeReserved} {
		for name, text := range reserved {
			q, err := resource.ParseQuantity(text)
			if err != nil {
				return left, left, fmt.Errorf("reserved %s: found %q, want a quantity such as 200m or 500Mi", name, text)
			}
			switch name {
			case "cpu":
				if !byList {
					left.MilliCPU = minus(left.MilliCPU, resources.Millis(&q))
				}
			case "memory":
				left.MemoryBytes = minus(left.MemoryBytes, resources.Bytes(&q))
			case "ephemeral-storage":
				if c.LocalStorage {
					left.EphemeralStorageBytes = minus(left.EphemeralStorageBytes, resources.Bytes(&q))
				}
			case "pid":
				if has.Pids > 0 {
					left.Pids = minus(left.Pids, resources.Bytes(&q))
				}
			}
		}
	}
	enforced = left
	if left, err = c.withoutThresholds(has, left); err != nil {
		return enforced, left, err
	}
	if left.MilliCPU < 0 || left.MemoryBytes < 0 || left.EphemeralStorageBytes < 0 || left.Pids < 0 {
		return enforced, left, fmt.Errorf("more is reserved than the capacity: %dm CPU, %d bytes of memory, %d bytes of "+
			"storage, %d processes; lower systemReserved, kubeReserved, reservedSystemCPUs or evictionHard", has.MilliCPU,
			has.MemoryBytes, has.EphemeralStorageBytes, has.Pids)
	}
	return enforced, left, nil
}
