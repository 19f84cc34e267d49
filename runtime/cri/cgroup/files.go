package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"

	"github.com/journalet/journalet/runtime/bounded"
)

// orphanAge is the minimum age of an unknown pod's empty cgroup to be removed: another agent may be about to use a
// younger one.
const orphanAge = time.Minute

// maxCgroupFile bounds what is read of a file of a cgroup: one line.
const maxCgroupFile = 4 << 10

// noLimit is the value of an unset limit of cgroup v1, less rounding to pages.
const noLimit = 1 << 62

// manager returns the cgroups library's manager of a cgroup.
func (t *Tree) manager(at name, v Values) (cgroups.Manager, *cgroups.Resources, error) {
	config := &cgroups.Cgroup{Systemd: t.layout.Systemd, Resources: v.resources(t.unified)}
	if !t.layout.Systemd {
		path, err := t.layout.path(at)
		if err != nil {
			return nil, nil, err
		}
		config.Path = path
		// The library changes the map.
		m, err := manager.NewWithPaths(config, maps.Clone(t.dirs(at)))
		return m, config.Resources, err
	}
	config.Name, config.Parent = sliceName(at), "-.slice"
	if len(at) > 1 {
		config.Parent = sliceName(at[:len(at)-1])
	}
	m, err := manager.New(config)
	return m, config.Resources, err
}

// create creates a cgroup and those above it, and sets its values and its limits of huge pages. An existing cgroup gets
// them, too.
func (t *Tree) create(at name, v Values, pages ...*cgroups.HugepageLimit) error {
	m, r, err := t.manager(at, v)
	if err == nil {
		r.HugetlbLimit = pages
		// -1 adds no process.
		err = m.Apply(-1)
	}
	if err == nil {
		err = m.Set(r)
	}
	if err != nil {
		return fmt.Errorf("create the cgroup %s: %w; %s", strings.Join(at, "/"), err, t.remedy())
	}
	return nil
}

// set sets a cgroup's values, and its limits of huge pages. Limits whose value is zero stay.
func (t *Tree) set(at name, v Values, pages ...*cgroups.HugepageLimit) error {
	m, r, err := t.manager(at, v)
	if err == nil {
		r.HugetlbLimit = pages
		err = m.Set(r)
	}
	if err != nil {
		return fmt.Errorf("set the limits of the cgroup %s: %w", strings.Join(at, "/"), err)
	}
	return nil
}

// destroy removes a cgroup and those below it. It fails while one of them has a process.
func (t *Tree) destroy(at name) error {
	m, _, err := t.manager(at, Values{})
	if err == nil {
		err = m.Destroy()
	}
	if err == nil && t.layout.Systemd {
		// systemd removes a slice with its last process. This removes directories that it left or did not manage.
		err = cgroups.RemovePaths(t.dirs(at))
	}
	if err != nil {
		return fmt.Errorf("remove the cgroup %s: %w", strings.Join(at, "/"), err)
	}
	return nil
}

// empty reports whether a cgroup has neither processes nor cgroups below it. A cgroup that cannot be read is not empty.
func (t *Tree) empty(at name) bool {
	path, err := t.layout.path(at)
	if err != nil {
		return false
	}
	for _, dir := range t.requiredDirs(path) {
		missing := false
		for e, err := range bounded.Entries(dir) {
			if missing = errors.Is(err, fs.ErrNotExist); missing {
				break
			}
			if err != nil || e.IsDir() {
				return false
			}
		}
		if missing {
			continue
		}
		if pids, err := cgroups.GetPids(dir); err != nil || len(pids) > 0 {
			return false
		}
	}
	return true
}

// removeOrphans removes the empty cgroups of pods that the journal does not have.
func (t *Tree) removeOrphans() {
	for _, qos := range classes {
		above := t.layout.class(qos)
		path, err := t.layout.path(above)
		if err != nil {
			continue
		}
		for _, dir := range t.requiredDirs(path) {
			for e, err := range bounded.Entries(dir) {
				if err != nil {
					t.log.Warn("cgroups of removed pods cannot be listed", "error", err)
					break
				}
				uid := t.layout.uidOf(above, e.Name())
				info, err := e.Info()
				if !e.IsDir() || err != nil || uid == "" || t.known[uid] || time.Since(info.ModTime()) < orphanAge {
					continue
				}
				at := t.layout.pod(uid, qos)
				if !t.empty(at) {
					continue
				}
				if err := t.destroy(at); err != nil {
					t.log.Warn("the cgroup of an unknown pod cannot be removed", "pod", uid, "error", err)
					continue
				}
				t.log.Info("removed the empty cgroup of an unknown pod", "pod", uid)
			}
		}
	}
}

// read returns a cgroup's limits; 0 for none. It does not read shares: on v2 they cannot be derived from the weight.
func (t *Tree) read(at name) Values {
	var v Values
	if t.unified {
		dir := t.dirs(at)[""]
		quota, period, _ := strings.Cut(readText(dir, "cpu.max"), " ")
		v.QuotaMicros, v.MemoryBytes = parseNumber(quota), parseNumber(readText(dir, "memory.max"))
		if v.QuotaMicros > 0 {
			v.PeriodMicros = uint64(max(0, parseNumber(period)))
		}
		return v
	}
	dirs := t.dirs(at)
	v.QuotaMicros = max(0, parseNumber(readText(dirs["cpu"], "cpu.cfs_quota_us")))
	if v.QuotaMicros > 0 {
		v.PeriodMicros = uint64(max(0, parseNumber(readText(dirs["cpu"], "cpu.cfs_period_us"))))
	}
	if limit := parseNumber(readText(dirs["memory"], "memory.limit_in_bytes")); limit < noLimit {
		v.MemoryBytes = limit
	}
	return v
}

// memoryUsed returns a cgroup's memory usage in bytes; 0 if it cannot be read.
func (t *Tree) memoryUsed(at name) int64 {
	if t.unified {
		return parseNumber(readText(t.dirs(at)[""], "memory.current"))
	}
	return parseNumber(readText(t.dirs(at)["memory"], "memory.usage_in_bytes"))
}

func readText(dir, file string) string {
	data, err := bounded.ReadFile(filepath.Join(dir, file), maxCgroupFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// parseNumber parses a number; max and everything else is 0.
func parseNumber(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
