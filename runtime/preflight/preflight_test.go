package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/test/must"
)

// testMachine returns a machine that passes all checks except that no runtime listens.
func testMachine(t *testing.T) *machine {
	t.Helper()
	// A short path: the path of a socket may have 107 bytes at most.
	root, err := os.MkdirTemp("", "m")
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	m := &machine{
		root: root, pid: 1, owner: os.Geteuid(), group: os.Getegid(), now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		cfg: config.Defaults(), pause: func(_ context.Context, d time.Duration) time.Duration { return d },
	}
	m.cfg.HealthzPort = 0
	for path, text := range map[string]string{
		"proc/self/status": "Name:\tx\nCapEff:\t000001ffffffffff\n",
		"proc/self/ns/ipc": "", "proc/self/ns/mnt": "", "proc/self/ns/net": "", "proc/self/ns/pid": "",
		"proc/self/ns/uts": "", "proc/self/ns/user": "",
		"proc/filesystems":                        "nodev\tproc\nnodev\toverlay\n\text4\n",
		"proc/swaps":                              "Filename Type Size Used Priority\n",
		"proc/net/tcp":                            "  sl  local rem   st\n   0: 0100007F:2808 00000000:0000 0A\n",
		"proc/sys/kernel/seccomp/actions_avail":   "kill log",
		"proc/sys/kernel/osrelease":               "6.1\n",
		"proc/sys/net/ipv4/ip_forward":            "1\n",
		"proc/sys/net/netfilter/nf_conntrack_max": "1000\n",
		"proc/sys/vm/overcommit_memory":           "1\n",
		"proc/sys/vm/panic_on_oom":                "0\n",
		"proc/sys/kernel/panic":                   "10\n",
		"proc/sys/kernel/panic_on_oops":           "1\n",
		"proc/sys/kernel/keys/root_maxkeys":       "1000000\n",
		"proc/sys/kernel/keys/root_maxbytes":      "25000000\n",
		"proc/sys/fs/inotify/max_user_instances":  "128\n",
		"proc/sys/fs/inotify/max_user_watches":    "8192\n",
		"sys/fs/cgroup/cgroup.controllers":        "cpuset cpu io memory pids\n",
		"sys/module/bridge/x":                     "",
		"lib/modules/6.1/modules.builtin":         "kernel/drivers/net/veth.ko\n",
		"etc/journalet/pods/a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n" +
			"spec: {containers: [{name: c, image: x}]}\n",
		"etc/resolv.conf": "nameserver 10.0.0.1\n",
		"var/lib/x":       "",
	} {
		m.write(t, path, text)
	}
	return m
}

func (m *machine) write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(m.path(path)), 0o750))
	must.OK(t, os.WriteFile(m.path(path), []byte(text), 0o600))
}

func (m *machine) remove(t *testing.T, path string) {
	t.Helper()
	must.OK(t, os.RemoveAll(m.path(path)))
}

// fakeRuntime is a CRI runtime that responds to the checks.
type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	network, events       bool
	name, message, config string // name: containerd if it is empty
}

// tuned is the configuration of a containerd that does nothing beyond what the agent needs.
const tuned = `{"containerd":{},"statsCollectPeriod":"24h"}`

func (c *fakeRuntime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: cmp.Or(c.name, "containerd"), RuntimeVersion: "v1"}, nil
}

func (c *fakeRuntime) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: c.network, Message: c.message},
	}}, Info: map[string]string{"config": c.config}}, nil
}

func (c *fakeRuntime) GetContainerEvents(r *runtimeapi.GetEventsRequest,
	s grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if !c.events {
		return c.UnimplementedRuntimeServiceServer.GetContainerEvents(r, s)
	}
	<-s.Context().Done()
	return nil
}

func (m *machine) serve(t *testing.T, c *fakeRuntime) {
	t.Helper()
	path := m.path("run/containerd/containerd.sock")
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o750))
	l, err := net.Listen("unix", path)
	must.OK(t, err)
	s := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(s, c)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it has begun
			t.Error(err)
		}
	})
}

