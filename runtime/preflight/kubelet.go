package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/pod/volume"
)

const (
	// kubeletPort is the port of the kubelet's API.
	kubeletPort = 10250
	// maxConfigBytes bounds a kubelet's configuration file, and maxExpandedBytes what it is as JSON.
	maxConfigBytes   = 1 << 20
	maxExpandedBytes = 16 << 20
	// maxDropIns bounds its drop-ins, as our own.
	maxDropIns = 256
)

// embedded are programs with an embedded kubelet, and their default runtime endpoint; empty: unknown.
var embedded = map[string]string{
	"k3s": "unix:///run/k3s/containerd/containerd.sock", "k3s-server": "unix:///run/k3s/containerd/containerd.sock",
	"k3s-agent": "unix:///run/k3s/containerd/containerd.sock", "kubelite": "",
}

// KubeletRunning finds a kubelet that uses the runtime at endpoint. A kubelet whose runtime is unknown counts. A
// kubelet with another runtime, such as the runtime of a cluster in a container, does not.
func KubeletRunning(endpoint string) (pid int, found bool) {
	cfg := config.Defaults()
	cfg.ContainerRuntimeEndpoint = endpoint
	return thisMachine(cfg).kubeletRunning()
}

// KubeletArgs returns the arguments of the kubelet that runs on this machine, without its name. It is an error if none
// does, or several do.
func KubeletArgs() ([]string, error) {
	args, err := thisMachine(config.Defaults()).kubeletArgs()
	if err == nil && args == nil {
		err = errors.New("no kubelet runs on this machine: start it, or give its flags")
	}
	return args, err
}

func (m *machine) kubeletArgs() (found []string, err error) {
	for e, err := range bounded.Entries(m.path("proc")) {
		if err != nil {
			return nil, err
		}
		pid, err := strconv.Atoi(e.Name())
		dir := fmt.Sprintf("proc/%d/", pid)
		if err != nil || pid == m.pid || !m.hasOurRoot(pid) || !m.isRoots(dir) || m.isOurProgram(pid) {
			continue
		}
		args := m.args(dir)
		if filepath.Base(args[0]) != "kubelet" {
			continue
		}
		if found != nil {
			return nil, errors.New("several kubelets run on this machine: give the flags of one")
		}
		found = args[1:]
	}
	return found, nil
}

