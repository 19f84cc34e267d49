package preflight

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// The needs of a busy node. With less, programs in pods may get no watch.
const (
	minInotifyInstances = 128
	minInotifyWatches   = 8192
)

// capabilities are the capabilities that starting a pod needs, by number (capabilities(7)).
var capabilities = map[int]string{0: "CAP_CHOWN", 1: "CAP_DAC_OVERRIDE", 3: "CAP_FOWNER", 21: "CAP_SYS_ADMIN"}

// controllers are the cgroup controllers that the limits of containers need.
var controllers = []string{"cpu", "memory", "pids"}

func (m *machine) privileges() Check {
	const remedy = "run the agent as root on the host (systemctl start journalet), or in a privileged container"
	if m.uid != 0 {
		return Check{Status: Fail, Message: fmt.Sprintf("runs as user %d", m.uid), Remedy: remedy}
	}
	has, err := strconv.ParseUint(statusLine(m.read("proc/self/status"), "CapEff"), 16, 64)
	if err != nil {
		return Check{Status: Skip, Message: "runs as root; /proc does not show its capabilities"}
	}
	var lacks []string
	for n, name := range capabilities {
		if has&(1<<n) == 0 {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) > 0 {
		slices.Sort(lacks)
		return Check{Status: Fail, Message: "runs as root without " + strings.Join(lacks, ", "), Remedy: remedy}
	}
	return ok("runs as root with all required capabilities")
}

func (m *machine) cgroups() Check {
	const remedy = "boot the kernel with cgroup_enable=memory, or mount the controllers"
	var have []string
	mode := "v1"
	if list := m.read("sys/fs/cgroup/cgroup.controllers"); m.exists("sys/fs/cgroup/cgroup.controllers") {
		mode, have = "v2", strings.Fields(list)
	} else {
		if m.exists("sys/fs/cgroup/unified/cgroup.controllers") {
			mode = "v1 (hybrid)"
		}
		for _, c := range controllers {
			if m.exists(filepath.Join("sys/fs/cgroup", c)) {
				have = append(have, c)
			}
		}
	}
	var lacks []string
	for _, c := range controllers {
		if !slices.Contains(have, c) {
			lacks = append(lacks, c)
		}
	}
	if len(lacks) > 0 {
		message := fmt.Sprintf("cgroup %s without %s", mode, strings.Join(lacks, ", "))
		return Check{Status: Fail, Message: message, Remedy: remedy}
	}
	if err := cgroup.CheckReserved(m.cfg.ReservedCgroups()); err != nil {
		return Check{Status: Fail, Message: err.Error(), Remedy: "create the cgroup, such as a slice of systemd"}
	}
	return ok("cgroup %s with %s", mode, strings.Join(controllers, ", "))
}

func (m *machine) namespaces() Check {
	var lacks []string
	for _, ns := range []string{"ipc", "mnt", "net", "pid", "uts"} {
		if !m.exists("proc/self/ns/" + ns) {
			lacks = append(lacks, ns)
		}
	}
	if len(lacks) > 0 {
		return Check{Status: Fail, Message: "the kernel has no namespaces of kind " + strings.Join(lacks, ", "),
			Remedy: "boot a kernel built with CONFIG_NAMESPACES and all its kinds"}
	}
	if !m.exists("proc/self/ns/user") {
		return Check{Status: Warn, Message: "the kernel has no user namespaces: pods with hostUsers: false cannot run",
			Remedy: "boot a kernel built with CONFIG_USER_NS"}
	}
	return ok("the kernel has all kinds of namespaces")
}

func (m *machine) seccomp() Check {
	if m.exists("proc/sys/kernel/seccomp/actions_avail") {
		return ok("the kernel supports seccomp filters")
	}
	c := Check{Status: Warn, Message: "the kernel has no seccomp filters: pods with profile RuntimeDefault do not start",
		Remedy: "boot a kernel built with CONFIG_SECCOMP_FILTER"}
	if m.cfg.SeccompDefault {
		c.Status, c.Remedy = Fail, "pass --seccomp-default=false, or "+c.Remedy
	}
	return c
}

func (m *machine) overlayfs() Check {
	for line := range strings.Lines(m.read("proc/filesystems")) {
		if f := strings.Fields(line); len(f) > 0 && f[len(f)-1] == "overlay" {
			return ok("the kernel supports it")
		}
	}
	// The first mount loads the module.
	if m.hasModule("overlay") {
		return ok("the kernel can load it")
	}
	return Check{Status: Warn, Message: "not in /proc/filesystems; the default snapshotter of containerd needs it",
		Remedy: "modprobe overlay"}
}

func (m *machine) bridge() Check {
	var lacks []string
	for _, name := range []string{"bridge", "veth"} {
		if !m.hasModule(name) {
			lacks = append(lacks, name)
		}
	}
	release := m.read("proc/sys/kernel/osrelease")
	switch {
	case len(lacks) == 0:
		return ok("the kernel has bridge and veth")
	case !m.exists("lib/modules/" + release):
		return Check{Status: Skip, Message: strings.Join(lacks, " and ") + ": unknown, no kernel modules on this file system"}
	}
	return Check{Status: Warn, Message: "the kernel lacks " + strings.Join(lacks, " and ") +
		", which most CNI plugins need",
		Remedy: "modprobe -a " + strings.Join(lacks, " ")}
}

// hasModule reports whether a module is loaded, built in or can be loaded.
func (m *machine) hasModule(name string) bool {
	if m.exists("sys/module/" + name) {
		return true
	}
	dir := "lib/modules/" + m.read("proc/sys/kernel/osrelease") + "/"
	for _, list := range []string{"modules.builtin", "modules.dep"} {
		for line := range strings.Lines(m.read(dir + list)) {
			path, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			base, _, _ := strings.Cut(filepath.Base(path), ".ko")
			if base == name {
				return true
			}
		}
	}
	return false
}

func (m *machine) ipForward() Check {
	switch m.read("proc/sys/net/ipv4/ip_forward") {
	case "1":
		return ok("the kernel forwards packets")
	case "0":
		return Check{Status: Warn, Message: "the kernel does not forward packets: pods reach nothing beyond this node",
			Remedy: "sysctl -w net.ipv4.ip_forward=1"}
	}
	return Check{Status: Skip, Message: "net.ipv4.ip_forward cannot be read"}
}

func (m *machine) conntrack() Check {
	if m.exists("proc/sys/net/netfilter/nf_conntrack_max") {
		return ok("connection tracking is loaded")
	}
	return Check{Status: Skip, Message: "not loaded; CNI plugins load it when services or host ports need it"}
}

func (m *machine) inotify() Check {
	for _, l := range []struct {
		name string
		min  int
	}{{"max_user_instances", minInotifyInstances}, {"max_user_watches", minInotifyWatches}} {
		n, err := strconv.Atoi(m.read("proc/sys/fs/inotify/" + l.name))
		if err != nil {
			return Check{Status: Warn, Message: "the kernel has no inotify: only the periodic read finds changed manifests",
				Remedy: "boot a kernel built with CONFIG_INOTIFY_USER"}
		}
		if n < l.min {
			return Check{Status: Warn, Message: fmt.Sprintf("fs.inotify.%s is %d, a busy node needs %d", l.name, n, l.min),
				Remedy: fmt.Sprintf("sysctl -w fs.inotify.%s=%d", l.name, l.min)}
		}
	}
	return ok("enough inotify instances and watches")
}

func (m *machine) swap() Check {
	if lines := strings.Split(m.read("proc/swaps"), "\n"); len(lines) > 1 {
		return ok("swap is on (%d areas); the runtime decides whether containers use it", len(lines)-1)
	}
	return ok("swap is off")
}
