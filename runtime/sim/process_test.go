package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
)

func TestCommandLinesDoWhatTheySay(t *testing.T) {
	pid1 := &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{
		NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER},
	}}
	for _, c := range []struct {
		name   string
		argv   []string
		script string // instead of argv, for a shell, which ignores TERM
		run    time.Duration
		code   int32
		out    string
		ignore bool
	}{
		{name: "empty", run: Forever},
		{name: "true", argv: []string{"/bin/true"}},
		{name: "false", argv: []string{"false"}, code: 1},
		{name: "sleep", argv: []string{"sleep", "1.5"}, run: 1500 * time.Millisecond, ignore: true},
		{name: "sleep with unit", argv: []string{"busybox", "sleep", "2m"}, run: 2 * time.Minute, ignore: true},
		{name: "sleep forever", argv: []string{"sleep", "infinity"}, run: Forever, ignore: true},
		{name: "sleep of nothing", argv: []string{"sleep", ""}, code: 1, out: "sleep: invalid number ''\n", ignore: true},
		{name: "server", argv: []string{"nginx", "-g", "daemon off;"}, run: Forever},
		{name: "script", script: "echo a; sleep 2; echo b && exit 3", run: 2 * time.Second, code: 3, out: "a\nb\n"},
		{name: "joined flags", argv: []string{"/bin/bash", "-ec", "false; echo never"}, code: 1, ignore: true},
		{name: "errexit by set", script: "set -e\nfalse\necho never", code: 1},
		{name: "or", script: "false || echo saved", out: "saved\n"},
		{name: "if", script: "if [ -f /x ]; then exit 1; elif [ a = a ]; then exit 2; else exit 3; fi", code: 2},
		{name: "files", script: "touch /t/x; sleep 1; rm -f /t/x; cat /t/x", run: time.Second, code: 1,
			out: "cat: can't open '/t/x': No such file or directory\n"},
		{name: "for", script: "for i in 1 2 3; do echo $i; sleep 1; done", run: 3 * time.Second, out: "1\n2\n3\n"},
		{name: "counter", script: `while [ ! -f /done ]; do sleep 1; echo > /done; done`, run: time.Second},
		{name: "quotes", script: `echo 'a  $X' "b  $X" c\ d`, out: "a  $X b  y z c d\n"},
		{name: "arguments", argv: []string{"sh", "-c", `echo $0 $1`, "zero", "one"}, out: "zero one\n", ignore: true},
		{name: "endless loop", script: "while true; do :; done", run: Forever},
		{name: "background", script: "sleep 5 & sleep 1; wait; exit 4", run: 5 * time.Second, code: 4},
		{name: "exec", script: "exec sleep 3; echo never", run: 3 * time.Second},
		{name: "nested shell", script: "sh -c 'sleep 1; exit 2' || exit 9", run: time.Second, code: 9},
		{name: "errexit in a list", script: "set -e; ! true; false || echo a; (exit 5); echo never", code: 5, out: "a\n"},
		{name: "output of a job", script: "(sleep 2; echo b) & echo a; wait", run: 2 * time.Second, out: "a\nb\n"},
		{name: "subshell", script: "X=1; (X=2; exit 3); echo $X $?", out: "1 3\n"},
		{name: "output of a group", script: "{ echo a; echo b >&2; } > /x 2>&1; echo c; cat /x", out: "c\na\nb\n"},
		{name: "status of a condition", script: "if false; then :; else echo $?; fi", out: "1\n"},
		{name: "variables of one command", script: "X=1 sh -c 'echo $X'; echo $X", out: "1\ny z\n"},
		{name: "default and sum", script: "echo ${NONE:-none} $((1 + 2))", out: "none 3\n"},
		{name: "braces", script: "echo {1..1000000000}", run: Forever},
		{name: "the host's users", script: "echo ~root", out: "~root\n"},
		{name: "growing string", script: "X=x; while :; do X=$X$X; done", run: Forever},
		{name: "pipe", script: "echo a | cat", run: Forever},
		{name: "substitution", script: "echo $(date)", run: Forever},
		{name: "unknown in a script", script: "echo go; ./server --port 80", run: Forever, out: "go\n"},
		{name: "broken", script: "if true; then 'oops", run: Forever},
		{name: "trap that ignores", script: "trap '' TERM; sleep 9", run: 9 * time.Second},
		{name: "deep", script: strings.Repeat("( ", 1000), run: Forever},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.script != "" {
				c.argv, c.ignore = []string{"sh", "-c", c.script}, true
			}
			b := Interpret(&cri.ContainerConfig{
				Command: c.argv, Linux: pid1, Envs: []*cri.KeyValue{{Key: "X", Value: []byte("y z")}},
			})
			var out strings.Builder
			for _, e := range b.Effects {
				if e.File == "" {
					out.WriteString(e.Text)
				}
			}
			if b.RunFor != c.run || b.ExitCode != c.code || out.String() != c.out || b.IgnoreTERM != c.ignore {
				t.Errorf("runs %s, exits %d, prints %q, ignores TERM: %t", b.RunFor, b.ExitCode, out.String(), b.IgnoreTERM)
			}
		})
	}
}