func (m *machine) find(t *testing.T, name string) Check {
	t.Helper()
	for _, c := range m.run(context.Background()) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %q", name)
	return Check{}
}

func TestHealthyMachinePassesAllChecks(t *testing.T) {
	m := testMachine(t)
	m.serve(t, &fakeRuntime{network: true, events: true, config: tuned})
	seen := map[string]bool{}
	for _, c := range m.run(context.Background()) {
		if c.Status != OK && !(c.Name == "disk" && c.Status == Warn) {
			t.Errorf("%+v", c)
		}
		if seen[c.Name] {
			t.Errorf("two checks with name %q", c.Name)
		}
		seen[c.Name] = true
	}
}

func TestProblemsAreFoundWithARemedy(t *testing.T) {
	for _, c := range []struct {
		name, want string
		status     Status
		change     func(*testing.T, *machine)
	}{
		{"privileges", "user 7", Fail, func(_ *testing.T, m *machine) { m.uid = 7 }},
		{"privileges", "CAP_SYS_ADMIN", Fail, func(t *testing.T,
			m *machine) {
			m.write(t, "proc/self/status", "CapEff:\t00000000a80425fb\n")
		}},
		{"runtime", "no runtime at /run/containerd", Fail, func(*testing.T, *machine) {}},
		{"runtime", "not a socket", Fail, func(t *testing.T,
			m *machine) {
			m.write(t, "run/containerd/containerd.sock", "")
		}},
		{"runtime-network", "cni plugin not initialized", Warn, func(t *testing.T, m *machine) {
			m.serve(t, &fakeRuntime{message: "cni plugin not initialized", events: true})
		}},
		{"runtime-events", "every second", Warn, func(t *testing.T, m *machine) { m.serve(t, &fakeRuntime{network: true}) }},
		{"cgroup-driver", "systemd runs here", Warn, func(t *testing.T, m *machine) {
			m.write(t, "run/systemd/system/x", "")
			m.serve(t, &fakeRuntime{network: true, events: true})
		}},
		{"cgroup-driver", "the agent uses systemd", OK, func(t *testing.T, m *machine) {
			m.write(t, "run/systemd/system/x", "")
			m.cfg.CgroupDriver = cgroup.Systemd
			m.serve(t, &fakeRuntime{network: true, events: true})
		}},
		{"cgroup-driver", "the runtime uses systemd", OK, func(t *testing.T, m *machine) {
			m.serve(t, &fakeRuntime{network: true, events: true, config: `{"containerd":{"defaultRuntimeName":"runc",` +
				`"runtimes":{"runc":{"runtimeType":"io.containerd.runc.v2","options":{"SystemdCgroup":true}}}}}`})
		}},
		{"cgroups", "v2 without memory", Fail, func(t *testing.T,
			m *machine) {
			m.write(t, "sys/fs/cgroup/cgroup.controllers", "cpu pids")
		}},
		{"cgroups", "v1 (hybrid) with", OK, func(t *testing.T, m *machine) {
			m.remove(t, "sys/fs/cgroup")
			for _, p := range []string{"cpu/x", "memory/x", "pids/x", "unified/cgroup.controllers"} {
				m.write(t, "sys/fs/cgroup/"+p, "")
			}
		}},
		{"namespaces", "kind net", Fail, func(t *testing.T, m *machine) { m.remove(t, "proc/self/ns/net") }},
		{"seccomp", "RuntimeDefault", Fail, func(t *testing.T, m *machine) {
			m.cfg.SeccompDefault = true
			m.remove(t, "proc/sys/kernel/seccomp")
		}},
		{"overlayfs", "not in /proc/filesystems", Warn,
			func(t *testing.T, m *machine) { m.write(t, "proc/filesystems", "\text4\n") }},
		{"bridge", "bridge", Warn, func(t *testing.T, m *machine) { m.remove(t, "sys/module/bridge") }},
		{"bridge", "unknown", Skip, func(t *testing.T, m *machine) { m.remove(t, "lib/modules") }},
		{"ip-forward", "does not forward", Warn,
			func(t *testing.T, m *machine) { m.write(t, "proc/sys/net/ipv4/ip_forward", "0\n") }},
		{"inotify", "max_user_watches is 10", Warn,
			func(t *testing.T, m *machine) { m.write(t, "proc/sys/fs/inotify/max_user_watches", "10\n") }},
		{"clock", "1970", Fail, func(_ *testing.T, m *machine) { m.now = time.Unix(0, 0) }},
		{"root-dir", "not writable", Fail, func(t *testing.T, m *machine) { m.cfg.RootDir = "/var/lib/x" }},
		{"static-pods", "does not exist", Warn, func(t *testing.T, m *machine) { m.remove(t, "etc/journalet") }},
		{"static-pods", "everybody can change", Fail, func(t *testing.T, m *machine) {
			must.OK(t, os.Chmod(m.path("etc/journalet/pods"), 0o777))
		}},
		{"static-pods", "everybody can change", Fail, func(t *testing.T, m *machine) {
			must.OK(t, os.Chmod(m.path("etc/journalet/pods"), 0o777|os.ModeSticky))
		}},
		{"static-pods", "a.yaml, and so run any pod as root", Fail, func(t *testing.T, m *machine) {
			must.OK(t, os.Chmod(m.path("etc/journalet/pods/a.yaml"), 0o666))
		}},
		{"static-pods", "/etc/journalet, and so", Fail, func(t *testing.T, m *machine) {
			must.OK(t, os.Chmod(m.path("etc/journalet"), 0o777))
		}},
		{"root-dir", "everybody can change", Fail, func(t *testing.T, m *machine) {
			m.write(t, "var/lib/journalet/x", "")
			must.OK(t, os.Chmod(m.path("var/lib/journalet"), 0o777))
		}},
		{"resolv-conf", "the pod itself", Warn, func(t *testing.T,
			m *machine) {
			m.write(t, "etc/resolv.conf", "nameserver 127.0.0.53\n")
		}},
		{"swap", "1 areas", OK, func(t *testing.T, m *machine) { m.write(t, "proc/swaps", "Filename\n/swap file 1 0 -2\n") }},
		{"kubelet", "its port 10250", Warn, func(t *testing.T, m *machine) {
			m.write(t, "proc/net/tcp6", "  0: 00000000000000000000000000000000:280A 00000000000000000000000000000000:0000 0A\n")
		}},
		{"ports", "cannot listen", Fail, func(t *testing.T, m *machine) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must.OK(t, err)
			t.Cleanup(func() { _ = l.Close() })
			m.cfg.BusListen = l.Addr().String()
		}},
	} {
		t.Run(c.name+" "+c.want, func(t *testing.T) {
			m := testMachine(t)
			c.change(t, m)
			got := m.find(t, c.name)
			if got.Status != c.status || !strings.Contains(got.Message, c.want) || got.Status == Fail && got.Remedy == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestFreeSpaceBounds(t *testing.T) {
	for _, c := range []struct {
		free          int64
		inodes, spare uint64
		want          Status
	}{
		{minFree - 1, 0, 0, Fail}, {minFree, 0, 0, Warn}, {goodFree, 0, 0, OK}, {goodFree, 1 << 20, 10, Warn},
		{goodFree, 1 << 20, 1 << 19, OK},
	} {
		if got := freeSpace(c.free, c.inodes, c.spare, "/x"); got.Status != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestSimulatedRuntimeNeedsNoPrivilegesAndNoKubeletCheck(t *testing.T) {
	m := testMachine(t)
	m.cfg.ContainerRuntimeEndpoint, m.uid = "sim://small", 1000
	m.process(t, 40, "kubelet", "/usr/bin/kubelet")
	for _, c := range m.run(context.Background()) {
		if c.Status == Fail {
			t.Errorf("%+v", c)
		}
	}
	if c := m.find(t, "runtime"); c.Status != Skip {
		t.Errorf("%+v", c)
	}
}

// process adds a process with the machine's file system as its root.
func (m *machine) process(t *testing.T, pid int, comm string, args ...string) {
	t.Helper()
	dir := fmt.Sprintf("proc/%d/", pid)
	m.write(t, dir+"comm", comm+"\n")
	m.write(t, dir+"cmdline", strings.Join(args, "\x00")+"\x00")
	m.write(t, dir+"status", "Name:\t"+comm+"\nState:\tS (sleeping)\nUid:\t0\t0\t0\t0\n")
	must.OK(t, os.Symlink(m.root, m.path(dir+"root")))
	must.OK(t, os.Symlink(m.root, m.path(dir+"cwd")))
}

func TestOnlyKubeletsOnTheSameRuntimeAreFound(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	other := "unix:///run/crio/crio.sock"
	for _, c := range []struct {
		name  string
		found bool
		set   func(*testing.T, *machine)
	}{
		{"by comm", true, func(t *testing.T, m *machine) { m.process(t, 40, "kubelet", "/renamed") }},
		{"by argument", true, func(t *testing.T, m *machine) { m.process(t, 40, "main", "/opt/kubelet", "--v=2") }},
		{"only as a file's name", false, func(t *testing.T, m *machine) { m.process(t, 40, "vim", "vim", "kubelet") }},
		{"ended", false, func(t *testing.T, m *machine) {
			m.process(t, 40, "kubelet", "")
			m.write(t, "proc/40/status", "Name:\tkubelet\nState:\tZ (zombie)\nUid:\t0\t0\t0\t0\n")
		}},
		{"this process", false, func(t *testing.T, m *machine) { m.process(t, m.pid, "kubelet", "kubelet") }},
		{"an agent in the kubelet's place", false, func(t *testing.T, m *machine) {
			m.process(t, 40, "kubelet", "/usr/bin/kubelet")
			m.write(t, "usr/bin/journalet", "")
			must.OK(t, os.Symlink(m.path("usr/bin/journalet"), m.path("proc/self/exe")))
			must.OK(t, os.Symlink(m.path("usr/bin/journalet"), m.path("proc/40/exe")))
		}},
		{"a kubelet beside an agent", true, func(t *testing.T, m *machine) {
			m.process(t, 40, "kubelet", "/usr/bin/kubelet")
			m.write(t, "usr/bin/journalet", "")
			m.write(t, "usr/bin/kubelet", "")
			must.OK(t, os.Symlink(m.path("usr/bin/journalet"), m.path("proc/self/exe")))
			must.OK(t, os.Symlink(m.path("usr/bin/kubelet"), m.path("proc/40/exe")))
		}},
		{"other by flag", false, func(t *testing.T, m *machine) {
			m.process(t, 40, "kubelet", "kubelet", "--container-runtime-endpoint="+other)
		}},
		{"other by flag in two", false, func(t *testing.T, m *machine) {
			m.process(t, 40, "kubelet", "kubelet", "--container-runtime-endpoint", other)
		}},
		{"same by another spelling", true, func(t *testing.T, m *machine) {
			m.process(t, 40, "kubelet", "kubelet", "--container-runtime-endpoint=/var/run/containerd/containerd.sock")
		}},
		{"other by file", false, func(t *testing.T, m *machine) {
			m.write(t, "k.yaml", head+"containerRuntimeEndpoint: "+other+"\n")
			m.process(t, 40, "kubelet", "kubelet", "--config=/k.yaml")
		}},
		{"other by file in its directory", false, func(t *testing.T, m *machine) {
			m.write(t, "k.yaml", head+"containerRuntimeEndpoint: "+other+"\n")
			m.process(t, 40, "kubelet", "kubelet", "--config", "k.yaml")
		}},
		{"a drop-in wins over the file", true, func(t *testing.T, m *machine) {
			m.write(t, "k.yaml", head+"containerRuntimeEndpoint: "+other+"\n")
			m.write(t, "d/10.conf", head+"containerRuntimeEndpoint: "+config.DefaultEndpoint+"\n")
			m.process(t, 40, "kubelet", "kubelet", "--config=/k.yaml", "--config-dir=/d")
		}},
		{"a flag wins over the file", true, func(t *testing.T, m *machine) {
			m.write(t, "k.yaml", head+"containerRuntimeEndpoint: "+other+"\n")
			m.process(t, 40, "kubelet", "kubelet", "--config=/k.yaml", "--container-runtime-endpoint="+config.DefaultEndpoint)
		}},
		{"file without it", true, func(t *testing.T, m *machine) {
			m.write(t, "k.yaml", head)
			m.process(t, 40, "kubelet", "kubelet", "--config=/k.yaml")
		}},
		{"file that cannot be read", true, func(t *testing.T,
			m *machine) {
			m.process(t, 40, "kubelet", "kubelet", "--config=/gone.yaml")
		}},
		{"the same path, in a container", false, func(t *testing.T, m *machine) {
			m.write(t, "run/containerd/containerd.sock", "ours")
			m.write(t, "inner/run/containerd/containerd.sock", "theirs")
			m.process(t, 40, "kubelet", "kubelet")
			m.remove(t, "proc/40/root")
			must.OK(t, os.Symlink(m.path("inner"), m.path("proc/40/root")))
		}},
		{"another path to the same socket", true, func(t *testing.T, m *machine) {
			m.write(t, "run/containerd/containerd.sock", "ours")
			must.OK(t, os.Link(m.path("run/containerd/containerd.sock"), m.path("other.sock")))
			m.process(t, 40, "kubelet", "kubelet", "--container-runtime-endpoint=unix:///other.sock")
		}},
		{"k3s with its own", false, func(t *testing.T,
			m *machine) {
			m.process(t, 40, "k3s-server", "/usr/local/bin/k3s server")
		}},
		{"k3s with ours", true, func(t *testing.T, m *machine) {
			m.process(t, 40, "k3s-agent", "k3s", "agent", "--container-runtime-endpoint", config.DefaultEndpoint)
		}},
		{"the second of two", true, func(t *testing.T, m *machine) {
			m.process(t, 40, "kubelet", "kubelet", "--container-runtime-endpoint="+other)
			m.process(t, 41, "kubelet", "kubelet")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := testMachine(t)
			c.set(t, m)
			pid, found := m.kubeletRunning()
			if found != c.found {
				t.Fatalf("found: %t (pid %d), want %t", found, pid, c.found)
			}
			check := m.kubelet()
			if found != (check.Status == Fail) || found && !strings.Contains(check.Remedy, "--allow-beside-kubelet") {
				t.Errorf("%+v", check)
			}
			m.cfg.AllowBesideKubelet = true
			if m.kubelet().Status == Fail {
				t.Error("the check fails in spite of AllowBesideKubelet")
			}
		})
	}
}

func TestAllChecksRunOnThisMachine(t *testing.T) {
	cfg := config.Defaults()
	cfg.ContainerRuntimeEndpoint = "unix://" + filepath.Join(t.TempDir(), "none.sock")
	for _, c := range Run(context.Background(), cfg) {
		if c.Name == "" || c.Message == "" || c.Status == Fail && c.Remedy == "" {
			t.Errorf("%+v", c)
		}
		t.Logf("%-4s %-16s %s", c.Status, c.Name, c.Message)
	}
}

func TestKernelSettingsAreChecked(t *testing.T) {
	m := testMachine(t)
	if c := m.kernelTunables(); c.Status != OK {
		t.Errorf("%+v", c)
	}
	m.write(t, "proc/sys/kernel/panic", "0\n")
	m.remove(t, "proc/sys/kernel/keys/root_maxkeys")
	c := m.kernelTunables()
	if c.Status != Warn || !strings.HasPrefix(c.Remedy, "sysctl -w kernel.panic=10 kernel.keys.root_maxkeys=1000000;") {
		t.Errorf("%+v", c)
	}
	m.cfg.ProtectKernelDefaults = true
	if c := m.kernelTunables(); c.Status != Fail {
		t.Errorf("%+v", c)
	}
	shipped, err := os.ReadFile("../../deploy/systemd/90-journalet.conf")
	must.OK(t, err)
	for _, t2 := range tunables {
		if !strings.Contains(string(shipped), t2.name+" = "+t2.want+"\n") {
			t.Errorf("the shipped file does not set %s to %s", t2.name, t2.want)
		}
	}
}
