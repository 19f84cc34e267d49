package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const cgroupMount = "/sys/fs/cgroup"

// hierarchies returns the mounts of cgroup v1, or the one mount of cgroup v2.
func hierarchies() []string {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return []string{cgroupMount}
	}
	entries, _ := os.ReadDir(cgroupMount)
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(cgroupMount, e.Name()))
		}
	}
	return dirs
}

// createCgroupRoot creates the parent of the cgroups of an agent's pods.
func (a *Agent) createCgroupRoot() {
	if os.Geteuid() != 0 {
		return // a test that has no runtime
	}
	for _, dir := range hierarchies() {
		if err := os.MkdirAll(filepath.Join(dir, a.CgroupRoot), 0o755); err != nil { //nolint:gosec // as all cgroups
			a.T.Fatalf("create a cgroup for the test: %v; run as root with %s writable", err, cgroupMount)
		}
	}
}

// PodCgroups returns the paths of the pods' cgroups that exist in any hierarchy. With all, it returns the cgroups of
// containers and QoS classes too.
func (a *Agent) PodCgroups(all bool) []string {
	var found []string
	for _, dir := range hierarchies() {
		root := filepath.Join(dir, a.CgroupRoot)
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() || path == root {
				return nil //nolint:nilerr // removed in the meantime
			}
			if isPod := strings.HasPrefix(e.Name(), "pod"); isPod || all {
				found = append(found, path)
			}
			return nil
		})
	}
	slices.Sort(found)
	return found
}

// Cgroup reads a file of a cgroup below the agent's root: "" if it does not exist. The controller names the hierarchy
// of cgroup v1.
func (a *Agent) Cgroup(controller, path, file string) string {
	dir := filepath.Join(cgroupMount, controller)
	if len(hierarchies()) == 1 {
		dir = cgroupMount
	}
	data, _ := os.ReadFile(filepath.Join(dir, a.CgroupRoot, path, file))
	return strings.TrimSpace(string(data))
}

// removeCgroups removes the agent's cgroups. The agent must have removed the pods' cgroups before.
func (a *Agent) removeCgroups() {
	if left := a.PodCgroups(false); len(left) > 0 && !a.T.Failed() {
		a.T.Errorf("%d cgroups of pods are left at the end, %s first", len(left), left[0])
	}
	all := a.PodCgroups(true)
	slices.Reverse(all) // children first
	for _, dir := range hierarchies() {
		all = append(all, filepath.Join(dir, a.CgroupRoot))
	}
	for _, dir := range all {
		// A cgroup of a failed test may be in use.
		if err := os.Remove(dir); err != nil && !os.IsNotExist(err) && !a.T.Failed() {
			a.T.Errorf("remove the test's cgroup: %v", err)
		}
	}
}
