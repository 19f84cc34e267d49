package sim

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestCommandLinesDoWhatTheySay(t *testing.T) {
	pid1 := &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{
		NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER},
	}}
	for _, c := range []struct {
		name   string
		argv   []string
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
		{name: "script", argv: []string{"sh", "-c", "echo a; sleep 2; echo b && exit 3"}, run: 2 * time.Second, code: 3, out: "a\nb\n", ignore: true},
		{name: "joined flags", argv: []string{"/bin/bash", "-ec", "false; echo never"}, code: 1, ignore: true},
		{name: "errexit by set", argv: []string{"sh", "-c", "set -e\nfalse\necho never"}, code: 1, ignore: true},
		{name: "or", argv: []string{"sh", "-c", "false || echo saved"}, out: "saved\n", ignore: true},
		{name: "if", argv: []string{"sh", "-c", "if [ -f /x ]; then exit 1; elif [ a = a ]; then exit 2; else exit 3; fi"}, code: 2, ignore: true},
		{name: "files", argv: []string{"sh", "-c", "touch /tmp/x; sleep 1; rm -f /tmp/x; cat /tmp/x"}, run: time.Second, code: 1, out: "cat: can't open '/tmp/x': No such file or directory\n", ignore: true},
		{name: "for", argv: []string{"sh", "-c", "for i in 1 2 3; do echo $i; sleep 1; done"}, run: 3 * time.Second, out: "1\n2\n3\n", ignore: true},
		{name: "counter", argv: []string{"sh", "-c", `while [ ! -f /done ]; do sleep 1; echo > /done; done`}, run: time.Second, ignore: true},
		{name: "quotes", argv: []string{"sh", "-c", `echo 'a  $X' "b  $X" c\ d`}, out: "a  $X b  y z c d\n", ignore: true},
		{name: "arguments", argv: []string{"sh", "-c", `echo $0 $1`, "zero", "one"}, out: "zero one\n", ignore: true},
		{name: "endless loop", argv: []string{"sh", "-c", "while true; do :; done"}, run: Forever, ignore: true},
		{name: "background", argv: []string{"sh", "-c", "sleep 5 & sleep 1; wait; exit 4"}, run: 5 * time.Second, code: 4, ignore: true},
		{name: "exec", argv: []string{"sh", "-c", "exec sleep 3; echo never"}, run: 3 * time.Second, ignore: true},
		{name: "nested shell", argv: []string{"sh", "-c", "sh -c 'sleep 1; exit 2' || exit 9"}, run: time.Second, code: 9, ignore: true},
		{name: "pipe", argv: []string{"sh", "-c", "echo a | cat"}, run: Forever, ignore: true},
		{name: "substitution", argv: []string{"sh", "-c", "echo $(date)"}, run: Forever, ignore: true},
		{name: "unknown in a script", argv: []string{"sh", "-c", "echo go; ./server --port 80"}, run: Forever, out: "go\n", ignore: true},
		{name: "broken", argv: []string{"sh", "-c", "if true; then 'oops"}, run: Forever, ignore: true},
		{name: "trap that ignores", argv: []string{"sh", "-c", "trap '' TERM; sleep 9"}, run: 9 * time.Second, ignore: true},
		{name: "deep", argv: []string{"sh", "-c", strings.Repeat("( ", 1000)}, run: Forever, ignore: true},
	} {
		t.Run(c.name, func(t *testing.T) {
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
				t.Errorf("runs %s, exits %d, says %q, ignores TERM: %t", b.RunFor, b.ExitCode, out.String(), b.IgnoreTERM)
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
		turn   time.Duration
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
			if err := g.clock.WaitPending(g.ctx, c.timers); err != nil {
				t.Fatal(err)
			}
			g.clock.Advance(c.turn)
			wantCode(t, <-done, codes.OK)
			wantExit(t, g.status(t, id), c.code, "Error")
		})
	}
}

func TestProcessesDieBehindTheAgentsBack(t *testing.T) {
	g := newRig(t, Options{})
	id := g.running(t, "a", "sleep", "60")
	if err := g.Kill(id, 2); err != nil {
		t.Fatal(err)
	}
	wantExit(t, g.status(t, id), 2, "Error")
	wantCode(t, g.Kill(id, 2), codes.FailedPrecondition)
	wantCode(t, g.Kill("nothing", 2), codes.NotFound)

	id = g.running(t, "b", "sleep", "60")
	if err := g.KillOOM(id); err != nil {
		t.Fatal(err)
	}
	wantExit(t, g.status(t, id), 137, "OOMKilled")

	id = g.running(t, "c", "sleep", "60")
	if err := g.MarkUnknown(id); err != nil {
		t.Fatal(err)
	}
	if _, err := g.cri.StopContainer(g.ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: 5}); err != nil {
		t.Fatal(err)
	}
	wantExit(t, g.status(t, id), 255, "Unknown")
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

func TestManualClockFiresInOrder(t *testing.T) {
	c := NewManualClock(epoch)
	var fired []string
	note := func(s string) func() {
		return func() { fired = append(fired, s+"@"+c.Now().Sub(epoch).String()) }
	}
	c.AfterFunc(2*time.Second, note("b"))
	c.AfterFunc(time.Second, func() { note("a")(); c.AfterFunc(time.Second, note("c")) })
	stopped := c.AfterFunc(time.Second, note("never"))
	if d, ok := c.Next(); !ok || d != time.Second {
		t.Errorf("Next says %s, %t", d, ok)
	}
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop must be true once")
	}
	c.Advance(time.Minute)
	if got := strings.Join(fired, " "); got != "a@1s b@2s c@2s" {
		t.Errorf("fired %q", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.WaitPending(ctx, 1); err == nil {
		t.Error("WaitPending returned with no timer armed")
	}
}

// FuzzInterpret looks for scripts that break the interpreter: it must neither panic nor run away.
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
