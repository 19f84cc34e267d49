package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	"golang.org/x/sys/unix"
)

// What to do on a machine whose cgroups are not the agent's, with and without Options.All.
const (
	without    = "run as root with /sys/fs/cgroup writable, or run with --cgroups-per-qos=false, which leaves pods without a cgroup of their own"
	withoutOne = "run as root with /sys/fs/cgroup writable, or leave spec.resources out of the pod"
)

// needed are the hierarchies of cgroup v1 that must hold a cgroup for it to exist.
var needed = []string{"cpu", "cpuset", "memory", "pids"}

// remedy is what to do where cgroups cannot be made.
func (t *Tree) remedy() string {
	if t.opts.All {
		return without
	}
	return withoutOne
}

// find finds where cgroups are made.
func (t *Tree) find() error {
	top, err := manager.New(&cgroups.Cgroup{Path: "/", Resources: &cgroups.Resources{SkipDevices: true}})
	if err != nil {
		return fmt.Errorf("find the cgroups of this machine: %w", err)
	}
	if t.unified {
		t.mounts = map[string]string{"": top.Path("")}
	} else {
		t.mounts = top.GetPaths()
	}
	return t.writable()
}

// writable tells why cgroups cannot be made in what was found.
func (t *Tree) writable() error {
	roots := t.checked("/" + strings.Trim(t.opts.Root, "/"))
	if len(roots) == 0 {
		return fmt.Errorf("none of the cgroup controllers %s is mounted below /sys/fs/cgroup", strings.Join(needed, ", "))
	}
	for _, dir := range roots {
		// A root that is not there is told once the driver is known, which has its own names for it.
		if err := unix.Access(dir, unix.W_OK); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cgroups cannot be made in %s: %w", dir, err)
		}
	}
	return nil
}

// Due tells whether the tree is to be there before a pod asks for it: if every pod has a cgroup, and if an earlier run left some. Where it
// cannot be made, it is not: only a pod that is to have a cgroup waits for one then, and what was left stays.
func (t *Tree) Due() bool {
	switch {
	case t.unusable != nil:
		return false
	case t.opts.All || t.Ready():
		return true
	}
	for _, systemd := range []bool{false, true} {
		l := Layout{Root: t.opts.Root, Systemd: systemd}
		path, err := l.path(l.top())
		for _, dir := range t.checked(path) {
			if _, serr := os.Lstat(dir); err == nil && serr == nil {
				return true
			}
		}
	}
	return false
}

// Has tells, before Begin too, whether anything is there of a pod's cgroup, in the form of either driver. A pod without needs no tree to be
// changed or to go, so that a tree that does not get ready holds nobody else up.
func (t *Tree) Has(uid string) bool {
	if !t.Due() {
		return false
	}
	for _, systemd := range []bool{false, true} {
		l := Layout{Root: t.opts.Root, Systemd: systemd}
		if l.check(uid) != nil {
			continue
		}
		for _, qos := range classes {
			path, err := l.path(l.pod(uid, qos))
			if err == nil && anyOf(t.below(path)) {
				return true
			}
		}
	}
	return false
}

// checked are the folders of a cgroup that must be there.
func (t *Tree) checked(path string) []string {
	if t.unified {
		return []string{filepath.Join(t.mounts[""], path)}
	}
	var dirs []string
	for _, controller := range needed {
		if at := t.mounts[controller]; at != "" {
			dirs = append(dirs, filepath.Join(at, path))
		}
	}
	return dirs
}

// folders are a cgroup's folders in all hierarchies.
func (t *Tree) folders(at name) map[string]string {
	path, err := t.layout.path(at)
	if err != nil {
		return nil
	}
	return t.below(path)
}

// below are the folders in all hierarchies of a path below their mount points.
func (t *Tree) below(path string) map[string]string {
	dirs := map[string]string{}
	for controller, mount := range t.mounts {
		dirs[controller] = filepath.Join(mount, path)
	}
	return dirs
}

// exists tells whether a cgroup is there in every hierarchy that counts.
func (t *Tree) exists(at name) bool {
	path, err := t.layout.path(at)
	if err != nil {
		return false
	}
	for _, dir := range t.checked(path) {
		if _, err := os.Stat(dir); err != nil {
			return false
		}
	}
	return true
}

// anywhere tells whether anything is left of a cgroup.
func (t *Tree) anywhere(at name) bool { return anyOf(t.folders(at)) }

// anyOf tells whether any of these folders is there.
func anyOf(dirs map[string]string) bool {
	for _, dir := range dirs {
		if _, err := os.Lstat(dir); err == nil {
			return true
		}
	}
	return false
}
