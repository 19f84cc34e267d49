package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/replay"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/simulation"
)

// simulated returns the journal of a simulated node. Tests change copies of it.
var simulated = sync.OnceValue(func() *history.Memory {
	return simulation.Run(simulation.PlanOf(160), simulation.Options{}).History()
})

// storeBelow stores a journal below a root directory.
func storeBelow(t *testing.T, root string, m *history.Memory) {
	t.Helper()
	must.OK(t, simulation.Store(t.Context(), m, filepath.Join(root, busDir)))
}

// incarnations returns a name that several pods of a journal have had, and the UID of a pod whose name is its own.
func incarnations(t *testing.T, m *history.Memory) (several, uid string) {
	t.Helper()
	uids := map[string][]string{}
	for _, rec := range m.Records {
		for _, e := range messages.Events(rec) {
			p := e.GetPodUpdated().GetPod()
			if p.GetUid() != "" && !slices.Contains(uids[p.GetName()], p.GetUid()) {
				uids[p.GetName()] = append(uids[p.GetName()], p.GetUid())
			}
		}
	}
	for name, found := range uids {
		if len(found) > 1 {
			several = name
		}
		uid = found[0]
	}
	if several == "" {
		t.Fatal("no name has several pods")
	}
	return several, uid
}

func TestReplayAnswersFromTheFilesOfAJournal(t *testing.T) {
	root, m := t.TempDir(), simulated()
	storeBelow(t, root, m)
	several, uid := incarnations(t, m)
	fewer := filepath.Join(t.TempDir(), "kubelet.yaml")
	must.OK(t, os.WriteFile(fewer, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
		"maxPods: 1\n"), 0o600))
	last := m.Records[len(m.Records)-1]
	for name, c := range map[string]struct {
		args []string
		code int
		want string // on either output
	}{
		"check":           {[]string{"--check"}, exitOK, "Every decision is as recorded."},
		"state":           {[]string{"--to", "40", "--actor", "node/0"}, exitOK, "node/0 after record 40 ("},
		"state at a time": {[]string{"--to", "1h", "--actor", "node/0"}, exitOK, "node/0 after record "},
		"actors":          {[]string{"--to", fmt.Sprint(last.GetSeq())}, exitOK, "runtime/0"},
		"difference":      {[]string{"--diff", "10", "60", "--actor", "node/0"}, exitOK, "fields that changed"},
		"same":            {[]string{"--diff", "60", "60", "--actor", "node/0"}, exitOK, "fields that changed: 0"},
		"several pods":    {[]string{"--to", "90", "--pod", several}, exitUsage, "choose one with --pod UID"},
		"no pod":          {[]string{"--to", "90", "--pod", "nobody"}, exitNotFound, "names no such pod"},
		"no actor":        {[]string{"--to", "1", "--actor", "pod/" + uid}, exitNotFound, "there is no such actor"},
		"beyond the end":  {[]string{"--to", "99999999", "--actor", "node/0"}, exitNotFound, "the last one is"},
		"record 0":        {[]string{"--to", "0", "--actor", "node/0"}, exitUsage, "there is no record 0"},
		"no moment":       {[]string{"--to", "yesterday"}, exitUsage, "neither the number of a record"},
		"other limit":     {[]string{"--with-config", fewer}, exitDiverged, "max_pods: 1, was "},
		"other node":      {[]string{"--with-allocatable", "cpu=1"}, exitDiverged, "admission_decided"},
		"no amount":       {[]string{"--with-allocatable", "cpu"}, exitUsage, "want cpu=4"},
		"no config":       {[]string{"--with-config", fewer + ".none"}, exitUsage, "no such file"},
		"no mode":         {nil, exitUsage, "choose one of"},
		"two modes":       {[]string{"--check", "--to", "3"}, exitUsage, "choose one of"},
		"half a diff":     {[]string{"--diff", "3", "--actor", "node/0"}, exitUsage, "takes two moments"},
		"no such kind":    {[]string{"--to", "3", "--actor", "nodes/0"}, exitUsage, "is not an actor"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t.Context(), append([]string{"replay", "--root-dir", root}, c.args...)...)
			if code != c.code || !strings.Contains(out+errs, c.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s%s", code, c.code, c.want, out, errs)
			}
		})
	}
}

func TestReplayNamesTheFirstDivergence(t *testing.T) {
	m := *simulated()
	m.Records = slices.Clone(m.Records)
	var changed *journaletv1.Record
	for i, rec := range m.Records {
		rec = proto.CloneOf(rec)
		for _, e := range rec.GetStep().GetDecisions() {
			if start := e.GetCallRequested().GetStartContainer(); start != nil && changed == nil {
				start.Attempt += 7
				changed, m.Records[i] = rec, rec
			}
		}
	}
	root := t.TempDir()
	storeBelow(t, root, &m)
	code, out, _ := run(t.Context(), "replay", "--check", "--root-dir", root)
	want := fmt.Sprintf("record %d, %s", changed.GetSeq(), messages.RefOf(changed.GetActor()))
	if code != exitDiverged || !strings.Contains(out, want) || !strings.Contains(out, "start_container.attempt: ") {
		t.Errorf("exit code %d, want %d and %q:\n%s", code, exitDiverged, want, out)
	}
	code, out, _ = run(t.Context(), "replay", "--check", "--root-dir", root, "-o", "json")
	var r replay.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitDiverged || r.Diverged == 0 ||
		r.Divergences[0].Seq != changed.GetSeq() {
		t.Errorf("exit code %d, %v:\n%s", code, err, out)
	}
}

// TestReplayTouchesNothing replays a journal on a read-only disk, in a process that the kernel kills if it asks for a
// socket or for another program.
func TestReplayTouchesNothing(t *testing.T) {
	if dir := os.Getenv("JOURNALET_TEST_DISK"); dir != "" {
		replayTouchingNothing(t, dir)
		return
	}
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "JOURNALET_TEST_DISK="+t.TempDir())
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
}

func replayTouchingNothing(t *testing.T, dir string) {
	must.OK(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must.OK(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=128m"))
	storeBelow(t, dir, simulated())
	before := fingerprints(t, dir)
	must.OK(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	forbidSockets(t)
	for _, args := range [][]string{
		{"--check"}, {"--to", "100"}, {"--to", "100", "--actor", "runtime/0"}, {"--diff", "50", "100", "--actor", "node/0"},
	} {
		if code, out, errs := run(t.Context(), append([]string{"replay", "--root-dir", dir}, args...)...); code != exitOK {
			t.Errorf("%v: exit code %d:\n%s%s", args, code, out, errs)
		}
	}
	if after := fingerprints(t, dir); !slices.Equal(before, after) {
		t.Errorf("the files are:\n%s\nand were:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
}

// fingerprints returns path, time of the last change and hash of all files below dir.
func fingerprints(t *testing.T, dir string) (all []string) {
	t.Helper()
	must.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		all = append(all, fmt.Sprintf("%s %v %x", path, info.ModTime(), sha256.Sum256(b)))
		return err
	}))
	return all
}

// forbidSockets has the kernel kill the process if a thread calls socket, execve or execveat.
func forbidSockets(t *testing.T) {
	t.Helper()
	const loadNumber = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS // at offset 0: the number of the call
	program := []unix.SockFilter{{Code: loadNumber}}
	for _, nr := range []uint32{unix.SYS_SOCKET, unix.SYS_EXECVE, unix.SYS_EXECVEAT} {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: nr},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	runtime.LockOSThread() // the second call gives all threads what the first one gives this one
	defer runtime.UnlockOSThread()
	must.OK(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		t.Fatal(errno)
	}
}
