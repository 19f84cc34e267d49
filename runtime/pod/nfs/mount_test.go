package nfs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/pod/mounts"
	"github.com/journalet/journalet/test/fakenfs"
	"github.com/journalet/journalet/test/must"
)

// rig is a directory of a pod, and a server with the export /data that has a file.
type rig struct {
	t      *testing.T
	server *fakenfs.Server
	*Mounter
	target string
}

// newRig has a Mounter that kills after a tenth of a second what hangs: no test waits for longer than it has to.
func newRig(t *testing.T) *rig {
	t.Helper()
	s := fakenfs.New(t)
	must.OK(t, os.WriteFile(filepath.Join(s.Export("data"), "file"), []byte("kept"), 0o600))
	m := New(Options{
		Mount: filepath.Join(s.Dir, "mount"), Umount: filepath.Join(s.Dir, "umount"), Helpers: []string{s.Dir},
		MountTimeout: time.Minute, UnmountTimeout: time.Minute, ForceTimeout: time.Minute,
	})
	r := &rig{t: t, server: s, Mounter: m, target: filepath.Join(t.TempDir(), "volume")}
	must.OK(t, os.Mkdir(r.target, 0o750))
	t.Cleanup(func() {
		for unix.Unmount(r.target, unix.MNT_DETACH) == nil {
		}
	})
	return r
}

func (r *rig) mount(ctx context.Context, s Source) error {
	return r.Mount(ctx, r.target, func() (*os.File, error) { return os.Open(r.target) }, s)
}

var data = Source{Server: "files.example.com", Path: "/data"}

// expectFile fails unless the export is mounted, or is not.
func (r *rig) expectFile(want bool) {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.target, "file"))
	if got := string(b) == "kept"; got != want {
		r.t.Errorf("the volume has %q, %v", b, err)
	}
	mounted, err := mounts.At(r.target)
	if must.OK(r.t, err); mounted != want {
		r.t.Errorf("mounted: %v", mounted)
	}
}

