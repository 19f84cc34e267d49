package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Remedies on a machine where the agent cannot write cgroups, with and without Options.All.
const (
	remedyAll = "run as root with /sys/fs/cgroup writable, " +
		"or run with --cgroups-per-qos=false, which leaves pods without a cgroup of their own"
	remedyOne = "run as root with /sys/fs/cgroup writable, or leave spec.resources out of the pod"
)

// requiredControllers are the cgroup v1 hierarchies that a cgroup must exist in.
var requiredControllers = []string{"cpu", "cpuset", "memory", "pids"}

// remedy returns what to do if cgroups cannot be created.
func (t *Tree) remedy() string {
	if t.opts.All {
		return remedyAll
	}
	return remedyOne
}

// findMounts finds the mount points of the hierarchies.
func (t *Tree) findMounts() error {
	mounts, err := mountPoints(t.unified)
	if err != nil {
		return err
	}
	t.mounts = mounts
	t.pageSizes = t.boundedPages()
	return t.checkWritable()
}

// checkWritable returns why cgroups cannot be created at the mount points.
func (t *Tree) checkWritable() error {
	roots := t.requiredDirs("/" + strings.Trim(t.opts.Root, "/"))
	if len(roots) == 0 {
		return fmt.Errorf("none of the cgroup controllers %s is mounted below /sys/fs/cgroup",
			strings.Join(requiredControllers, ", "))
	}
	for _, dir := range roots {
		// Init reports a missing root, because its path depends on the driver.
		if err := unix.Access(dir, unix.W_OK); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cgroups cannot be created in %s: %w", dir, err)
		}
	}
	return nil
}

// ShouldInit reports whether the tree is needed before a pod needs it: if every pod gets a cgroup, or an earlier run
// left some. It is false if cgroups are unusable: only pods that need one wait then, and leftovers stay.
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

// Has reports whether anything of a pod's cgroup exists, under either driver's name. It works before Init. A pod
// without a cgroup can be resized or removed before the tree is ready.
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

// requiredDirs returns the directories of a cgroup that must exist.
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

// dirs returns a cgroup's directories in all hierarchies.
func (t *Tree) dirs(at name) map[string]string {
	path, err := t.layout.path(at)
	if err != nil {
		return nil
	}
	return t.dirsOf(path)
}

// dirsOf returns the directories of a path in all hierarchies.
func (t *Tree) dirsOf(path string) map[string]string {
	dirs := map[string]string{}
	for controller, mount := range t.mounts {
		dirs[controller] = filepath.Join(mount, path)
	}
	return dirs
}

// exists reports whether a cgroup exists in every required hierarchy.
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

// existsAnywhere reports whether a cgroup exists in any hierarchy.
func (t *Tree) existsAnywhere(at name) bool { return anyExists(t.dirs(at)) }

// anyExists reports whether any of these directories exists.
func anyExists(dirs map[string]string) bool {
	for _, dir := range dirs {
		if _, err := os.Lstat(dir); err == nil {
			return true
		}
	}
	return false
}
