package preflight

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

const (
	everySecond = `{"containerd":{},"statsCollectPeriod":""}`
	dumped      = "[debug]\nlevel = ''\n[plugins.'io.containerd.cri.v1.runtime']\nstats_collect_period = ''\n"
)

// containerdProcess shows this process, which serves the fake runtime, as a containerd that prints a configuration.
func (m *machine) containerdProcess(t *testing.T, config string) (dir string) {
	t.Helper()
	pid := os.Getpid()
	m.process(t, pid, "containerd", "/usr/bin/containerd", "--config", "/etc/containerd/config.toml")
	dir = fmt.Sprintf("proc/%d/", pid)
	must.OK(t, os.Symlink("/usr/bin/containerd", m.path(dir+"exe")))
	m.write(t, dir+"cgroup", "12:cpu:/\n1:name=systemd:/system.slice/containerd.service\n")
	m.write(t, dir+"stat", "1 (containerd) S 1 1 1 0 -1 0 0 0 0 0 100 50 0 0 20 0 1 0 5 6000 321")
	m.write(t, "dump.toml", config)
	m.write(t, "usr/bin/containerd", "#!/bin/sh\nexec cat '"+m.path("dump.toml")+"'\n")
	must.OK(t, os.Chmod(m.path("usr/bin/containerd"), 0o755))
	return dir
}

// shim adds a shim of the runtime.
func (m *machine) shim(t *testing.T, pid int) (dir string) {
	t.Helper()
	m.process(t, pid, "containerd-shim", "/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", "x",
		"-address", "/run/containerd/containerd.sock")
	dir = fmt.Sprintf("proc/%d/", pid)
	m.write(t, dir+"stat", fmt.Sprintf("%d (shim) 1 2) S 1 1 1 0 -1 0 0 0 0 0 7 3 0 0 20 0 1 0 5 6000 321", pid))
	return dir
}

func (m *machine) settingsOf(t *testing.T, r *fakeRuntime) string {
	t.Helper()
	r.network, r.events = true, true
	m.serve(t, r)
	var text strings.Builder
	for _, c := range m.run(context.Background()) {
		if strings.HasPrefix(c.Name, "runtime-settings") || c.Name == "runtime-log" {
			fmt.Fprintf(&text, "%s %s: %s | %s\n", c.Name, c.Status, c.Message, c.Remedy)
		}
	}
	return text.String()
}

func TestSamplesOfTheRuntimeAreReportedWithTheirCostHere(t *testing.T) {
	m := testMachine(t)
	dir := m.containerdProcess(t, dumped)
	shims := []string{m.shim(t, 4001), m.shim(t, 4002)}
	m.process(t, 4003, "containerd-shim", "/usr/bin/containerd-shim-runc-v2", "-address", "/run/other.sock")
	m.contained(t, 4004, "containerd-shim", "containerd-shim-runc-v2", "-address", "/run/containerd/containerd.sock")
	m.pause = func(_ context.Context, d time.Duration) time.Duration {
		m.write(t, dir+"stat", "1 (containerd) S 1 1 1 0 -1 0 0 0 0 0 101 51 0 0 20 0 1 0 5 6000 321")
		m.write(t, shims[0]+"stat", "4001 (shim) 1 2) S 1 1 1 0 -1 0 0 0 0 0 9 3 0 0 20 0 1 0 5 6000 321")
		m.remove(t, shims[1]) // its pod has ended meanwhile
		return d
	}
	got := m.settingsOf(t, &fakeRuntime{config: everySecond})
	want := "runtime-settings warn: containerd samples the statistics of all containers every 1s, and this agent reads " +
		"none of them: an estimated 2 of the 20 millicores that containerd and 2 shims took over 2s, at 1.5 millicores a pod"
	if !strings.HasPrefix(got, want) || !strings.Contains(got, "journalet check --fix") ||
		!strings.Contains(got, "PodAndContainerStatsFromCRI") {
		t.Errorf("%s", got)
	}
}

func TestSettingsOfTheRuntimeThatCostNothingAreFine(t *testing.T) {
	for name, c := range map[string]struct {
		runtime fakeRuntime
		want    string
	}{
		"tuned":       {fakeRuntime{config: tuned}, "ok: containerd samples statistics every 24h0m0s | \n"},
		"before 2.0":  {fakeRuntime{config: `{"containerd":{},"statsCollectPeriod":10}`}, "ok: this containerd samples no"},
		"2.0 to 2.2":  {fakeRuntime{config: `{"containerd":{}}`}, "ok: this containerd samples no statistics"},
		"CRI-O":       {fakeRuntime{name: "cri-o", config: everySecond}, "skip: those of cri-o are not known"},
		"of another":  {fakeRuntime{config: `{"sandboxes":{}}`}, "skip: unknown: the configuration in its "},
		"garbage":     {fakeRuntime{config: `{"containerd":`}, "skip: unknown: the configuration in its "},
		"no duration": {fakeRuntime{config: `{"containerd":{},"statsCollectPeriod":"often"}`}, "skip: unknown"},
		"huge": {fakeRuntime{config: `{"containerd":{},"x":"` + strings.Repeat("x", 1<<20) + `"}`},
			"skip: unknown: the configuration in its status: more than 1048576 bytes"},
		"no process": {fakeRuntime{config: everySecond}, "warn: containerd samples the statistics of all " +
			"containers every 1s, and this agent reads none of them: 1.5 millicores a pod at 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := testMachine(t).settingsOf(t, &c.runtime); !strings.HasPrefix(got, "runtime-settings "+c.want) {
				t.Errorf("%s", got)
			}
		})
	}
}

