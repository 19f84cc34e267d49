package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/source/runtimeclass"
	"github.com/journalet/journalet/runtime/source/url"
	"github.com/journalet/journalet/runtime/source/validate"
)

const (
	// minFree is what a new journal and its reserve need; goodFree leaves space for some days and for volumes. Bytes.
	minFree  = 256 << 20
	goodFree = 1 << 30
	// minFreeInodes is checked because a file system without inodes fails like a full disk.
	minFreeInodes = 10000
)

// earliest is before the first release: a clock that shows less was never set.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (m *machine) clock() Check {
	if m.now.Before(earliest) {
		return Check{
			Status: Fail, Remedy: "set it: timedatectl set-ntp true",
			Message: "the clock is not set: it shows " + m.now.UTC().Format(time.RFC3339) +
				"; certificates would be invalid and the journal's times wrong",
		}
	}
	return ok("the clock shows %s", m.now.UTC().Format(time.RFC3339))
}

// existingParent returns the path, or its closest parent that exists.
func (m *machine) existingParent(path string) (string, error) {
	for {
		_, err := os.Stat(m.path(path))
		if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return path, err
		}
		path = filepath.Dir(path)
	}
}

func (m *machine) rootDir() Check {
	const remedy = "fix its permissions or its mount, or choose another with --root-dir"
	dir, err := m.existingParent(m.cfg.RootDir)
	if err == nil {
		var st os.FileInfo
		if st, err = os.Stat(m.path(dir)); err == nil && !st.IsDir() {
			err = fmt.Errorf("%s is not a directory", dir)
		}
	}
	if err == nil {
		err = unix.Access(m.path(dir), unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return Check{Status: Fail, Message: fmt.Sprintf("%s is not writable: %v", m.cfg.RootDir, err), Remedy: remedy}
	}
	if err := CheckRoot(m.path(m.cfg.RootDir)); err != nil {
		return Check{Status: Fail, Message: err.Error(), Remedy: "choose another with --root-dir"}
	}
	if dir != m.cfg.RootDir {
		return ok("%s will be created in %s", m.cfg.RootDir, dir)
	}
	return ok("%s is writable", dir)
}

func (m *machine) disk() Check {
	dir, err := m.existingParent(m.cfg.RootDir)
	var st unix.Statfs_t
	if err == nil {
		err = unix.Statfs(m.path(dir), &st)
	}
	if err != nil {
		return Check{Status: Skip, Message: fmt.Sprintf("cannot measure the file system of %s: %v", m.cfg.RootDir, err)}
	}
	return freeSpace(int64(st.Bavail)*st.Bsize, st.Files, st.Ffree, dir)
}

// freeSpace checks free bytes and inodes. A file system that allocates inodes as needed reports 0 inodes.
func freeSpace(free int64, inodes, freeInodes uint64, dir string) Check {
	remedy := fmt.Sprintf("free space (du -xh %s | sort -h | tail), or choose another with --root-dir", dir)
	message := fmt.Sprintf("%d MiB free for %s", free>>20, dir)
	switch {
	case free < minFree:
		return Check{Status: Fail, Message: fmt.Sprintf("%s, at least %d needed", message, minFree>>20), Remedy: remedy}
	case inodes > 0 && freeInodes < minFreeInodes:
		return Check{Status: Warn, Message: fmt.Sprintf("only %d inodes free for %s", freeInodes, dir), Remedy: remedy}
	case free < goodFree:
		return Check{Status: Warn, Message: message + ", enough for a short time only", Remedy: remedy}
	}
	return ok("%s", message)
}

func (m *machine) staticPods() Check {
	path := m.cfg.StaticPodPath
	st, err := os.Stat(m.path(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Check{Status: Warn, Message: path + " does not exist: no pod will run", Remedy: "mkdir -p " + path}
	case err != nil:
		return Check{Status: Warn, Message: fmt.Sprintf("cannot read %s: %v", path, err),
			Remedy: "fix its permissions, or choose another with --static-pod-path"}
	case !st.IsDir() && !st.Mode().IsRegular():
		return Check{Status: Fail, Message: path + " is neither a directory nor a file",
			Remedy: "choose another with --static-pod-path"}
	}
	return m.staticPodOwners(path)
}

// manifests checks what the agent would read from the static pod path.
func (m *machine) manifests(ctx context.Context) []Check {
	path := m.cfg.StaticPodPath
	if path == "" || !m.exists(path) {
		return nil // static-pods says so
	}
	files, err := validate.Read(m.path(path))
	if err != nil {
		return []Check{{Status: Warn, Message: fmt.Sprintf("cannot read the manifests of %s: %v", path, err),
			Remedy: "fix its permissions, or choose another with --static-pod-path"}}
	}
	facts, err := m.cfg.NodeFacts()
	if err != nil {
		return []Check{{Status: Skip, Message: "cannot check the manifests: " + err.Error()}}
	}
	found := validate.Check(ctx, files, validate.Options{
		Manifest: manifest.Options{NodeName: facts.NodeName, Source: manifest.SourceFile, Classes: m.classes()},
	})
	problems := slices.DeleteFunc(found.Findings, func(f validate.Finding) bool {
		return f.Level != validate.Error && f.Code != validate.CodeSameName
	})
	if len(problems) == 0 {
		return []Check{ok("%d pods in %d files", len(found.Accepted), found.Files)}
	}
	f := problems[0]
	return []Check{{
		Status:  Warn,
		Message: fmt.Sprintf("%d problems, the first: %s:%d: %s: %s", len(problems), f.Path, f.Line, f.Field, f.Message),
		Remedy:  "journalet validate " + path,
	}}
}

// staticPodOwners checks who can write manifests: that is as much as being root on this node.
func (m *machine) staticPodOwners(path string) Check {
	found, err := m.exposed(path)
	switch {
	case err != nil:
		return Check{Status: Warn, Message: fmt.Sprintf("cannot check who may write %s: %v", path, err),
			Remedy: "fix its permissions, or choose another with --static-pod-path"}
	case found == nil:
		return ok("%s exists", path)
	}
	c := Check{Status: Warn, Message: fmt.Sprintf("%s can change %s, and so run any pod as root", found.who, found.path),
		Remedy: "chown root " + found.path + " && chmod go-w " + found.path}
	if found.anyone {
		c.Status = Fail
	}
	return c
}

// classes returns what pods of this node may name.
func (m *machine) classes() *manifest.Classes {
	paths := []string{m.cfg.RuntimeClassPath, m.cfg.StaticPodPath, m.cfg.ObjectsPath}
	for i, path := range paths {
		if path != "" {
			paths[i] = m.path(path)
		}
	}
	return runtimeclass.New(paths[0], slog.New(slog.DiscardHandler), paths[1:]...).Current()
}

// runtimeClasses checks the files of runtime classes, if configured.
func (m *machine) runtimeClasses(context.Context) []Check {
	if m.cfg.RuntimeClassPath == "" {
		return nil
	}
	f := runtimeclass.New(m.path(m.cfg.RuntimeClassPath), slog.New(slog.DiscardHandler))
	names := f.Current().Names()
	if problems := f.Problems(); len(problems) > 0 {
		return []Check{{Status: Warn, Message: strings.Join(problems, "; "),
			Remedy: "fix the file, or choose another with --runtime-class-path"}}
	}
	return []Check{ok("%s holds %d runtime classes: %s", m.cfg.RuntimeClassPath, len(names), strings.Join(names, ", "))}
}

// manifestURL fetches the manifest URL once, if configured.
func (m *machine) manifestURL(ctx context.Context) []Check {
	if m.cfg.StaticPodURL == "" {
		return nil
	}
	const remedy = "check the server and the network, or staticPodURL and staticPodURLHeader " +
		"(--manifest-url, --manifest-url-header)"
	facts, err := m.cfg.NodeFacts()
	if err != nil {
		return []Check{{Status: Skip, Message: "cannot check the manifest URL: " + err.Error()}}
	}
	o := manifest.Options{NodeName: facts.NodeName, Classes: m.classes()}
	place, found, err := url.FetchOnce(ctx, m.cfg.StaticPodURL, m.cfg.URLHeader(), o)
	switch {
	case err != nil:
		return []Check{{Status: Warn, Message: "manifest URL " + place + ": " + err.Error() + "; its pods do not run",
			Remedy: remedy}}
	case len(found.GetProblems()) > 0:
		p := found.GetProblems()[0]
		message := fmt.Sprintf("%s:%d: %s: %s", place, p.GetLine(), p.GetField(), p.GetMessage())
		return []Check{{Status: Warn, Message: message, Remedy: "fix the manifest"}}
	}
	return []Check{ok("%s has %d pods", place, len(found.GetPods()))}
}

func (m *machine) resolvConf() Check {
	path := m.cfg.ResolvConf
	if path == "" {
		return ok("pods get no resolver, as configured")
	}
	if !m.exists(path) {
		return Check{Status: Warn, Message: path + " does not exist: pods with DNS policy Default do not start",
			Remedy: "set the host's file with --resolv-conf"}
	}
	for line := range strings.Lines(m.read(path)) {
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == "nameserver" {
			if ip := net.ParseIP(f[1]); ip != nil && ip.IsLoopback() {
				return Check{Status: Warn, Message: path + " names " + f[1] + ", which in a pod is the pod itself",
					Remedy: "with systemd-resolved: --resolv-conf /run/systemd/resolve/resolv.conf"}
			}
		}
	}
	return ok("%s is valid for pods with DNS policy Default", path)
}

// ports opens and closes the ports that the agent will use.
func (m *machine) ports() Check {
	var wanted []struct{ addr, flag string }
	if m.cfg.HealthzPort != 0 {
		addr := net.JoinHostPort(m.cfg.HealthzBindAddress, strconv.Itoa(int(m.cfg.HealthzPort)))
		wanted = append(wanted, struct{ addr, flag string }{addr, "--healthz-port"})
	}
	if m.cfg.BusListen != "" {
		wanted = append(wanted, struct{ addr, flag string }{m.cfg.BusListen, "--bus-listen"})
	}
	for _, w := range wanted {
		l, err := net.Listen("tcp", w.addr)
		if err != nil {
			_, port, _ := net.SplitHostPort(w.addr)
			return Check{
				Status: Fail, Message: fmt.Sprintf("cannot listen on %s: %v", w.addr, err),
				Remedy: fmt.Sprintf("find the process (ss -ltnp 'sport = :%s'), or choose another with %s", port, w.flag),
			}
		}
		if err := l.Close(); err != nil {
			return Check{Status: Warn, Message: fmt.Sprintf("cannot close %s: %v", w.addr, err)}
		}
	}
	return ok("the agent's ports are free")
}
