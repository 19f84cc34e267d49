package preflight

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/config"
)

// Status is how a check came out.
type Status string

// The ways in which a check can come out.
const (
	OK   Status = "ok"
	Warn Status = "warn" // the agent runs, something will be missing
	Fail Status = "fail" // the agent cannot do its work
	Skip Status = "skip" // does not apply here, or cannot be told
)

// Check is one thing that was looked at.
type Check struct {
	Name    string // stable, such as "runtime"
	Status  Status
	Message string // what was found
	Remedy  string // a command or setting; always there when Status is Fail
}

// timeout bounds all calls on the runtime together.
const timeout = 10 * time.Second

// machine is what is looked at.
type machine struct {
	root string // where its file system begins: "/", or a made-up one
	uid  int
	pid  int // of this process, which is nobody's rival
	now  time.Time
	cfg  *config.Config
}

func here(cfg *config.Config) *machine {
	return &machine{root: "/", uid: os.Geteuid(), pid: os.Getpid(), now: time.Now(), cfg: cfg}
}

// Run makes all checks, in a fixed order. It takes no longer than about ten seconds, which is how long a runtime that
// hangs is waited for.
func Run(ctx context.Context, cfg *config.Config) []Check {
	return here(cfg).run(ctx)
}

func (m *machine) run(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	simulated := strings.HasPrefix(m.cfg.ContainerRuntimeEndpoint, "sim://")
	var out []Check
	for _, c := range []struct {
		name string
		real bool // does not apply to a simulated runtime
		look func(context.Context) []Check
	}{
		{"privileges", true, one(m.privileges)},
		{"kubelet", true, one(m.kubelet)},
		{"runtime", true, m.runtime},
		{"cgroups", true, one(m.cgroups)},
		{"namespaces", true, one(m.namespaces)},
		{"seccomp", true, one(m.seccomp)},
		{"overlayfs", true, one(m.overlayfs)},
		{"bridge", true, one(m.bridge)},
		{"ip-forward", true, one(m.ipForward)},
		{"conntrack", true, one(m.conntrack)},
		{"inotify", false, one(m.inotify)},
		{"swap", true, one(m.swap)},
		{"clock", false, one(m.clock)},
		{"root-dir", false, one(m.rootDir)},
		{"disk", false, one(m.disk)},
		{"static-pods", false, one(m.staticPods)},
		{"manifest-url", false, m.manifestURL},
		{"runtime-classes", false, m.runtimeClasses},
		{"resolv-conf", true, one(m.resolvConf)},
		{"ports", false, one(m.ports)},
	} {
		if c.real && simulated {
			out = append(out, Check{Name: c.name, Status: Skip, Message: "does not apply to a simulated runtime"})
			continue
		}
		for _, found := range c.look(ctx) {
			if found.Name == "" {
				found.Name = c.name
			}
			out = append(out, found)
		}
	}
	return out
}

func one(f func() Check) func(context.Context) []Check {
	return func(context.Context) []Check { return []Check{f()} }
}

func (m *machine) path(p string) string { return filepath.Join(m.root, p) }

// read gives a small file, trimmed; empty when it cannot be read, which is all that a check needs to know.
func (m *machine) read(p string) string {
	data, err := os.ReadFile(m.path(p))
	if err != nil {
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
