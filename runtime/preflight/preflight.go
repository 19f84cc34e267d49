package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/config"
)

// Status is the result of a check.
type Status string

// The results of a check.
const (
	OK   Status = "ok"
	Warn Status = "warn" // the agent works, with limitations
	Fail Status = "fail" // the agent cannot work
	Skip Status = "skip" // does not apply, or is unknown
)

// Check is one check with its result.
type Check struct {
	Name    string // stable, such as "runtime"
	Status  Status
	Message string
	Remedy  string // a command or setting; never empty if Status is Fail
}

// timeout bounds all checks together, the calls to the runtime most of all.
const timeout = 10 * time.Second

// machine is the machine to check.
type machine struct {
	root string // root of its file system: "/", or a test's directory
	uid  int
	// owner and group are trusted with files, besides root.
	owner, group int
	pid          int // this process, which is no second agent
	now          time.Time
	cfg          *config.Config
	// pause waits while something is measured, and returns how long.
	pause func(context.Context, time.Duration) time.Duration
}

func thisMachine(cfg *config.Config) *machine {
	return &machine{
		root: "/", uid: os.Geteuid(), owner: os.Geteuid(), group: os.Getegid(), pid: os.Getpid(), now: time.Now(), cfg: cfg,
		pause: pauseFor,
	}
}

// Run runs all checks in a fixed order. It takes at most about ten seconds, the timeout for a runtime that hangs.
func Run(ctx context.Context, cfg *config.Config) []Check {
	return thisMachine(cfg).run(ctx)
}

func (m *machine) run(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	simulated := strings.HasPrefix(m.cfg.ContainerRuntimeEndpoint, "sim://")
	var out []Check
	for _, c := range []struct {
		name string
		real bool // does not apply to a simulated runtime
		run  func(context.Context) []Check
	}{
		{"privileges", true, single(m.privileges)},
		{"kubelet", true, single(m.kubelet)},
		{"runtime", true, m.runtime},
		{"cgroups", true, single(m.cgroups)},
		{"namespaces", true, single(m.namespaces)},
		{"seccomp", true, single(m.seccomp)},
		{"overlayfs", true, single(m.overlayfs)},
		{"bridge", true, single(m.bridge)},
		{"ip-forward", true, single(m.ipForward)},
		{"conntrack", true, single(m.conntrack)},
		{"kernel", true, single(m.kernelTunables)},
		{"inotify", false, single(m.inotify)},
		{"swap", true, single(m.swap)},
		{"clock", false, single(m.clock)},
		{"root-dir", false, single(m.rootDir)},
		{"kubelet-state", false, single(m.kubeletState)},
		{"disk", false, single(m.disk)},
		{"static-pods", false, single(m.staticPods)},
		{"manifests", false, m.manifests},
		{"manifest-url", false, m.manifestURL},
		{"runtime-classes", false, m.runtimeClasses},
		{"objects", false, m.objects},
		{"image-credentials", false, m.imageCredentials},
		{"resolv-conf", true, single(m.resolvConf)},
		{"ports", false, single(m.ports)},
	} {
		if c.real && simulated {
			out = append(out, Check{Name: c.name, Status: Skip, Message: "does not apply to a simulated runtime"})
			continue
		}
		for _, result := range c.run(ctx) {
			result.Name = cmp.Or(result.Name, c.name)
			out = append(out, result)
		}
	}
	return out
}

func single(f func() Check) func(context.Context) []Check {
	return func(context.Context) []Check { return []Check{f()} }
}

func (m *machine) path(p string) string { return filepath.Join(m.root, p) }

// maxReadBytes bounds what is read of a file: the largest files are the lists of kernel modules and of TCP connections,
// where listening sockets come first.
const maxReadBytes = 4 << 20

// read returns the trimmed content of a file, up to maxReadBytes; "" if it cannot be read.
func (m *machine) read(p string) string {
	data, err := bounded.ReadFile(m.path(p), maxReadBytes)
	if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func (m *machine) exists(p string) bool {
	_, err := os.Stat(m.path(p))
	return err == nil
}

func ok(format string, args ...any) Check {
	return Check{Status: OK, Message: fmt.Sprintf(format, args...)}
}
