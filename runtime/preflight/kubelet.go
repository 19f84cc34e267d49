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
	// kubeletPort is the port of the kubelet's API.
	kubeletPort = 10250
	// maxConfigBytes bounds the size of a kubelet's configuration file.
	maxConfigBytes = 1 << 20
)

// embedded are programs with an embedded kubelet, and their default runtime endpoint; empty: unknown.
var embedded = map[string]string{
	"k3s": "unix:///run/k3s/containerd/containerd.sock", "k3s-server": "unix:///run/k3s/containerd/containerd.sock",
	"k3s-agent": "unix:///run/k3s/containerd/containerd.sock", "kubelite": "",
}

// KubeletRunning finds a kubelet that uses the runtime at endpoint. A kubelet whose runtime is unknown counts; one with
// another runtime, such as that of a cluster in a container, does not.
func KubeletRunning(endpoint string) (pid int, found bool) {
	cfg := config.Defaults()
	cfg.ContainerRuntimeEndpoint = endpoint
	return thisMachine(cfg).kubeletRunning()
}

func (m *machine) kubelet() Check {
	pid, found := m.kubeletRunning()
	switch {
	case found && m.cfg.AllowBesideKubelet:
		return Check{Status: Warn, Message: fmt.Sprintf(
			"a kubelet (pid %d) runs on the same runtime, as --allow-beside-kubelet permits", pid)}
	case found:
		return Check{
			Status: Fail, Message: fmt.Sprintf("a kubelet (pid %d) runs on the same runtime", pid),
			Remedy: "stop it (systemctl stop kubelet), or pass --allow-beside-kubelet",
		}
	case m.listening(kubeletPort):
		return Check{
			Status: Warn, Message: fmt.Sprintf("no kubelet found, but a process listens on its port %d", kubeletPort),
			Remedy: fmt.Sprintf("find the process: ss -ltnp 'sport = :%d'", kubeletPort),
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

// isKubelet checks both names of a process, since either may have been changed. It returns the arguments and the
// default endpoint.
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
	// A zombie uses no runtime.
	return args, fallback, is && !strings.HasPrefix(statusLine(m.read(dir+"status"), "State"), "Z")
}

// endpointOf returns the runtime endpoint of a kubelet, "" if it is unknown.
func (m *machine) endpointOf(pid int, args []string, fallback string) string {
	if e, ok := flagOf(args, "container-runtime-endpoint"); ok {
		return e
	}
	var files []string
	if path, ok := flagOf(args, "config"); ok && path != "" {
		files = append(files, m.inProcess(pid, path))
	}
	if dir, ok := flagOf(args, "config-dir"); ok && dir != "" {
		err := filepath.WalkDir(m.inProcess(pid, dir), func(path string, e fs.DirEntry, err error) error {
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

// sameRuntime compares the sockets themselves if both are accessible: one path may be two sockets if the kubelet runs
// in a container, and two paths may be one socket.
func (m *machine) sameRuntime(pid int, theirs string) bool {
	if theirs == "" {
		return true
	}
	theirPath, ours := socketPath(theirs), socketPath(m.cfg.ContainerRuntimeEndpoint)
	var a, b unix.Stat_t
	if unix.Stat(m.inProcess(pid, theirPath), &a) == nil && unix.Stat(m.path(ours), &b) == nil {
		return a.Dev == b.Dev && a.Ino == b.Ino
	}
	return normalizePath(theirPath) == normalizePath(ours)
}

func socketPath(endpoint string) string {
	return filepath.Clean(strings.TrimPrefix(endpoint, "unix://"))
}

// normalizePath resolves /var/run, which is a link to /run.
func normalizePath(path string) string {
	if rest, ok := strings.CutPrefix(path, "/var/run/"); ok {
		return "/run/" + rest
	}
	return path
}

// inProcess returns the path to a file that a process sees at path.
func (m *machine) inProcess(pid int, path string) string {
	dir := fmt.Sprintf("proc/%d/", pid)
	if !filepath.IsAbs(path) {
		return filepath.Join(m.path(dir+"cwd"), path)
	}
	return filepath.Join(m.path(dir+"root"), path)
}

// flagOf parses a flag as pflag does: one or two dashes, the value after "=" or as the next argument; the last one
// counts.
func flagOf(args []string, name string) (value string, found bool) {
	for i, arg := range args {
		bare, ok := strings.CutPrefix(arg, "--")
		if !ok {
			bare, ok = strings.CutPrefix(arg, "-")
		}
		// k3s passes flags as --kubelet-arg=name=value.
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

// listening reports whether a process listens on a TCP port of this network namespace.
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

// statusLine returns the value of a line of /proc/<pid>/status.
func statusLine(status, key string) string {
	lines := slices.Collect(strings.Lines(status))
	for _, line := range lines {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
