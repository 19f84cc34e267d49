//go:build integration

package integration

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
	"github.com/journalet/journalet/test/terminal"
)

// command returns a command of the program on an agent's socket.
func command(a *agent, args ...string) *exec.Cmd {
	at := []string{args[0], "--root-dir", a.Root}
	return exec.Command(a.Program, append(at, args[1:]...)...)
}

// aShop starts a pod with an echo server on two ports, and a container with a terminal.
func aShop(t *testing.T) (*agent, *corev1.Pod) {
	t.Helper()
	shell := node.Shell("shell", node.Image, "echo ready; while read x; do echo \"got <$x>\"; done; echo left")
	shell.Stdin, shell.TTY = true, true
	p := node.Pod("shop", node.Image, "nc -ll -p 8080 -e cat & nc -ll -p 9090 -e cat & "+
		"until cat /proc/net/tcp* | grep -q ':1F90 ' && cat /proc/net/tcp* | grep -q ':2382 '; do sleep 0.1; done; "+
		"echo listens; "+node.Idle, node.Scratch)
	p.Spec.Containers = append(p.Spec.Containers, shell)
	a := started(t, map[string]string{"shop.yaml": node.Manifest(p)})
	t.Cleanup(func() { a.Remove("shop.yaml"); a.gone() })
	shop := a.pod("shop", "running", func(p *corev1.Pod) bool {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running == nil {
				return false
			}
		}
		return len(p.Status.ContainerStatuses) == 2
	})
	a.logged(shop, "main", "listens")
	return a, shop
}

func TestSessionsInAPodAsAPersonUsesThem(t *testing.T) {
	a, p := aShop(t)
	t.Run("exec in a terminal", func(t *testing.T) {
		// Not a shell with a prompt: busybox asks the terminal for its size, and reads what is typed as the answer.
		x := terminal.Run(t, command(a, "exec", "-it", "shop", "--", "sh", "-c",
			"trap 'echo caught; exit 33' INT; trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done"))
		x.Expect("Defaulted container \"main\" out of: main, shell")
		x.Expect("ready")
		if !x.Raw() {
			t.Error("the terminal is not raw")
		}
		x.Resize(123, 45)
		x.Expect("45 123\r\n")
		x.Type("\x03")
		x.Expect("caught")
		x.Expect("command terminated with exit code 33")
		if code := x.End(); code != 33 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("end of input", func(t *testing.T) {
		x := terminal.Run(t, command(a, "exec", "-q", "-it", "shop", "--", "cat"))
		x.Type("line\r")
		x.Expect("line\r\nline\r\n")
		x.Type("\x04")
		if code := x.End(); code != 0 {
			t.Errorf("exit code %d: %s", code, x.Text())
		}
	})
	t.Run("attach", func(t *testing.T) {
		x := terminal.Run(t, command(a, "attach", "-it", "pod/"+p.Name, "-c", "shell"))
		x.Expect("press enter")
		x.Type("one\r")
		x.Expect("got <one>")
		x.Type("\x10\x11")
		x.Expect("session ended")
		if code := x.End(); code != 0 {
			t.Errorf("exit code %d: %s", code, x.Text())
		}
		if now := a.podNow("shop"); now.Status.ContainerStatuses[1].RestartCount != 0 {
			t.Error("detaching has ended the container")
		}
	})
	t.Run("errors", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"exec", "shop", "--", "no-such-program"}, 1, "no-such-program"},
			{[]string{"exec", "shop", "-c", "none", "--", "true"}, 6, "it has main, shell"},
			{[]string{"exec", "shpo", "--", "true"}, 6, "did you mean default/" + p.Name},
			{[]string{"exec", "../default/shop", "--", "true"}, 6, "not found"},
		} {
			out, err := command(a, c.args...).CombinedOutput()
			if code := exitOf(err); code != c.code || !strings.Contains(string(out), c.want) {
				t.Errorf("%q: exit code %d, %s", c.args, code, out)
			}
		}
	})
	a.journal.wait(t, 0, settle, "the sessions", func(f messages.Flat) bool {
		s := event(t, f).GetSessionStarted()
		if s.GetCommand() == "no-such-program" && s.GetArguments() > 0 {
			t.Errorf("arguments of %v", s)
		}
		return s.GetUid() == string(p.UID) && s.GetCommand() == "sh" && s.GetTty()
	})
}

// exitOf returns the exit code of a command, -1 if it did not run.
func exitOf(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // exec returns it as it is
		return exit.ExitCode()
	}
	return -1
}

