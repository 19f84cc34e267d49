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
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/source/runtimeclass"
	"github.com/journalet/journalet/runtime/source/url"
)

const (
	// minFree is what the journal and its reserve need to begin at all; goodFree leaves room for some days and volumes.
	minFree  = 256 << 20
	goodFree = 1 << 30
	// minFreeInodes keeps a full table of inodes from being taken for a full disk later.
	minFreeInodes = 10000
)

// earliest is before this program was written: a clock that shows less was never set.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (m *machine) clock() Check {
	if m.now.Before(earliest) {
		return Check{
			Status: Fail, Message: "the clock shows " + m.now.UTC().Format(time.RFC3339) + ", which is past: certificates would not hold and the journal would begin in another age",
			Remedy: "set it: timedatectl set-ntp true",
		}
	}
	return ok("the clock shows %s", m.now.UTC().Format(time.RFC3339))
}

// nearest is the path, or the closest parent that is there.
func (m *machine) nearest(path string) (string, error) {
	for {
		_, err := os.Stat(m.path(path))
		if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return path, err
		}
		path = filepath.Dir(path)
	}
}

func (m *machine) rootDir() Check {
	const remedy = "mend its rights or its mount, or choose another with --root-dir"
	dir, err := m.nearest(m.cfg.RootDir)
	if err == nil {
		var st os.FileInfo
		if st, err = os.Stat(m.path(dir)); err == nil && !st.IsDir() {
			err = fmt.Errorf("%s is not a folder", dir)
		}
	}
	if err == nil {
		err = unix.Access(m.path(dir), unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return Check{Status: Fail, Message: fmt.Sprintf("%s cannot be written: %v", m.cfg.RootDir, err), Remedy: remedy}
	}
	if dir != m.cfg.RootDir {
		return ok("%s will be made in %s", m.cfg.RootDir, dir)
	}
	return ok("%s can be written", dir)
}

func (m *machine) disk() Check {
	dir, err := m.nearest(m.cfg.RootDir)
	var st unix.Statfs_t
	if err == nil {
		err = unix.Statfs(m.path(dir), &st)
	}
	if err != nil {
		return Check{Status: Skip, Message: fmt.Sprintf("the file system of %s cannot be measured: %v", m.cfg.RootDir, err)}
	}
	return space(int64(st.Bavail)*st.Bsize, st.Files, st.Ffree, dir)
}

// space judges what is free. A file system that makes inodes as needed counts none.
func space(free int64, inodes, freeInodes uint64, dir string) Check {
	remedy := fmt.Sprintf("make room (du -xh %s | sort -h | tail), or choose another with --root-dir", dir)
	message := fmt.Sprintf("%d MiB are free for %s", free>>20, dir)
	switch {
	case free < minFree:
		return Check{Status: Fail, Message: fmt.Sprintf("%s, and at least %d are needed", message, minFree>>20), Remedy: remedy}
	case inodes > 0 && freeInodes < minFreeInodes:
		return Check{Status: Warn, Message: fmt.Sprintf("only %d inodes are free for %s", freeInodes, dir), Remedy: remedy}
	case free < goodFree:
		return Check{Status: Warn, Message: message + ", which will not last", Remedy: remedy}
	}
	return ok("%s", message)
}

func (m *machine) staticPods() Check {
	path := m.cfg.StaticPodPath
	st, err := os.Stat(m.path(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Check{Status: Warn, Message: path + " does not exist: no pod will run until it does", Remedy: "mkdir -p " + path}
	case err != nil:
		return Check{Status: Warn, Message: fmt.Sprintf("%s cannot be read: %v", path, err), Remedy: "mend its rights, or choose another with --static-pod-path"}
	case !st.IsDir() && !st.Mode().IsRegular():
		return Check{Status: Fail, Message: path + " is neither a folder nor a file", Remedy: "choose another with --static-pod-path"}
	}
	return ok("%s is there", path)
}

// classes are the runtime classes of this node, nil if none are configured.
func (m *machine) classes() *manifest.RuntimeClasses {
	if m.cfg.RuntimeClassPath == "" {
		return nil
	}
	return runtimeclass.New(m.path(m.cfg.RuntimeClassPath), slog.New(slog.DiscardHandler)).Current()
}

// runtimeClasses looks at the files of runtime classes, if there are any.
func (m *machine) runtimeClasses(context.Context) []Check {
	if m.cfg.RuntimeClassPath == "" {
		return nil
	}
	f := runtimeclass.New(m.path(m.cfg.RuntimeClassPath), slog.New(slog.DiscardHandler))
	names := f.Current().Names()
	if problems := f.Problems(); len(problems) > 0 {
		return []Check{{Status: Warn, Message: strings.Join(problems, "; "), Remedy: "mend the file, or choose another with --runtime-class-path"}}
	}
	return []Check{ok("%s holds %d runtime classes: %s", m.cfg.RuntimeClassPath, len(names), strings.Join(names, ", "))}
}

// manifestURL asks for the manifest URL once, if there is one.
func (m *machine) manifestURL(ctx context.Context) []Check {
	if m.cfg.StaticPodURL == "" {
		return nil
	}
	const remedy = "see to the server and the network, or to staticPodURL and staticPodURLHeader (--manifest-url, --manifest-url-header)"
	facts, err := m.cfg.NodeFacts()
	if err != nil {
		return []Check{{Status: Skip, Message: "what the manifest URL gives cannot be judged: " + err.Error()}}
	}
	place, found, err := url.FetchOnce(ctx, m.cfg.StaticPodURL, m.cfg.URLHeader(), manifest.Options{NodeName: facts.NodeName, Classes: m.classes()})
	switch {
	case err != nil:
		return []Check{{Status: Warn, Message: "the manifest URL " + place + ": " + err.Error() + "; its pods do not run until it is answered", Remedy: remedy}}
	case len(found.GetProblems()) > 0:
		p := found.GetProblems()[0]
		return []Check{{Status: Warn, Message: fmt.Sprintf("%s:%d: %s: %s", place, p.GetLine(), p.GetField(), p.GetMessage()), Remedy: "mend the manifest"}}
	}
	return []Check{ok("%s gives %d pods", place, len(found.GetPods()))}
}

func (m *machine) resolvConf() Check {
	path := m.cfg.ResolvConf
	if path == "" {
		return ok("pods get no resolver, as configured")
	}
	if !m.exists(path) {
		return Check{Status: Warn, Message: path + " does not exist: pods of DNS policy Default do not start", Remedy: "name the host's file with --resolv-conf"}
	}
	for line := range strings.Lines(m.read(path)) {
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == "nameserver" {
			if ip := net.ParseIP(f[1]); ip != nil && ip.IsLoopback() {
				return Check{Status: Warn, Message: path + " names " + f[1] + ", which in a pod is the pod itself", Remedy: "with systemd-resolved: --resolv-conf /run/systemd/resolve/resolv.conf"}
			}
		}
	}
	return ok("%s serves pods of DNS policy Default", path)
}

// ports tries those that the agent will open, for a moment.
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
				Status: Fail, Message: fmt.Sprintf("%s cannot be opened: %v", w.addr, err),
				Remedy: fmt.Sprintf("see who holds it (ss -ltnp 'sport = :%s'), or choose another with %s", port, w.flag),
			}
		}
		if err := l.Close(); err != nil {
			return Check{Status: Warn, Message: fmt.Sprintf("%s could be opened and not closed: %v", w.addr, err)}
		}
	}
	return ok("what the agent listens on is free")
}