func TestAnExportIsMountedByTheNodesMountOnceAndUnmounted(t *testing.T) {
	r := newRig(t)
	r.server.Install()
	r.Mounter = New(Options{})
	for range 2 {
		must.OK(t, r.mount(t.Context(), Source{
			Server: "fd00::1", Path: "/data", ReadOnly: true, Options: []string{"nfsvers=4.2", "", "hard", "ro"},
		}))
		r.expectFile(true)
	}
	if err := os.WriteFile(filepath.Join(r.target, "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("a read-only export is written: %v", err)
	}
	if got := r.server.Mounts(); !slices.Equal(got, []string{"[fd00::1]:/data /proc/self/fd/3 -o ro,hard,nfsvers=4.2"}) {
		t.Errorf("mounts %q", got)
	}
	for range 2 {
		must.OK(t, r.Unmount(t.Context(), r.target))
		r.expectFile(false)
	}
}

func TestAMountThatFailsSaysWhy(t *testing.T) {
	for want, change := range map[string]func(*rig) Source{
		"mount files.example.com:/none: mount.nfs: access denied by server while mounting files.example.com:/none (": func(
			*rig,
		) Source {
			return Source{Server: "files.example.com", Path: "/none"}
		},
		"mount.nfs is not on this node; install the package nfs-common (Debian, Ubuntu) or nfs-utils": func(r *rig) Source {
			r.server.RemoveHelper()
			return data
		},
		"executable file not found": func(r *rig) Source {
			r.Options.Mount = "no-such-program"
			return data
		},
		"nothing is mounted at": func(r *rig) Source {
			r.Options.Mount = "true"
			return data
		},
		"the server does not answer within": func(r *rig) Source {
			r.server.SetAway(true)
			r.Options.MountTimeout = 100 * time.Millisecond
			return data
		},
	} {
		r := newRig(t)
		err := r.mount(t.Context(), change(r))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		r.expectFile(false)
	}
}

func TestASourceThatIsNoExportIsRefusedBeforeAnyProcess(t *testing.T) {
	for want, s := range map[string]Source{
		`server "-oexec=/x"`:    {Server: "-oexec=/x", Path: "/data"},
		`server "-oro"`:         {Server: "-oro", Path: "/data"},
		`server "a b"`:          {Server: "a b", Path: "/data"},
		`server "a\nb"`:         {Server: "a\nb", Path: "/data"},
		`server "a,b"`:          {Server: "a,b", Path: "/data"},
		`server "LABEL=x"`:      {Server: "LABEL=x", Path: "/data"},
		`server "[10.0.0.1]"`:   {Server: "[10.0.0.1]", Path: "/data"},
		`server "fe80::1%a/b"`:  {Server: "fe80::1%a/b", Path: "/data"},
		`server ""`:             {Path: "/data"},
		`path "data"`:           {Server: "a", Path: "data"},
		`path "/a\n/b"`:         {Server: "a", Path: "/a\n/b"},
		"path \"/aaa":           {Server: "a", Path: "/" + strings.Repeat("a", maxPathBytes)},
		`mount options "a\x00"`: {Server: "a", Path: "/data", Options: []string{"a\x00"}},
	} {
		r := newRig(t)
		if err := r.mount(t.Context(), s); !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if got := r.server.Mounts(); len(got) > 0 {
			t.Errorf("%q was mounted: %q", want, got)
		}
	}
	for _, server := range []string{"a", "10.0.0.1", "fd00::1", "[fd00::1]", "fe80::1%eth0", "a_b.example.com."} {
		if err := (Source{Server: server, Path: "/"}).check(); err != nil {
			t.Error(err)
		}
	}
}

// A mount whose process is killed after the mount is there: the volume is set up.
func TestAMountThatIsThereCountsWhateverItsProcessDoes(t *testing.T) {
	r := newRig(t)
	r.server.SetStuck(true)
	r.Options.MountTimeout = 500 * time.Millisecond
	err := r.mount(t.Context(), data)
	if mounted, unread := mounts.At(r.target); unread != nil || (err == nil) != mounted {
		t.Fatalf("got %v, and mounted is %v, %v", err, mounted, unread) // the loaded machine may not even have begun
	}
	r.server.SetStuck(false)
	r.Options.MountTimeout = time.Minute
	must.OK(t, r.mount(t.Context(), data))
	r.expectFile(true)
	must.OK(t, r.Unmount(t.Context(), r.target))
	r.expectFile(false)
}

func TestAMountEndsWithItsContextAndWithItsChildren(t *testing.T) {
	r := newRig(t)
	r.server.SetAway(true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.mount(ctx, data) }()
	must.Until(t, time.Minute, "the mount hangs", r.server.Hung)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left := r.sleeping(); len(left) > 0 {
		t.Errorf("left are processes %q", left)
	}
	if err := r.mount(ctx, data); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.server.SetAway(false)
	must.OK(t, r.mount(t.Context(), data))
	r.expectFile(true)
}

// sleeping returns the processes of this test that a hung server has left.
func (r *rig) sleeping() (left []string) {
	r.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	must.OK(r.t, err)
	for _, path := range all {
		comm, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
		env, _ := os.ReadFile(path)
		if strings.TrimSpace(string(comm)) == "sleep" && strings.Contains(string(env), "FAKENFS="+r.server.Dir) {
			left = append(left, path)
		}
	}
	return left
}

func TestAnUnmountWhoseServerIsAwayIsForced(t *testing.T) {
	r := newRig(t)
	must.OK(t, r.mount(t.Context(), data))
	r.server.SetAway(true)
	r.Options.UnmountTimeout = 100 * time.Millisecond
	must.OK(t, r.Unmount(t.Context(), r.target))
	r.expectFile(false)
	got := r.server.Umounts() // on a loaded machine the first one is killed before it notes anything
	if !strings.HasPrefix(got[len(got)-1], "--force --no-canonicalize -- ") {
		t.Errorf("unmounts %q", got)
	}
}

// A process in a system call does not end when it is killed. Until it has ended no other one of its kind begins.
func TestAProcessThatDoesNotEndIsNotStartedAgain(t *testing.T) {
	r := newRig(t)
	must.OK(t, r.mount(t.Context(), data))
	r.server.SetAway(true)
	var survived []int
	r.Runs.Kill = func(pid int) { survived = append(survived, pid) }
	r.Runs.KillTimeout = time.Millisecond
	r.Options.UnmountTimeout = time.Millisecond
	must.OK(t, r.Unmount(t.Context(), r.target)) // by force
	if len(survived) != 1 {
		t.Fatalf("killed %v", survived)
	}
	r.Options.MountTimeout = time.Millisecond
	for range 3 {
		if err := r.mount(t.Context(), data); !errors.Is(err, errHangs) {
			t.Errorf("got %v", err)
		}
	}
	if len(survived) != 2 {
		t.Errorf("killed %v", survived)
	}
	for _, pid := range survived {
		must.OK(t, unix.Kill(-pid, unix.SIGKILL))
	}
}

func TestABusyExportStays(t *testing.T) {
	r := newRig(t)
	must.OK(t, r.mount(t.Context(), data))
	f, err := os.Open(filepath.Join(r.target, "file"))
	must.OK(t, err)
	if err := r.Unmount(t.Context(), r.target); !errors.Is(err, unix.EBUSY) {
		t.Errorf("got %v", err)
	}
	r.expectFile(true)
	must.OK(t, f.Close())
	must.OK(t, r.Unmount(t.Context(), r.target))
	r.expectFile(false)
}

func TestAllMountsAtADirectoryAreUnmounted(t *testing.T) {
	r := newRig(t)
	must.OK(t, r.mount(t.Context(), data))
	must.OK(t, unix.Mount(r.server.Export("other"), r.target, "", unix.MS_BIND, ""))
	must.OK(t, r.Unmount(t.Context(), r.target))
	r.expectFile(false)
}
