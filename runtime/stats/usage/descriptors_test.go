package usage

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// processes writes the lists of processes of cgroups below root, on cgroup v2.
func processes(t *testing.T, root string, listed map[string][]int) []Place {
	t.Helper()
	var all []Place
	for _, name := range []string{"a", "b", "c"} {
		dir := filepath.Join(root, "sys/fs/cgroup", name)
		must.OK(t, os.MkdirAll(dir, 0o755))
		text := ""
		for _, pid := range listed[name] {
			text += fmt.Sprintln(pid)
		}
		must.OK(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(text), 0o600))
		all = append(all, At(name))
	}
	return all
}

// opens writes descriptors of a process, so many of them sockets.
func opens(t *testing.T, root string, pid, all, sockets int) {
	t.Helper()
	dir := filepath.Join(root, "proc", strconv.Itoa(pid), "fd")
	must.OK(t, os.MkdirAll(dir, 0o755))
	for i := range all {
		target := "/socket:[1]"
		if i < sockets {
			target = "socket:[1]"
		}
		must.OK(t, os.Symlink(target, filepath.Join(dir, strconv.Itoa(i))))
	}
}

func figure(n *uint64) string {
	switch {
	case n == nil:
		return "-"
	case *n == Unlimited:
		return "unlimited"
	}
	return strconv.FormatUint(*n, 10)
}

func figures(all []Descriptors) string {
	text := ""
	for _, d := range all {
		text += fmt.Sprintf("%s/%s/%s ", figure(d.Open), figure(d.Sockets), figure(d.Limit))
	}
	return text
}

func TestDescriptorsOfAllProcessesOfAContainerAreCounted(t *testing.T) {
	root := t.TempDir()
	opens(t, root, 10, 5, 2)
	opens(t, root, 11, 3, 1)
	opens(t, root, 20, 1, 0)
	limits := "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max processes             unlimited            unlimited            processes \n" +
		"Max open files            %s                 524288               files     \n"
	must.OK(t, os.WriteFile(filepath.Join(root, "proc/10/limits"), fmt.Appendf(nil, limits, "1024"), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(root, "proc/11/limits"), fmt.Appendf(nil, limits, "7"), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(root, "proc/20/limits"), fmt.Appendf(nil, limits, "unlimited"), 0o600))
	// 12 has ended since the list was read.
	places := processes(t, root, map[string][]int{"a": {10, 11, 12}, "b": {20}})
	want := "8/3/1024 1/0/unlimited -/-/- "
	if got := figures(NewReader(root, true).Descriptors(places)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A container with very many descriptors has no figure, and costs the others none.
func TestContainerWithManyDescriptorsHidesNoOther(t *testing.T) {
	root := t.TempDir()
	opens(t, root, 20, 4, 3)
	opens(t, root, 21, 2, 1)
	opens(t, root, 30, 6, 6)
	places := processes(t, root, map[string][]int{"a": {20, 21}, "b": {30}, "c": {10}})
	opens(t, root, 10, 1000, 1000)
	c := &count{Reader: NewReader(root, true), left: 100, out: make([]Descriptors, 3)}
	c.all(places)
	if got, want := figures(c.out), "6/4/- 6/6/- -/-/- "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if c.left < 0 {
		t.Errorf("%d steps beyond the bound", -c.left)
	}
}

// The kernel's own directories: of this process, whose sockets are known.
func TestDescriptorsOfThisProcess(t *testing.T) {
	root := t.TempDir()
	must.OK(t, os.Symlink("/proc", filepath.Join(root, "proc")))
	places := processes(t, root, map[string][]int{"a": {os.Getpid()}})[:1]
	r := NewReader(root, true)
	before := r.Descriptors(places)[0]
	for range 3 {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		must.OK(t, err)
		defer l.Close()
	}
	after := r.Descriptors(places)[0]
	var limit unix.Rlimit
	must.OK(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if *after.Sockets != *before.Sockets+3 || *after.Open < *before.Open+3 || *after.Limit != limit.Cur {
		t.Errorf("%s, then %s with a limit of %d", figures([]Descriptors{before}), figures([]Descriptors{after}), limit.Cur)
	}
}
