package preflight

import (
	"fmt"
	"strings"
)

// tunables are the kernel settings that pods rely on, with the values that the kubelet sets at its start: memory is
// given out beyond what there is, so that requests count; the kernel ends a process that runs out of it; a kernel that
// has failed boots again; root has keys for as many containers as there may be.
var tunables = []struct{ name, want string }{
	{"vm.overcommit_memory", "1"},
	{"vm.panic_on_oom", "0"},
	{"kernel.panic", "10"},
	{"kernel.panic_on_oops", "1"},
	{"kernel.keys.root_maxkeys", "1000000"},
	{"kernel.keys.root_maxbytes", "25000000"},
}

// KernelTunables returns the kernel settings that differ from what pods rely on, each with the value to set, such as
// "kernel.panic=10".
func KernelTunables() []string {
	return (&machine{root: "/"}).tunables()
}

func (m *machine) tunables() []string {
	var differ []string
	for _, t := range tunables {
		if m.read("proc/sys/"+strings.ReplaceAll(t.name, ".", "/")) != t.want {
			differ = append(differ, t.name+"="+t.want)
		}
	}
	return differ
}

// kernelTunables checks the kernel settings. The agent changes none of them.
func (m *machine) kernelTunables() Check {
	differ := m.tunables()
	if len(differ) == 0 {
		return ok("the kernel has the settings that pods rely on")
	}
	c := Check{Status: Warn, Message: fmt.Sprintf("%d kernel settings differ from those of a kubelet's node", len(differ)),
		Remedy: "sysctl -w " + strings.Join(differ, " ") + "; to keep them, install deploy/systemd/90-journalet.conf"}
	if m.cfg.ProtectKernelDefaults {
		c.Status = Fail
		c.Message += ", and --protect-kernel-defaults refuses to start so"
	}
	return c
}
