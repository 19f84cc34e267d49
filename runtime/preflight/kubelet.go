package preflight

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/runtime/config"
)

const (
	// kubeletPort is where a kubelet serves its API, whatever its process is called.
	kubeletPort = 10250
	// maxConfigBytes bounds what is read of another agent's configuration.
	maxConfigBytes = 1 << 20
)

// embedded are programs with a kubelet inside, and the runtime they use unless told otherwise; empty: it cannot be told.
var embedded = map[string]string{
	"k3s": "unix:///run/k3s/containerd/containerd.sock", "k3s-server": "unix:///run/k3s/containerd/containerd.sock",
	"k3s-agent": "unix:///run/k3s/containerd/containerd.sock", "kubelite": "",
}

// KubeletRunning finds a kubelet that uses the runtime at endpoint. One that demonstrably uses another runtime, such as
// the kubelet of a cluster in a container, does not count; one of which that cannot be told does.
func KubeletRunning(endpoint string) (pid int, found bool) {
	cfg := config.Defaults()
	cfg.ContainerRuntimeEndpoint = endpoint
	return here(cfg).kubeletRunning()
}

func (m *machine) kubelet() Check {
	pid, found := m.kubeletRunning()
	switch {
	case found && m.cfg.AllowBesideKubelet:
		return Check{Status: Warn, Message: fmt.Sprintf("a kubelet is running on the same runtime (pid %d), and --allow-beside-kubelet is given", pid)}
	case found:
		return Check{
			Status: Fail, Message: fmt.Sprintf("a kubelet is running on this node (pid %d), on the same runtime", pid),
			Remedy: "stop it (systemctl stop kubelet), or pass --allow-beside-kubelet",
		}
	case m.listening(kubeletPort):
		return Check{
			Status: Warn, Message: fmt.Sprintf("no kubelet was found, but something listens on its port %d", kubeletPort),
			Remedy: fmt.Sprintf("see what it is: ss -ltnp 'sport = :%d'", kubeletPort),
		}
	}
	return ok("no kubelet uses this runtime")
}

func (m *machine) kubeletRunning() (int, bool) {
	entries, err := os.ReadDir(m.path("proc"))
	if err != nil {
		return 0, false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == m.pid {
			continue
		}
		args, fallback, is := m.isKubelet(pid)
		if is && m.sameRuntime(pid, m.endpointOf(pid, args, fallback)) {
			return pid, true
		}
	}
	return 0, false
}

// isKubelet tells by a process's two names, either of which may have been changed, and gives its arguments and the
// endpoint that it uses when they name none.
func (m *machine) isKubelet(pid int) (args []string, fallback string, is bool) {
	dir := fmt.Sprintf("proc/%d/", pid)
	args = strings.Split(strings.TrimRight(m.read(dir+"cmdline"), "\x00"), "\x00")
	for _, name := range []string{m.read(dir + "comm"), filepath.Base(args[0])} {
		if name == "kubelet" {
			fallback, is = config.DefaultEndpoint, true
			break
		}
		if e, ok := embedded[name]; ok {
			fallback, is = e, true
			break
		}
	}
	// What has ended and waits for its parent holds no runtime.
	return args, fallback, is && !strings.HasPrefix(statusLine(m.read(dir+"status"), "State"), "Z")
}

// endpointOf is the runtime that a kubelet was told to use; empty when that cannot be told.
func (m *machine) endpointOf(pid int, args []string, fallback string) string {
	if e, ok := flagOf(args, "container-runtime-endpoint"); ok {
		return e
	}
	var files []string
	if path, ok := flagOf(args, "config"); ok && path != "" {
		files = append(files, m.inside(pid, path))
	}
	if dir, ok := flagOf(args, "config-dir"); ok && dir != "" {
		err := filepath.WalkDir(m.inside(pid, dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && filepath.Ext(path) == ".conf" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return ""
		}
	}
	for _, path := range files {
		var c struct {
			ContainerRuntimeEndpoint *string `json:"containerRuntimeEndpoint"`
		}
		st, err := os.Stat(path)
		if err != nil || !st.Mode().IsRegular() || st.Size() > maxConfigBytes {
			return ""
		}
		data, err := os.ReadFile(path)
		if err != nil || yaml.Unmarshal(data, &c) != nil {
			return ""
		}
		if c.ContainerRuntimeEndpoint != nil && *c.ContainerRuntimeEndpoint != "" {
			fallback = *c.ContainerRuntimeEndpoint
		}
	}
	return fallback
}

// sameRuntime compares the sockets themselves where both can be seen: one path may lead to two sockets when the kubelet
// runs in a container, and two paths to one.
func (m *machine) sameRuntime(pid int, theirs string) bool {
	if theirs == "" {
		return true
	}
	theirPath, ours := socketPath(theirs), socketPath(m.cfg.ContainerRuntimeEndpoint)
	var a, b unix.Stat_t
	if unix.Stat(m.inside(pid, theirPath), &a) == nil && unix.Stat(m.path(ours), &b) == nil {
		return a.Dev == b.Dev && a.Ino == b.Ino
	}
	return tidy(theirPath) == tidy(ours)
}

func socketPath(endpoint string) string {
	return filepath.Clean(strings.TrimPrefix(endpoint, "unix://"))
}

// tidy takes /var/run for the link to /run that it is everywhere.
func tidy(path string) string {
	if rest, ok := strings.CutPrefix(path, "/var/run/"); ok {
		return "/run/" + rest
	}
	return path
}

// inside is a process's path as it can be reached from here.
func (m *machine) inside(pid int, path string) string {
	dir := fmt.Sprintf("proc/%d/", pid)
	if !filepath.IsAbs(path) {
		return filepath.Join(m.path(dir+"cwd"), path)
	}
	return filepath.Join(m.path(dir+"root"), path)
}

// flagOf reads a flag as pflag does: one dash or two, its value after "=" or as the next argument; the last one counts.
func flagOf(args []string, name string) (value string, found bool) {
	for i, arg := range args {
		bare, ok := strings.CutPrefix(arg, "--")
		if !ok {
			bare, ok = strings.CutPrefix(arg, "-")
		}
		// k3s hands flags through as --kubelet-arg=name=value.
		bare = strings.TrimPrefix(bare, "kubelet-arg=")
		key, v, hasValue := strings.Cut(bare, "=")
		if !ok || key != name {
			continue
		}
		if !hasValue && i+1 < len(args) {
			v = args[i+1]
		}
		value, found = v, true
	}
	return value, found
}

// listening tells whether anything listens on a TCP port of this network namespace.
func (m *machine) listening(port int) bool {
	const listen = "0A"
	want := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		for line := range strings.Lines(m.read(table)) {
			f := strings.Fields(line)
			if len(f) > 3 && f[3] == listen && strings.HasSuffix(f[1], want) {
				return true
			}
		}
	}
	return false
}

// statusLine is the value of a line of /proc/<pid>/status.
func statusLine(status, key string) string {
	lines := slices.Collect(strings.Lines(status))
	for _, line := range lines {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