// args returns the arguments of a process, its name first.
func (m *machine) args(dir string) []string {
	return strings.Split(strings.TrimRight(m.read(dir+"cmdline"), "\x00"), "\x00")
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

// kubeletRunning finds a process that is a kubelet on the same runtime, by evidence that a container cannot forge. A
// process chooses its name, its arguments and, in a container, its files. It does not choose the user that the kernel
// shows for it, nor which socket is in its file system. So a kubelet is a process of root that has the name and
//   - sees this machine's file system, and is configured for our socket or for an unknown one, or
//   - sees another file system, where our path leads to our very socket: a kubelet in a container on the host's
//     runtime. A pod has the socket only by a hostPath volume, and then it commands the runtime anyway.
//
// The arguments and the configuration of a process with another file system are not read: both are whatever the
// process likes, and reading its memory or its files can be held up by it.
func (m *machine) kubeletRunning() (int, bool) {
	for e, err := range bounded.Entries(m.path("proc")) {
		if err != nil {
			return 0, false
		}
		pid, err := strconv.Atoi(e.Name())
		if err == nil && pid != m.pid && m.isRival(pid) {
			return pid, true
		}
	}
	return 0, false
}

// isRival reports whether a process is a kubelet on the same runtime. The most expensive reads come last: a starting
// agent checks every process, and most processes belong to containers.
func (m *machine) isRival(pid int) bool {
	dir := fmt.Sprintf("proc/%d/", pid)
	fallback, is := kubeletNamed(m.read(dir + "comm"))
	ours := m.hasOurRoot(pid)
	if !ours && !is || !m.isRoots(dir) {
		return false
	}
	if !ours {
		return m.hasOurSocket(pid) && !m.isOurProgram(pid)
	}
	// Both names, since either may have been changed.
	args := m.args(dir)
	if !is {
		fallback, is = kubeletNamed(filepath.Base(args[0]))
	}
	// Our own program is an agent in the kubelet's place (ADR 060), such as an agent beside `journalet check`.
	return is && !m.isOurProgram(pid) && m.sameRuntime(m.endpointOf(pid, args, fallback))
}

// isRoots reports whether a process is root's. A zombie is not: it uses no runtime.
func (m *machine) isRoots(dir string) bool {
	status := m.read(dir + "status")
	uids := strings.Fields(statusLine(status, "Uid"))
	return len(uids) >= 2 && uids[1] == "0" && !strings.HasPrefix(statusLine(status, "State"), "Z")
}

// isOurProgram reports whether a process runs the very file that this one runs.
func (m *machine) isOurProgram(pid int) bool {
	ours, err := os.Stat(m.path("proc/self/exe"))
	theirs, err2 := os.Stat(m.path(fmt.Sprintf("proc/%d/exe", pid)))
	return err == nil && err2 == nil && os.SameFile(ours, theirs)
}

// kubeletNamed reports whether a program of this name is a kubelet, and returns its default endpoint; "" if unknown.
func kubeletNamed(name string) (fallback string, is bool) {
	if name == "kubelet" {
		return config.DefaultEndpoint, true
	}
	fallback, is = embedded[name]
	return fallback, is
}

// endpointOf returns the runtime endpoint of a kubelet that has our root, "" if it is unknown.
func (m *machine) endpointOf(pid int, args []string, fallback string) string {
	if e, ok := flagOf(args, "container-runtime-endpoint"); ok {
		return e
	}
	var files []string
	if path, ok := flagOf(args, "config"); ok && path != "" {
		files = append(files, m.ofProcess(pid, path))
	}
	if dir, ok := flagOf(args, "config-dir"); ok && dir != "" {
		dropIns, err := bounded.Files(m.ofProcess(pid, dir), ".conf", maxDropIns)
		if err != nil {
			return ""
		}
		files = append(files, dropIns...)
	}
	for _, path := range files {
		endpoint, err := endpointIn(path)
		if err != nil {
			return ""
		}
		fallback = cmp.Or(endpoint, fallback)
	}
	return fallback
}

// endpointIn returns the endpoint in a kubelet's configuration file; "" if the file sets no endpoint.
func endpointIn(path string) (string, error) {
	var c struct {
		ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint"`
	}
	data, err := bounded.ReadFile(path, maxConfigBytes)
	if err == nil {
		data, err = bounded.YAMLToJSON(data, maxConfigBytes)
	}
	if err == nil {
		err = bounded.JSON(data, maxExpandedBytes, &c)
	}
	return c.ContainerRuntimeEndpoint, err
}

// sameRuntime reports whether an endpoint of a process that has our root is ours. It compares the sockets themselves
// if both exist, because two paths may lead to one socket.
func (m *machine) sameRuntime(theirs string) bool {
	if theirs == "" {
		return true
	}
	theirPath, ours := socketPath(theirs), socketPath(m.cfg.ContainerRuntimeEndpoint)
	var a, b unix.Stat_t
	if unix.Stat(m.path(theirPath), &a) == nil && unix.Stat(m.path(ours), &b) == nil {
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

// ofProcess returns the path to a file that a process with our root sees at path.
func (m *machine) ofProcess(pid int, path string) string {
	if !filepath.IsAbs(path) {
		return filepath.Join(m.path(fmt.Sprintf("proc/%d/cwd", pid)), path)
	}
	return m.path(path)
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

// kubeletState checks what a kubelet has left in the root directory, which the first start takes over (ADR 070).
func (m *machine) kubeletState() Check {
	dir := m.path(m.cfg.RootDir)
	state := kubeletstate.Read(dir)
	switch {
	case state == nil:
		return ok("no kubelet had this root directory")
	case m.exists(filepath.Join(m.cfg.RootDir, own.Bus)) || volume.Known(dir):
		return ok("the agent has begun since a kubelet had this root directory")
	case len(state.GetProblems()) > 0:
		return Check{
			Status: Warn, Message: strings.Join(state.GetProblems(), "; "),
			Remedy: "start the kubelet once more, which writes its files again, or drain the node",
		}
	}
	return ok("pods that keep the CPUs, memory and devices that a kubelet had given to them: %d", len(state.GetPods()))
}
