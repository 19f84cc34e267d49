//go:build attack

package attack

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// Lines of a log that act on a terminal.
func TestLogLinesWithEscapeSequences(t *testing.T) {
	attack{
		begin: func(g *target) {
			script := `printf 'begin\033]0;owned\007\033[2J\033[8mhidden\r\n\302\233 31m end\n'; ` + node.Idle
			g.Put("escapes.yaml", node.Manifest(node.Pod("escapes", node.Image, script)))
			node.Eventually(t, settle, "the line to be shown", func() error {
				out, errs, code := g.CLI("logs", "escapes-"+g.Node)
				if code != 0 || !strings.Contains(out, "end") {
					return fmt.Errorf("exit code %d: %s%s", code, out, errs)
				}
				return nil
			})
			out := g.onTerminal("logs", "escapes-"+g.Node)
			if strings.ContainsAny(out, "\x1b\x07\u009b") || !strings.Contains(out, "hidden") {
				t.Errorf("on a terminal the log is %q", out)
			}
		},
		check: socketWorks,
	}.run(t)
}

// A termination message that acts on a terminal, and is no UTF-8. The status has it as a kubelet's has.
func TestTerminationMessageOfAnyBytes(t *testing.T) {
	attack{
		begin: func(g *target) {
			script := `printf 'begin\033[2J\302\233 31m\377 end' >/dev/termination-log; exit 1`
			g.put(node.Pod("attacker", node.Image, script))
			g.await("attacker", "restarted, with its message", func(p *corev1.Pod) bool {
				last := node.Container(p, "main").LastTerminationState.Terminated
				return last != nil && last.Message == "begin\x1b[2J\u009b 31m\ufffd end"
			})
		},
		restart: true,
		check:   socketWorks,
	}.run(t)
}

// onTerminal runs a command whose output is a terminal, and returns it.
func (g *target) onTerminal(args ...string) string {
	g.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must.OK(g.T, err)
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must.OK(g.T, err)
	must.OK(g.T, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must.OK(g.T, err)
	ctx, cancel := node.Bounded()
	defer cancel()
	cmd := exec.CommandContext(ctx, g.Program, append(args, "--root-dir", g.Root)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	must.OK(g.T, cmd.Start())
	must.OK(g.T, slave.Close())
	var out strings.Builder
	_, _ = io.Copy(&out, master) // ends with an error when the last descriptor of the terminal is closed
	_ = cmd.Wait()               // its output says how it ended
	return out.String()
}
