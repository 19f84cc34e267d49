//go:build reports

package reap_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/reap"
	"github.com/journalet/journalet/test/must"
)

const busybox = "docker.io/library/busybox:1.36"

// lab is a container on a real runtime and its processes.
type lab struct {
	t      *testing.T
	rt     runtimeapi.RuntimeServiceClient
	table  reap.Table
	id     string
	group  string
	reaper *reap.Reaper
}

// newLab starts a container at JOURNALET_TEST_CRI_ENDPOINT whose process 1 reaps what it inherits.
func newLab(t *testing.T, pid runtimeapi.NamespaceMode, table reap.Table) *lab {
	t.Helper()
	endpoint := os.Getenv("JOURNALET_TEST_CRI_ENDPOINT")
	if endpoint == "" {
		t.Fatal("JOURNALET_TEST_CRI_ENDPOINT is not set: run make reports")
	}
	conn, err := grpc.NewClient(endpoint, append(cri.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	l := &lab{t: t, rt: runtimeapi.NewRuntimeServiceClient(conn), table: table}
	ctx, spaces := context.Background(), &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: pid}
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "r", Namespace: "default", Uid: t.Name()}, LogDirectory: t.TempDir(),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    "/reap-" + strings.ToLower(t.Name()),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: spaces},
		},
	}
	pod, err := l.rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	must.OK(t, err)
	t.Cleanup(func() {
		_, err := l.rt.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.GetPodSandboxId()})
		must.OK(t, err)
	})
	created, err := l.rt.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: pod.GetPodSandboxId(), SandboxConfig: sandbox,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Image: &runtimeapi.ImageSpec{Image: busybox},
			Command: []string{"sh", "-c", "(setsid sleep 777 &); sleep 777 & while :; do sleep 1; done"},
			LogPath: "main.log",
			Linux: &runtimeapi.LinuxContainerConfig{
				SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: spaces},
			},
		},
	})
	must.OK(t, err)
	l.id = created.GetContainerId()
	_, err = l.rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: l.id})
	must.OK(t, err)
	l.reaper = l.run("one")
	l.place()
	return l
}

// run returns the Reaper of one run of an agent.
func (l *lab) run(name string) *reap.Reaper {
	return reap.New(reap.Options{Agent: "lab", Run: name, Runtime: l.rt, Table: l.table, Clock: clock.Real{}})
}

// place finds the container's cgroup by its first process.
func (l *lab) place() {
	for _, dir := range reap.NewMachine().Groups(l.id) {
		if pids, err := l.table.Members(dir, false); err == nil && len(pids) > 0 {
			var aerr error
			l.group, aerr = l.table.Group(pids[0])
			must.OK(l.t, aerr)
			return
		}
	}
	l.t.Fatal("the container has no cgroup")
}

// count returns how many processes of the container have these arguments.
func (l *lab) count(command ...string) (n int) {
	pids, err := l.table.Members(l.group, true)
	must.OK(l.t, err)
	for _, pid := range pids {
		if args, err := l.table.Command(pid); err == nil && slices.Equal(args, command) {
			n++
		}
	}
	return n
}

// groups returns the names of sessions' cgroups.
func (l *lab) groups() (out []string) {
	for _, dir := range l.table.Groups("journalet-lab-") {
		if strings.HasPrefix(dir, l.group) {
			out = append(out, filepath.Base(dir))
		}
	}
	return out
}

// scripts are ways of a shell to leave sleep 888 behind.
var scripts = map[string]string{
	"fork":                "sleep 888; true",
	"exec":                "exec sleep 888",
	"ignores signals":     "trap '' TERM HUP INT; sleep 888; sleep 888; true",
	"setsid":              "setsid sleep 888; true",
	"double fork":         "(sleep 888 &); sleep 100; true",
	"many":                "for i in 1 2 3 4 5 6 7 8; do (sleep 888 &); done; wait; sleep 100; true",
	"forks without pause": "f() { while :; do sleep 888 & sleep 0.01; done; }; f & f & sleep 100; true",
}

// detached are such that nothing leads to what they have left, a moment after their begin.
var detached = map[string]string{
	"background":      "sleep 888 & exit 0",
	"daemon":          "(setsid sh -c 'sleep 888 & exit 0' >/dev/null 2>&1 </dev/null &); sleep 100; true",
	"orphaned daemon": "(setsid sh -c 'sleep 888 & exit 0' &); exit 0",
}

// tables are the ways to find processes that a machine may offer.
var tables = map[string]func() reap.Table{
	"unified":       func() reap.Table { return reap.NewMachine() },
	"pids of v1":    func() reap.Table { return reap.NewMachineOf("pids") },
	"without group": func() reap.Table { return noGroups{reap.NewMachine()} },
}

// noGroups refuses cgroups of sessions.
type noGroups struct{ reap.Table }

func (noGroups) Create(string) error { return os.ErrPermission }

