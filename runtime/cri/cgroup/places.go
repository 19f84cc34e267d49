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
	remedyAll = "run as root with /sys/fs/cgroup writable, or run with --cgroups-per-qos=false, which leaves pods without a cgroup of their own"
	remedyOne = "run as root with /sys/fs/cgroup writable, or leave spec.resources out of the pod"
)

// requiredControllers are the hierarchies of cgroup v1 that must hold a cgroup for it to exist.
var requiredControllers = []string{"cpu", "cpuset", "memory", "pids"}

// remedy is what to do where cgroups cannot be made.
func (t *Tree) remedy() string {
	if t.opts.All {
		return remedyAll
	}
	return remedyOne
}

// findMounts finds where cgroups are made.
func (t *Tree) findMounts() error {
	top, err := manager.New(&cgroups.Cgroup{Path: "/", Resources: &cgroups.Resources{SkipDevices: true}})
	if err != nil {
		return fmt.Errorf("find the cgroups of this machine: %w", err)
	}
	if t.unified {
		t.mounts = map[string]string{"": top.Path("")}
	} else {
		t.mounts = top.GetPaths()
	}
	return t.checkWritable()
}

// checkWritable tells why cgroups cannot be made in what was found.
func (t *Tree) checkWritable() error {
	roots := t.requiredDirs("/" + strings.Trim(t.opts.Root, "/"))
	if len(roots) == 0 {
		return fmt.Errorf("none of the cgroup controllers %s is mounted below /sys/fs/cgroup", strings.Join(requiredControllers, ", "))
	}
	for _, dir := range roots {
		// A root that is not there is told once the driver is known, which has its own names for it.
		if err := unix.Access(dir, unix.W_OK); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cgroups cannot be made in %s: %w", dir, err)
		}
	}
	return nil
}

// ShouldInit tells whether the tree is to be there before a pod asks for it: if every pod has a cgroup, and if an earlier run left some. Where it
// cannot be made, it is not: only a pod that is to have a cgroup waits for one then, and what was left stays.
func (t *Tree) ShouldInit() bool {
	switch {
	case t.unusable != nil:
		return false
	case t.opts.All || t.Ready():
		return true
	}
	for _, systemd := range []bool{false, true} {
		l := Layout{Root: t.opts.Root, Systemd: systemd}
		path, err := l.path(l.top())
		for _, dir := range t.requiredDirs(path) {
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
	if !t.ShouldInit() {
		return false
	}
	for _, systemd := range []bool{false, true} {
		l := Layout{Root: t.opts.Root, Systemd: systemd}
		if l.check(uid) != nil {
			continue
		}
		for _, qos := range classes {
			path, err := l.path(l.pod(uid, qos))
			if err == nil && anyExists(t.dirsOf(path)) {
				return true
			}
		}
	}
	return false
}

// requiredDirs are the folders of a cgroup that must be there.
func (t *Tree) requiredDirs(path string) []string {
	if t.unified {
		return []string{filepath.Join(t.mounts[""], path)}
	}
	var dirs []string
	for _, controller := range requiredControllers {
		if at := t.mounts[controller]; at != "" {
			dirs = append(dirs, filepath.Join(at, path))
		}
	}
	return dirs
}

// dirs are a cgroup's folders in all hierarchies.
func (t *Tree) dirs(at name) map[string]string {
	path, err := t.layout.path(at)
	if err != nil {
		return nil
	}
	return t.dirsOf(path)
}

// dirsOf are the folders in all hierarchies of a path below their mount points.
func (t *Tree) dirsOf(path string) map[string]string {
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
	for _, dir := range t.requiredDirs(path) {
		if _, err := os.Stat(dir); err != nil {
			return false
		}
	}
	return true
}

// existsAnywhere tells whether anything is left of a cgroup.
func (t *Tree) existsAnywhere(at name) bool { return anyExists(t.dirs(at)) }

// anyExists tells whether any of these folders is there.
func anyExists(dirs map[string]string) bool {
	for _, dir := range dirs {
		if _, err := os.Lstat(dir); err == nil {
			return true
		}
	}
	return false
}
