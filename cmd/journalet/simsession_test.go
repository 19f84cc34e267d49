package main

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/terminal"
)

// The simulated runtime serves sessions, so that one can look around without root.
func TestSessionsOnASimulatedNode(t *testing.T) {
	root := simulatedNode(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {terminationGracePeriodSeconds: 1, "+
		"containers: [{name: main, image: busybox, command: [sh, -c, \"trap 'echo bye; exit 0' TERM; "+
		"while :; do echo tick 8080; sleep 0.2; done\"]}]}\n")
	cmd := func(args ...string) *exec.Cmd {
		return journalet(append([]string{args[0], "--root-dir", root}, args[1:]...)...)
	}
	for _, c := range []struct {
		args, out string
		code      int
	}{
		{"exec web -- echo hello", "hello\n", 0},
		{"exec web -- sh -c 'exit 9'", "command terminated with exit code 9\n", 9},
		{"exec web -- ps", "ps: this is not simulated\ncommand terminated with exit code 127\n", 127},
	} {
		args := strings.Fields(c.args)
		if i := strings.Index(c.args, "'"); i > 0 {
			args = append(strings.Fields(c.args[:i]), strings.Trim(c.args[i:], "'"))
		}
		x := cmd(args...)
		out, _ := x.CombinedOutput()
		if code := x.ProcessState.ExitCode(); string(out) != c.out || code != c.code {
			t.Errorf("%s: exit code %d, %q; want %d, %q", c.args, code, out, c.code, c.out)
		}
	}

	x := terminal.Run(t, cmd("exec", "-it", "web", "--", "sh"))
	x.Expect("/ # ")
	x.Type("echo in a terminal\r")
	x.Expect("\nin a terminal")
	x.Type("exit 4\r")
	x.Expect("command terminated with exit code 4")
	if code := x.End(); code != 4 {
		t.Errorf("exit code %d", code)
	}

	forward := cmd("port-forward", "web", ":8080")
	out, err := forward.StdoutPipe()
	must.OK(t, err)
	must.OK(t, forward.Start())
	t.Cleanup(func() { _ = forward.Process.Kill(); _ = forward.Wait() })
	var port int
	_, err = fmt.Fscanf(out, "Forwarding from 127.0.0.1:%d -> 8080\n", &port)
	must.OK(t, err)
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	must.OK(t, err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if want := "port 8080 of pod default/web-node-1, simulated\n"; err != nil || string(page) != want {
		t.Errorf("%q, %v; want %q", page, err, want)
	}

	attached := terminal.Run(t, cmd("attach", "web"))
	attached.Expect("tick")
	if code, _, errs := run(t.Context(), "restart", "web", "--root-dir", root); code != exitOK {
		t.Fatal(errs)
	}
	attached.Expect("bye")
	attached.End()
}