// leaves runs a script that times out, and returns how many processes more there are after it.
func (l *lab) leaves(script string) int {
	before := l.count("sleep", "888")
	_, err := l.reaper.Exec(l.t.Context(), l.rt, l.id, []string{"sh", "-c", script}, time.Second, reap.Kind{Single: true})
	if code := status.Code(err); code != codes.DeadlineExceeded {
		l.t.Errorf("%s: %v, want a timeout", script, err)
	}
	return l.count("sleep", "888") - before
}

func TestLabNothingIsLeftOfACommandThatTimesOut(t *testing.T) {
	for how, table := range tables {
		t.Run(how, func(t *testing.T) {
			l := newLab(t, runtimeapi.NamespaceMode_CONTAINER, table())
			for name, script := range scripts {
				if n := l.leaves(script); n > 0 {
					t.Errorf("%s: %d processes are left", name, n)
				}
				if n := l.count("sleep", "777"); n != 2 {
					t.Fatalf("%s: %d processes of the application, want 2", name, n)
				}
			}
			if left := l.groups(); len(left) > 0 {
				t.Errorf("cgroups of sessions are left: %v", left)
			}
		})
	}
}

// rounds is how often a machine that is busy with other tests may see a command only after it has detached itself.
const rounds = 5

func TestLabNothingIsLeftOfACommandThatDetachesItself(t *testing.T) {
	l := newLab(t, runtimeapi.NamespaceMode_CONTAINER, reap.NewMachine())
	for name, script := range detached {
		n := 1
		for round := 0; n > 0 && round < rounds; round++ {
			n = l.leaves(script)
		}
		if n > 0 {
			t.Errorf("%s: a process is left each time", name)
		}
	}
}

func TestLabTheApplicationStaysInTheHostsNamespace(t *testing.T) {
	l := newLab(t, runtimeapi.NamespaceMode_NODE, reap.NewMachine())
	n := 1
	for round := 0; n > 0 && round < rounds; round++ {
		n = l.leaves(scripts["setsid"])
	}
	if n > 0 {
		t.Error("a process is left each time")
	}
	if n := l.count("sleep", "777"); n != 2 {
		t.Errorf("%d processes of the application, want 2", n)
	}
}

func TestLabWhatRunsInTheBackgroundOnPurposeStays(t *testing.T) {
	for how, table := range tables {
		t.Run(how, func(t *testing.T) {
			l := newLab(t, runtimeapi.NamespaceMode_CONTAINER, table())
			_, err := l.reaper.Exec(t.Context(), l.rt, l.id,
				[]string{"sh", "-c", "sleep 888 >/dev/null 2>&1 & sleep 0.2; exit 0"}, 10*time.Second, reap.Kind{Always: true})
			must.OK(t, err)
			if n := l.count("sleep", "888"); n != 1 {
				t.Errorf("%d processes are left, want 1", n)
			}
			if left := l.groups(); len(left) > 0 {
				t.Errorf("cgroups of sessions are left: %v", left)
			}
		})
	}
}

func TestLabWhatAKilledAgentLeftIsEndedByTheNextRun(t *testing.T) {
	l := newLab(t, runtimeapi.NamespaceMode_CONTAINER, reap.NewMachine())
	ctx, cancel := context.WithCancel(t.Context())
	s, err := l.reaper.Begin(ctx, l.id, []string{"sh", "-c", "sleep 888; true"}, reap.Kind{Always: true})
	must.OK(t, err)
	ended := make(chan struct{})
	go func() { // what a killed agent has begun
		defer close(ended)
		_, _ = l.rt.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
			ContainerId: l.id, Cmd: []string{"sh", "-c", "setsid sleep 888; true"},
		})
	}()
	for found := false; !found; found, _ = s.Known() {
	}
	for l.count("sleep", "888") == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the command does not run")
		}
	}
	cancel()
	<-ended
	l.run("one").Sweep(t.Context())
	if n := l.count("sleep", "888"); n != 1 {
		t.Fatalf("%d processes while the run lasts, want 1", n)
	}
	l.run("two").Sweep(t.Context())
	if n, left := l.count("sleep", "888"), l.groups(); n != 0 || len(left) > 0 {
		t.Errorf("%d processes and the cgroups %v are left", n, left)
	}
}

func TestLabAHookWhoseOutputStaysOpenEnds(t *testing.T) {
	l := newLab(t, runtimeapi.NamespaceMode_CONTAINER, reap.NewMachine())
	var resp *runtimeapi.ExecSyncResponse
	err, before := reap.ErrLost, 0
	for round := 0; errors.Is(err, reap.ErrLost) && round < rounds; round++ {
		before = l.count("sleep", "888")
		resp, err = l.reaper.Exec(t.Context(), l.rt, l.id, []string{"sh", "-c", "sleep 888 & exit 3"}, 0,
			reap.Kind{Always: true, Drain: true})
	}
	must.OK(t, err)
	if n := l.count("sleep", "888") - before; n != 0 || resp.GetExitCode() != 3 {
		t.Errorf("exit code %d, %d processes are left", resp.GetExitCode(), n)
	}
}