func TestBytesOfASessionAreNotChanged(t *testing.T) {
	a, _ := aShop(t)
	data := make([]byte, 10<<20)
	_, _ = rand.Read(data)
	cmd := command(a, "exec", "-i", "shop", "--", "cat")
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil || !bytes.Equal(out, data) {
		t.Errorf("%v, %d bytes of %d", err, len(out), len(data))
	}
	const sessions = 100
	var all sync.WaitGroup
	failed := make(chan string, sessions)
	begun := time.Now()
	for i := range sessions {
		all.Go(func() {
			cmd := command(a, "exec", "-q", "-i", "shop", "--", "sh", "-c", fmt.Sprintf("cat; exit %d", i))
			text := fmt.Sprintf("session %d", i)
			cmd.Stdin = strings.NewReader(text)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if code := exitOf(cmd.Run()); code != i || out.String() != text {
				failed <- fmt.Sprintf("%s: exit code %d, %q, %s", text, code, &out, &errs)
			}
		})
	}
	all.Wait()
	close(failed)
	for f := range failed {
		t.Error(f)
	}
	t.Logf("%d sessions at once in %s", sessions, time.Since(begun))
}

func TestPortsOfAPodAreForwarded(t *testing.T) {
	a, p := aShop(t)
	x := terminal.Run(t, command(a, "port-forward", "shop", ":8080", ":9090", ":7"))
	var addresses []string
	for _, port := range []string{"8080", "9090", "7"} {
		for _, host := range []string{"127.0.0.1", "[::1]"} {
			x.Expect("Forwarding from " + host)
			x.Expect("-> " + port + "\r\n")
			m := regexp.MustCompile("Forwarding (?:from )" + regexp.QuoteMeta(host) + `:(\d+) -> ` + port + "\r").
				FindStringSubmatch(x.Text())
			addresses = append(addresses, host+":"+m[1])
		}
	}
	big := make([]byte, 4<<20)
	_, _ = rand.Read(big)
	talk := func(address string) []byte {
		c, err := net.Dial("tcp", address)
		must.OK(t, err)
		defer c.Close()
		go func() { _, _ = c.Write(big) }()
		must.OK(t, c.SetReadDeadline(time.Now().Add(settle)))
		got := make([]byte, len(big))
		n, _ := io.ReadFull(c, got)
		return got[:n]
	}
	for _, refused := range addresses[4:] {
		if got := talk(refused); len(got) > 0 {
			t.Errorf("%s: %d bytes", refused, len(got))
		}
		x.Expect("journalet: port 7: ")
	}
	for _, address := range addresses[:4] {
		if got := talk(address); !bytes.Equal(got, big) {
			t.Errorf("%s: %d bytes of %d", address, len(got), len(big))
		}
	}
	a.Remove("shop.yaml")
	a.gone()
	a.Put("shop.yaml", "") // for the end of the test
	talk(addresses[0])
	x.Expect("lost the connection to pod default/" + p.Name)
	if code := x.End(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

func TestFilesAreCopiedIntoAPodAndOutOfIt(t *testing.T) {
	a, _ := aShop(t)
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	for i := range 200 {
		sub := filepath.Join(src, fmt.Sprintf("d%d", i%10), strings.Repeat("long-name-", 15))
		must.OK(t, os.MkdirAll(sub, 0o755))
		must.OK(t, os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, i), 0o644))
	}
	big := make([]byte, 64<<20)
	_, _ = rand.Read(big)
	must.OK(t, os.WriteFile(filepath.Join(src, "big"), big, 0o755))
	for _, args := range [][]string{
		{"cp", src, "shop:/v/new"}, {"cp", "shop:/v/new", filepath.Join(dir, "back")},
		{"cp", "default/shop:/v/new/big", dir, "-c", "main"},
		{"cp", "shop:/v/new/.", filepath.Join(dir, "content"), "--retries", "3", "--no-preserve"},
	} {
		x := terminal.Run(t, command(a, args...))
		if code := x.End(); code != 0 {
			t.Fatalf("%q: exit code %d, %s", args, code, x.Text())
		}
	}
	must.OK(t, os.Mkdir(filepath.Join(dir, "one"), 0o755))
	must.OK(t, os.Rename(filepath.Join(dir, "big"), filepath.Join(dir, "one", "big")))
	for _, pair := range [][2]string{{"src", "back"}, {"src", "content"}, {"src/big", "one/big"}} {
		out, err := exec.Command("diff", "-r", filepath.Join(dir, pair[0]), filepath.Join(dir, pair[1])).CombinedOutput()
		if err != nil {
			t.Errorf("%s and %s differ: %s", pair[0], pair[1], out)
		}
	}
}
