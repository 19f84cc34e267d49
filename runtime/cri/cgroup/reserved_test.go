package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestMissingCgroupOfDaemonsIsNamed(t *testing.T) {
	dir := t.TempDir()
	for _, at := range []string{"two/daemons", "two/a.slice/a-b.slice", "cpu/daemons", "memory/daemons"} {
		must.OK(t, os.MkdirAll(filepath.Join(dir, at), 0o755))
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "two/file"), nil, 0o600))
	two := &machine{unified: true, mounts: map[string]string{"": filepath.Join(dir, "two")}}
	slices := &machine{unified: true, mounts: two.mounts, systemd: true}
	one := &machine{mounts: map[string]string{
		"cpu": filepath.Join(dir, "cpu"), "memory": filepath.Join(dir, "memory"), "pids": filepath.Join(dir, "pids"),
	}}
	all := Values{Shares: 100, MemoryBytes: 1 << 20, Pids: 10}
	for name, c := range map[string]struct {
		m    *machine
		r    Reserved
		want string // empty: it exists
	}{
		"v2":              {two, Reserved{Name: "/daemons", Values: all}, ""},
		"v2, without a /": {two, Reserved{Name: "daemons", Values: all}, ""},
		"v2, missing": {two, Reserved{Name: "/other", Values: all, Field: "kubeReservedCgroup"},
			"kubeReservedCgroup: the cgroup /other does not exist"},
		"v2, a file":           {two, Reserved{Name: "/file", Values: all}, "is no cgroup"},
		"v2, topmost":          {two, Reserved{Name: "/daemons/..", Values: all}, "topmost"},
		"slice":                {slices, Reserved{Name: "/a-b.slice", Values: all}, ""},
		"slice, a path":        {slices, Reserved{Name: "/a.slice/a-b.slice", Values: all}, ""},
		"slice, missing":       {slices, Reserved{Name: "c.slice", Values: all}, "the cgroup c.slice does not exist"},
		"slice, bad name":      {slices, Reserved{Name: "a--b.slice", Values: all}, "is no name of a slice"},
		"v1, one is missing":   {one, Reserved{Name: "/daemons", Values: all}, "/pids/daemons"},
		"v1, it is not needed": {one, Reserved{Name: "/daemons", Values: Values{Shares: 100, MemoryBytes: 1 << 20}}, ""},
		"v1, not mounted": {&machine{mounts: map[string]string{"cpu": filepath.Join(dir, "cpu")}},
			Reserved{Name: "/daemons", Values: all}, ""},
	} {
		err := c.m.check([]Reserved{c.r})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
