package stats

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

// hardware is what does not change while the machine runs, but for its memory.
type hardware struct {
	cores, physical, sockets int
	memory, swap             uint64
	labels                   []string
}

var machineLabels = []string{"boot_id", "machine_id", "system_uuid"}

// MachineMetrics returns cAdvisor's metrics of the machine.
func (s *Stats) MachineMetrics() prometheus.Collector {
	c := newCollector(machineLabels, machineFamilies(), "machine_scrape_error")
	fixed := sync.OnceValue(s.findMachine)
	c.collect = func(yield func([]string, time.Time, hardware)) {
		ctx, cancel := scrape()
		defer cancel()
		m, r := fixed(), s.read(ctx, Containers)
		m.memory, m.swap = r.node.memory.total, r.node.memory.swapTotal
		yield(m.labels, time.Time{}, m)
	}
	return c
}

func machineFamilies() []family[hardware] {
	gauge := func(name, help string, value func(hardware) float64) family[hardware] {
		return family[hardware]{name: "machine_" + name, help: help,
			each: one(func(m hardware) (float64, bool) { return value(m), true })}
	}
	return []family[hardware]{
		gauge("cpu_cores", "Logical CPUs.", func(m hardware) float64 { return float64(m.cores) }),
		gauge("cpu_physical_cores", "Cores.", func(m hardware) float64 { return float64(m.physical) }),
		gauge("cpu_sockets", "Sockets.", func(m hardware) float64 { return float64(m.sockets) }),
		gauge("memory_bytes", "Memory.", func(m hardware) float64 { return float64(m.memory) }),
		gauge("swap_bytes", "Swap.", func(m hardware) float64 { return float64(m.swap) }),
	}
}

// maxIDBytes bounds a file with one id or number.
const maxIDBytes = 256

func (s *Stats) findMachine() hardware {
	root := filepath.Dir(s.opts.Proc)
	line := func(name string) string {
		data, err := bounded.ReadFile(filepath.Join(root, name), maxIDBytes)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(data))
	}
	m := hardware{labels: []string{
		line("proc/sys/kernel/random/boot_id"), line("etc/machine-id"), line("sys/class/dmi/id/product_uuid"),
	}}
	cores, sockets := map[string]bool{}, map[string]bool{}
	for e, err := range bounded.Entries(filepath.Join(root, "sys/devices/system/cpu")) {
		if err != nil {
			break
		}
		number, ok := strings.CutPrefix(e.Name(), "cpu")
		if _, bad := strconv.Atoi(number); !ok || bad != nil {
			continue
		}
		dir := filepath.Join("sys/devices/system/cpu", e.Name(), "topology")
		socket := line(filepath.Join(dir, "physical_package_id"))
		if socket == "" {
			continue // offline
		}
		m.cores++
		sockets[socket], cores[socket+"/"+line(filepath.Join(dir, "core_id"))] = true, true
	}
	m.physical, m.sockets = len(cores), len(sockets)
	if m.cores == 0 {
		m.cores, m.physical, m.sockets = runtime.NumCPU(), runtime.NumCPU(), 1
	}
	return m
}

// deviceOf returns the device with the file system of a path. If that file system has no device, it returns the path.
func (s *Stats) deviceOf(path string) string {
	var st unix.Stat_t
	if path == "" || unix.Stat(path, &st) != nil {
		return path
	}
	if name, ok := s.deviceName(uint64(unix.Major(st.Dev)), uint64(unix.Minor(st.Dev))); ok {
		return name
	}
	return path
}

// device returns the path of a device, or its numbers if it has no path.
func (s *Stats) device(major, minor uint64) string {
	name, _ := s.deviceName(major, minor)
	return name
}

// maxDeviceBytes bounds what the kernel reports about one device.
const maxDeviceBytes = 4 << 10

// deviceName returns the path of a device; ok is false, and the path its numbers, if it has none. A name is kept: a
// node has a handful, and the kernel uses numbers again for the same kind of device only.
func (s *Stats) deviceName(major, minor uint64) (path string, ok bool) {
	numbers := strconv.FormatUint(major, 10) + ":" + strconv.FormatUint(minor, 10)
	if known, ok := s.devices.Load(numbers); ok {
		return known.(string), true
	}
	data, err := bounded.ReadFile(filepath.Join(filepath.Dir(s.opts.Proc), "sys/dev/block", numbers, "uevent"),
		maxDeviceBytes)
	if err != nil {
		return numbers, false
	}
	for line := range strings.Lines(string(data)) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); found {
			path := string(os.PathSeparator) + filepath.Join("dev", name)
			s.devices.Store(numbers, path)
			return path, true
		}
	}
	return numbers, false
}
