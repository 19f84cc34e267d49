package preflight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

const socket = "run/containerd/containerd.sock"

// contained adds a process whose root is a directory of its own.
func (m *machine) contained(t *testing.T, pid int, comm string, args ...string) (root string) {
	t.Helper()
	m.process(t, pid, comm, args...)
	root = fmt.Sprintf("containers/%d", pid)
	must.OK(t, os.MkdirAll(m.path(root), 0o750))
	m.remove(t, fmt.Sprintf("proc/%d/root", pid))
	must.OK(t, os.Symlink(m.path(root), m.path(fmt.Sprintf("proc/%d/root", pid))))
	return root
}

func TestContainerCannotPassForAKubelet(t *testing.T) {
	for name, pretend := range map[string]func(*testing.T, *machine){
		"by its name": func(t *testing.T, m *machine) { m.contained(t, 40, "kubelet", "sh") },
		"by its arguments": func(t *testing.T, m *machine) {
			m.contained(t, 40, "sh", "kubelet", "--container-runtime-endpoint=/"+socket)
		},
		"as a kubelet whose runtime is unknown": func(t *testing.T, m *machine) { m.contained(t, 40, "kubelite", "sh") },
		"with a file for a socket": func(t *testing.T, m *machine) {
			m.write(t, filepath.Join(m.contained(t, 40, "kubelet", "kubelet"), socket), "forged")
		},
		"with a link to the host's socket": func(t *testing.T, m *machine) {
			link := m.path(filepath.Join(m.contained(t, 40, "kubelet", "kubelet"), socket))
			must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(link), 0o750), os.Symlink(m.path(socket), link)))
		},
		"with a link above its root": func(t *testing.T, m *machine) {
			link := m.path(filepath.Join(m.contained(t, 40, "kubelet", "kubelet"), "run"))
			must.OK(t, os.Symlink("../../run", link))
		},
		"as another user of the host": func(t *testing.T, m *machine) {
			m.process(t, 40, "kubelet", "kubelet")
			m.write(t, "proc/40/status", "Name:\tkubelet\nState:\tS (sleeping)\nUid:\t0\t1000\t0\t0\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := testMachine(t)
			m.write(t, socket, "ours")
			pretend(t, m)
			if pid, found := m.kubeletRunning(); found {
				t.Errorf("process %d counts as a kubelet", pid)
			}
			m.remove(t, socket) // the runtime has not started yet
			if pid, found := m.kubeletRunning(); found {
				t.Errorf("process %d counts as a kubelet while there is no socket", pid)
			}
		})
	}
}

func TestKubeletInAContainerWithTheHostsSocketIsFound(t *testing.T) {
	m := testMachine(t)
	m.write(t, socket, "ours")
	inner := m.path(filepath.Join(m.contained(t, 40, "kubelet", "kubelet"), socket))
	must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(inner), 0o750), os.Link(m.path(socket), inner)))
	if _, found := m.kubeletRunning(); !found {
		t.Error("not found")
	}
}

func TestArgumentsOfTheKubelet(t *testing.T) {
	m := testMachine(t)
	m.contained(t, 30, "kubelet", "kubelet", "--root-dir=/forged")
	m.process(t, 31, "kubelet", "kubelet", "--root-dir=/another-users")
	m.write(t, "proc/31/status", "Name:\tkubelet\nState:\tS (sleeping)\nUid:\t1000\t1000\t1000\t1000\n")
	m.process(t, 32, "k3s-agent", "k3s", "agent")
	if args, err := m.kubeletArgs(); err != nil || args != nil {
		t.Errorf("no kubelet: got %q, %v", args, err)
	}
	m.process(t, 40, "kubelet", "/usr/bin/kubelet", "--config", "/etc/k.yaml", "--v=2")
	if args, err := m.kubeletArgs(); err != nil || strings.Join(args, " ") != "--config /etc/k.yaml --v=2" {
		t.Errorf("got %q, %v", args, err)
	}
	m.process(t, 41, "kubelet", "kubelet")
	if args, err := m.kubeletArgs(); err == nil {
		t.Errorf("two kubelets: got %q", args)
	}
}

// What a kubelet names as its configuration costs little, whatever it is; unreadable, its runtime is unknown.
func TestHostileConfigurationOfAKubeletIsBounded(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *machine) (args []string){
		"a pipe": func(t *testing.T, m *machine) []string {
			must.OK(t, unix.Mkfifo(m.path("k.yaml"), 0o600))
			return []string{"--config=/k.yaml"}
		},
		"a file without end": func(t *testing.T, m *machine) []string {
			m.write(t, "k.yaml", "")
			must.OK(t, os.Truncate(m.path("k.yaml"), 1<<40))
			return []string{"--config=/k.yaml"}
		},
		"aliases": func(t *testing.T, m *machine) []string {
			m.write(t, "k.yaml", "a: &a \""+strings.Repeat("x", 1<<16)+"\"\nb: ["+strings.Repeat("*a,", 20000)+"*a]\n")
			return []string{"--config=/k.yaml"}
		},
		"a tree of drop-ins": func(t *testing.T, m *machine) []string {
			must.OK(t, os.MkdirAll(m.path(strings.Repeat("d/", 200)), 0o750))
			for i := range 1000 {
				m.write(t, fmt.Sprintf("d/%d.conf", i), "x: "+strings.Repeat("y", 1000))
			}
			return []string{"--config-dir=/d"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := testMachine(t)
			m.process(t, 40, "kubelet", append([]string{"kubelet"}, prepare(t, m)...)...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, found := m.kubeletRunning()
			runtime.ReadMemStats(&after)
			if cost := after.TotalAlloc - before.TotalAlloc; !found || cost > 64<<20 {
				t.Errorf("found %t, %d MiB allocated", found, cost>>20)
			}
		})
	}
}

// The files that a kubelet left are checked before the agent's first start, and ignored afterwards.
func TestStateFilesOfAKubeletAreChecked(t *testing.T) {
	m := testMachine(t)
	for _, step := range []struct {
		path, text, want string
		status           Status
	}{
		{"", "", "no kubelet", OK},
		{"cpu_manager_state", `{"entries":{"uid-1":{"main":"1"}}}`, "given to them: 0", OK},
		{"pods/uid-1/x", "", "given to them: 1", OK},
		{"memory_manager_state", "?", "memory_manager_state: it is damaged", Warn},
	} {
		if step.path != "" {
			m.write(t, filepath.Join(m.cfg.RootDir, step.path), step.text)
		}
		if c := m.kubeletState(); c.Status != step.status || !strings.Contains(c.Message, step.want) {
			t.Errorf("%s: %+v", step.path, c)
		}
	}
	for _, begun := range []string{"bus/x", "volumes.boot"} { // the second stays when the journal is lost
		m := testMachine(t)
		m.write(t, filepath.Join(m.cfg.RootDir, "cpu_manager_state"), "?")
		m.write(t, filepath.Join(m.cfg.RootDir, begun), "")
		if c := m.kubeletState(); c.Status != OK || !strings.Contains(c.Message, "has begun since") {
			t.Errorf("%s: %+v", begun, c)
		}
	}
}
