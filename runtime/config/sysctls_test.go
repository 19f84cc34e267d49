package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestAllowedSysctlsAreThoseThatPodsHaveForThemselves(t *testing.T) {
	for _, ok := range []string{
		"net.core.somaxconn", "net/core/somaxconn", "net.core.*", "net.*", "kernel.msg*", "kernel.shm*", "kernel.sem",
		"fs.mqueue.*", "user.max_net_namespaces", "kernel.domainname", "net.ipv4.conf.eth0/1.forwarding",
		"net." + strings.Repeat("a", maxSysctlBytes-len("net.")),
	} {
		if c, problems := mustLoad(t, "--allowed-unsafe-sysctls", ok); len(problems) > 0 || c.Validate() != nil ||
			!slices.Equal(c.AllowedUnsafeSysctls, []string{ok}) {
			t.Errorf("%s: %v, %v, %q", ok, problems, c.Validate(), c.AllowedUnsafeSysctls)
		}
	}
	for _, bad := range []string{
		"vm.swappiness", "kernel.*", "kernel.panic", "net", "net*", "fs.file-max", "*", "net.*.x", "Net.core.x", "net..x",
		"net.core.", "net core", "net." + strings.Repeat("a", maxSysctlBytes-len("net.")+1),
	} {
		c, problems, err := load(t, "--allowed-unsafe-sysctls", bad)
		must.OK(t, err)
		if err := c.Validate(); len(problems) > 0 || err == nil || !strings.Contains(err.Error(), "allowedUnsafeSysctls") {
			t.Errorf("%s: %v, %v", bad, problems, err)
		}
	}
	many := Defaults()
	for i := range maxSysctls + 1 {
		many.AllowedUnsafeSysctls = append(many.AllowedUnsafeSysctls, fmt.Sprint("net.core.x", i))
	}
	if many.Validate() == nil {
		t.Errorf("%d sysctls are accepted", len(many.AllowedUnsafeSysctls))
	}
}

func TestAllowedSysctlsOfTheFlagReplaceThoseOfTheFile(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), head+"allowedUnsafeSysctls: [net.core.*]\n")
	c, problems := mustLoad(t, "--config", file)
	if len(problems) > 0 || !slices.Equal(c.AllowedUnsafeSysctls, []string{"net.core.*"}) {
		t.Errorf("%v, %q", problems, c.AllowedUnsafeSysctls)
	}
	c, _ = mustLoad(t, "--config", file, "--allowed-unsafe-sysctls=kernel.msg*,kernel.sem",
		"--allowed-unsafe-sysctls=net.ipv4.*")
	if want := []string{"kernel.msg*", "kernel.sem", "net.ipv4.*"}; !slices.Equal(c.AllowedUnsafeSysctls, want) {
		t.Errorf("%q, want %q", c.AllowedUnsafeSysctls, want)
	}
}

func TestKernelVersionIsAFactOfTheNode(t *testing.T) {
	for release, want := range map[string]string{
		"6.1.0-28-amd64\n": "6.1", "5.15.167.4-microsoft-standard-WSL2\n": "5.15", "4.18.0-553.el8_10.x86_64": "4.18",
		"7.0\n": "7.0", "": "", "unknown\n": "",
	} {
		root := machine(t)
		if release != "" {
			write(t, filepath.Join(root, "proc/sys/kernel/osrelease"), release)
		}
		cfg := Defaults()
		cfg.RootDir = t.TempDir()
		f, err := cfg.nodeFacts(root, "h", networkOf("", "", addr(t, "10.0.0.5/24")))
		must.OK(t, err)
		got := ""
		if f.Kernel != nil {
			got = fmt.Sprintf("%d.%d", f.Kernel.GetMajor(), f.Kernel.GetMinor())
		}
		if got != want {
			t.Errorf("%q: %q, want %q", release, got, want)
		}
	}
}