func TestContainerEndsByTheClock(t *testing.T) {
	g := newRig(t, Options{})
	id := g.running(t, "a", "sh", "-c", "sleep 2; exit 1")
	g.clock.Advance(2*time.Second - 1)
	if st := g.status(t, id); st.GetState() != cri.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("it is %s before its time", st.GetState())
	}
	g.clock.Advance(1)
	st := g.status(t, id)
	wantExit(t, st, 1, "Error")
	if want := epoch.Add(2 * time.Second).UnixNano(); st.GetFinishedAt() != want {
		t.Errorf("finished at %d, want %d", st.GetFinishedAt(), want)
	}
}

func TestStopWaitsOutTheGraceByTheClock(t *testing.T) {
	quick := Behaviour{RunFor: Forever, OnTERM: &Behaviour{RunFor: 3 * time.Second, ExitCode: 9}}
	for name, c := range map[string]struct {
		b      Behaviour
		grace  time.Duration
		code   int32
		timers int
	}{
		"handler":  {quick, 3 * time.Second, 9, 2},
		"ignoring": {Behaviour{RunFor: Forever, IgnoreTERM: true}, 10 * time.Second, 137, 1},
		"slow":     {Behaviour{RunFor: Forever, OnTERM: &Behaviour{RunFor: time.Hour}}, 10 * time.Second, 137, 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Options{Behaviour: func(*cri.ContainerConfig) (Behaviour, bool) { return c.b, true }})
			id := g.running(t, "a")
			done := make(chan error, 1)
			go func() {
				_, err := g.cri.StopContainer(g.ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: 10})
				done <- err
			}()
			must.OK(t, g.clock.WaitPending(g.ctx, c.timers))
			g.clock.Advance(c.grace)
			wantCode(t, <-done, codes.OK)
			wantExit(t, g.status(t, id), c.code, "Error")
		})
	}
}

func TestProcessesDieBehindTheAgentsBack(t *testing.T) {
	g := newRig(t, Options{})
	id := g.running(t, "a", "sleep", "60")
	must.OK(t, g.Kill(id, 2))
	wantExit(t, g.status(t, id), 2, "Error")
	wantCode(t, g.Kill(id, 2), codes.FailedPrecondition)
	wantCode(t, g.Kill("nothing", 2), codes.NotFound)

	id = g.running(t, "b", "sleep", "60")
	must.OK(t, g.KillOOM(id))
	wantExit(t, g.status(t, id), 137, "OOMKilled")
}

func TestMemoryHogIsKilled(t *testing.T) {
	b := Interpret(&cri.ContainerConfig{
		Command: []string{"tail", "/dev/zero"},
		Linux:   &cri.LinuxContainerConfig{Resources: &cri.LinuxContainerResources{MemoryLimitInBytes: 1 << 20}},
	})
	if !b.OOM || b.RunFor <= 0 {
		t.Errorf("tail /dev/zero with a limit: %+v", b)
	}
}

func TestWritesStayInMemoryUnlessAllowed(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		dir := t.TempDir()
		r := New(Options{WriteMounts: allowed})
		config := &cri.ContainerConfig{
			Command: []string{"sh", "-c", "echo boom > /dev/termination-log; exit 1"},
			Mounts:  []*cri.Mount{{ContainerPath: "/dev/termination-log", HostPath: filepath.Join(dir, "log")}},
		}
		c := &container{config: config, files: fileSet{}, stopped: make(chan struct{})}
		c.state, c.process = cri.ContainerState_CONTAINER_RUNNING, &process{b: Interpret(config), began: time.Now()}
		r.mu.Lock()
		r.play(c)
		r.mu.Unlock()
		b, err := os.ReadFile(filepath.Join(dir, "log"))
		if allowed && (err != nil || string(b) != "boom\n") {
			t.Errorf("allowed, but the host's file holds %q (%v)", b, err)
		}
		if !allowed && !os.IsNotExist(err) {
			t.Errorf("not allowed, but the host's file holds %q", b)
		}
		r.Close()
	}
}

func TestSameSeedSameIDs(t *testing.T) {
	ids := func(seed uint64) string {
		g := newRig(t, Options{Seed: seed})
		return g.running(t, "a", "true") + g.running(t, "b", "true")
	}
	if one, again := ids(1), ids(1); one != again {
		t.Error("one seed gave two sets of ids")
	}
	if ids(1) == ids(2) {
		t.Error("two seeds gave one set of ids")
	}
}

// FuzzInterpret searches for scripts that break the interpreter: it must neither panic nor run away.
func FuzzInterpret(f *testing.F) {
	for _, s := range []string{
		"trap 'exit 1' TERM; while true; do sleep 1; done", `A=1 B="$A" env; echo ${A} $B > /x; cat /x >&2`,
		"if ! false; then (sleep 1 & wait); fi", "X=x; while :; do X=$X$X; done", "$A $A; A='b=c d=e'; $A", "sleep nan",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		b := Interpret(&cri.ContainerConfig{Command: []string{"sh", "-c", script}})
		total := 0
		for i, e := range b.Effects {
			total += len(e.Text)
			if e.After < 0 || i > 0 && e.After < b.Effects[i-1].After {
				t.Errorf("effect %d comes at %s, out of order", i, e.After)
			}
		}
		if total > maxShellBytes {
			t.Errorf("%d bytes of effects", total)
		}
	})
}
