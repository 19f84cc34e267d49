package program

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// Path is where programs are searched, and the PATH of started programs: the directories of every distribution.
	Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// home is root's. A service of systemd that runs as root has none.
	home = "/root"
)

// Errors of package os/exec.
var (
	// ErrNotFound means that there is no such program in Path.
	ErrNotFound = exec.ErrNotFound
	// ErrWaitDelay means that what the program has started holds its output.
	ErrWaitDelay = exec.ErrWaitDelay
)

// network are the variables that programs which reach servers may have of the agent: how to get there, and whom to
// trust.
var network = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// Command returns a command that has not begun, with Environment. A name without a slash is looked for in Path; one
// that is not there fails with ErrNotFound when it is started. ctx kills the program, as exec.CommandContext does.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path, err := find(name)
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // each caller says what it starts
	if err != nil {
		cmd.Err = err
	}
	cmd.Args[0] = name
	cmd.Env = Environment()
	return cmd
}

// find returns the path of a program; with an error, one where it is not.
func find(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for dir := range strings.SplitSeq(Path, ":") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "/" + name, &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// Environment returns the environment of a program as NAME=value, and then more of it, which wins. Messages are in
// English.
func Environment(more ...string) []string {
	return append([]string{"PATH=" + Path, "HOME=" + home, "LANG=C", "LC_ALL=C"}, more...)
}

// Network returns what of the agent's environment says how to reach servers, for programs that do.
func Network() []string {
	var out []string
	for _, name := range network {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}