func TestSettingsOfTheNextStartCountWhereTheRunningOnesAreUnknown(t *testing.T) {
	m := testMachine(t)
	m.containerdProcess(t, strings.ReplaceAll(dumped, "period = ''", "period = '2s'"))
	if got := m.settingsOf(t, &fakeRuntime{}); !strings.HasPrefix(got, "runtime-settings warn: containerd samples the "+
		"statistics of all containers every 2s, and this agent reads none of them: no pod runs now, and each would cost "+
		"some 0.7 millicores") {
		t.Errorf("%s", got)
	}
}

func TestARestartOfTheRuntimeThatIsPendingIsReported(t *testing.T) {
	m := testMachine(t)
	m.containerdProcess(t, strings.ReplaceAll(dumped, "period = ''", "period = '24h'"))
	if got := m.settingsOf(t, &fakeRuntime{config: everySecond}); got != "runtime-settings warn: containerd samples "+
		"statistics every 1s, and will not after a restart: its configuration has changed | systemctl restart containerd\n" {
		t.Errorf("%s", got)
	}
}

func TestRuntimeThatLogsEachCallIsReported(t *testing.T) {
	m := testMachine(t)
	m.containerdProcess(t, strings.ReplaceAll(dumped, "level = ''", "level = 'debug'"))
	if got := m.settingsOf(t, &fakeRuntime{config: tuned}); !strings.Contains(got,
		"runtime-log warn: containerd logs at level debug") {
		t.Errorf("%s", got)
	}
}

func TestLogLevelOfTheCommandLineWins(t *testing.T) {
	for level, want := range map[string]bool{"trace": true, "info": false} {
		m := testMachine(t)
		dir := m.containerdProcess(t, strings.ReplaceAll(dumped, "level = ''", "level = 'debug'"))
		m.write(t, dir+"cmdline", "containerd\x00-l\x00"+level+"\x00")
		got := m.settingsOf(t, &fakeRuntime{config: tuned})
		if strings.Contains(got, "runtime-log warn: containerd logs at level trace") != want ||
			strings.Contains(got, "start it without --log-level") != want {
			t.Errorf("%s: %s", level, got)
		}
	}
}

// The program of the process is run as root: it has to be the machine's, and root's.
func TestOnlyAContainerdOfRootOnThisMachineIsRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *machine, string)
		want   string
	}{
		"of another user": {func(t *testing.T, m *machine, dir string) {
			m.write(t, dir+"status", "State:\tS\nUid:\t1000\t1000\t0\t0\n")
		}, "is not root's"},
		"in a container": {func(t *testing.T, m *machine, dir string) {
			m.remove(t, dir+"root")
			must.OK(t, os.Symlink(m.path("etc"), m.path(dir+"root")))
		}, "is not root's on this machine"},
		"another program": {func(t *testing.T, m *machine, dir string) {
			m.write(t, dir+"cmdline", "/usr/bin/crio\x00")
			m.remove(t, dir+"exe")
			must.OK(t, os.Symlink("/usr/bin/crio", m.path(dir+"exe")))
		}, "is no containerd"},
		"a relative configuration": {func(t *testing.T, m *machine, dir string) {
			m.write(t, dir+"cmdline", "containerd\x00-c\x00config.toml\x00")
		}, "--runtime-config"},
		"an unreadable program": {func(t *testing.T, m *machine, dir string) { m.remove(t, dir+"exe") }, "run it as root"},
	} {
		t.Run(name, func(t *testing.T) {
			m := testMachine(t)
			dir := m.containerdProcess(t, dumped)
			m.serve(t, &fakeRuntime{})
			c.change(t, m, dir)
			if got, err := m.containerd(""); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestContainerdIsFoundByItsSocket(t *testing.T) {
	m := testMachine(t)
	dir := m.containerdProcess(t, dumped)
	m.serve(t, &fakeRuntime{})
	c, err := m.containerd("")
	must.OK(t, err)
	if c.Config != "/etc/containerd/config.toml" || c.Unit != "containerd" || c.Program != "/usr/bin/containerd" {
		t.Errorf("%+v", c)
	}
	m.write(t, dir+"cmdline", "containerd\x00")
	m.write(t, dir+"cgroup", "0::/system.slice/x;reboot.service/y\n")
	m.remove(t, dir+"exe")
	must.OK(t, os.Symlink("/usr/bin/containerd (deleted)", m.path(dir+"exe")))
	c, err = m.containerd("/opt/c.toml")
	must.OK(t, err)
	if c.Config != "/opt/c.toml" || c.Unit != "" || c.Program != "/usr/bin/containerd" {
		t.Errorf("%+v", c)
	}
}
