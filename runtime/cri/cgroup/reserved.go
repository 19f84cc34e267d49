package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	"github.com/opencontainers/cgroups/systemd"
)

// Reserved is a cgroup of daemons that the operator has created, and the limits that it is to have.
type Reserved struct {
	// Name is its path in the form of cgroupfs, or a slice of systemd such as /system.slice.
	Name string
	// Values are the limits. On cgroup v2 the memory is also protected from reclaim (kubelet 1.37: memory.min).
	Values Values
	// Field is where it is configured, for errors.
	Field string
	// What is what the kubelet calls it, for events: "system" or "kube".
	What string
}

// machine is where cgroups are.
type machine struct {
	unified bool
	mounts  map[string]string // by controller; on v2 one, with the key ""
	systemd bool              // it runs
}

func thisMachine() (*machine, error) {
	mounts, err := mountPoints(V2())
	return &machine{unified: V2(), mounts: mounts, systemd: systemd.IsRunningSystemd()}, err
}

// mountPoints returns the mount points of the hierarchies by controller; on v2 there is one, with the key "".
func mountPoints(unified bool) (map[string]string, error) {
	top, err := manager.New(&cgroups.Cgroup{Path: "/", Resources: &cgroups.Resources{SkipDevices: true}})
	if err != nil {
		return nil, fmt.Errorf("find the cgroups of this machine: %w", err)
	}
	if unified {
		return map[string]string{"": top.Path("")}, nil
	}
	return top.GetPaths(), nil
}

// CheckReserved returns an error for each cgroup that does not exist: the kubelet does not start then.
func CheckReserved(all []Reserved) error {
	if len(all) == 0 {
		return nil
	}
	m, err := thisMachine()
	if err != nil {
		return err
	}
	return m.check(all)
}

func (m *machine) check(all []Reserved) error {
	var errs []error
	for _, r := range all {
		at, err := m.path(r.Name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Field, err))
			continue
		}
		for _, dir := range m.required(at, r.Values) {
			switch st, err := os.Stat(dir); {
			case errors.Is(err, fs.ErrNotExist):
				errs = append(errs, fmt.Errorf("%s: the cgroup %s does not exist (%s); create it, or take it out of "+
					"enforceNodeAllocatable", r.Field, r.Name, dir))
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: the cgroup %s: %w", r.Field, r.Name, err))
			case !st.IsDir():
				errs = append(errs, fmt.Errorf("%s: %s is no cgroup", r.Field, dir))
			}
		}
	}
	return errors.Join(errs...)
}

// Set sets the limits. The kernel refuses less memory than the daemons use: try again later.
func (r Reserved) Set() error {
	m, err := thisMachine()
	if err != nil {
		return err
	}
	return m.set(r)
}

func (m *machine) set(r Reserved) error {
	if err := m.check([]Reserved{r}); err != nil {
		return err
	}
	at, err := m.path(r.Name)
	if err != nil {
		return err
	}
	values := r.Values.resources(m.unified)
	if m.unified && r.Values.MemoryBytes > 0 {
		values.Unified = map[string]string{"memory.min": strconv.FormatInt(r.Values.MemoryBytes, 10)}
	}
	config := &cgroups.Cgroup{Resources: values}
	var cm cgroups.Manager
	if m.slice(r.Name) { // systemd would overwrite what others set
		config.Systemd, config.Name, config.Parent = true, path.Base(at), path.Base(path.Dir(at))
		if config.Parent == "/" {
			config.Parent = "-.slice"
		}
		cm, err = manager.New(config)
	} else {
		config.Path = at
		dirs := map[string]string{}
		for controller, mount := range m.mounts {
			dirs[controller] = filepath.Join(mount, at)
		}
		cm, err = manager.NewWithPaths(config, dirs)
	}
	if err == nil {
		err = cm.Set(values)
	}
	if err != nil {
		return fmt.Errorf("set the limits of the cgroup %s: %w", r.Name, err)
	}
	return nil
}

// slice reports whether a name names a slice that systemd manages.
func (m *machine) slice(name string) bool {
	return m.systemd && strings.HasSuffix(name, sliceSuffix) && !strings.Contains(strings.Trim(name, "/"), "/")
}

// path returns a cgroup's path below the mount points.
func (m *machine) path(name string) (string, error) {
	at := path.Clean("/" + name)
	if at == "/" {
		return "", errors.New("the topmost cgroup cannot be bounded; name another one")
	}
	if !m.slice(name) {
		return at, nil
	}
	full, err := systemd.ExpandSlice(strings.Trim(name, "/"))
	if err != nil {
		return "", fmt.Errorf("%s is no name of a slice: %w", name, err)
	}
	return full, nil
}

// required returns the directories that must exist for values to be set.
func (m *machine) required(at string, v Values) []string {
	if m.unified {
		return []string{filepath.Join(m.mounts[""], at)}
	}
	var dirs []string
	add := func(controller string, needed bool) {
		if mount := m.mounts[controller]; needed && mount != "" {
			dirs = append(dirs, filepath.Join(mount, at))
		}
	}
	add("cpu", v.Shares > 0)
	add("memory", v.MemoryBytes > 0)
	add("pids", v.Pids > 0)
	return dirs
}
