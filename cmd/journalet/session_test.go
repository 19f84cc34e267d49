package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/journalet/journalet/test/fakekubelet"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/terminal"
)

// journalet returns a command line of ours as a process.
func journalet(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), commandEnv+"=1")
	return cmd
}

func TestTerminalOfACommandIsTheUsers(t *testing.T) {
	k := fakekubelet.Serve(t, aPod("default/web", "app"))
	inside := func(script string) *terminal.Terminal {
		return terminal.Run(t, journalet("exec", "--socket", k.Socket, "-it", "web", "--", "sh", "-c", script))
	}
	t.Run("exit code", func(t *testing.T) {
		x := inside(`printf 'ready>'; read x; echo "got <$x>"; exit 7`)
		x.Expect("ready>")
		if !x.Raw() {
			t.Error("the terminal is not raw")
		}
		x.Type("hello\r")
		x.Expect("got <hello>")
		x.Expect("command terminated with exit code 7\r\n")
		if code := x.End(); code != 7 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("ctrl-c", func(t *testing.T) {
		x := inside(`trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done`)
		x.Expect("ready")
		x.Type("\x03")
		x.Expect("caught")
		if code := x.End(); code != 9 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("ctrl-d", func(t *testing.T) {
		x := inside(`echo ready; cat; echo end of input`)
		x.Expect("ready")
		x.Type("line\r")
		x.Expect("line")
		x.Type("\x04")
		x.Expect("end of input")
		if code := x.End(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("size", func(t *testing.T) {
		x := inside(`trap 'stty size' WINCH; while [ "$(stty size)" != "24 80" ]; do sleep 0.02; done
			echo ready; while :; do sleep 0.02; done`)
		x.Expect("ready")
		for _, s := range []struct {
			columns, rows uint16
			want          string
		}{{132, 50, "50 132"}, {40, 10, "10 40"}} {
			x.Resize(s.columns, s.rows)
			x.Expect(s.want)
		}
		x.Type("\x03")
		x.End()
	})
	t.Run("escapes", func(t *testing.T) {
		x := inside(`printf '\033[31mred\033[0m'`)
		x.Expect("\x1b[31mred\x1b[0m")
		x.End()
	})
}

// A second signal may come when the session has ended: then it kills the program, which prints no more.
func TestTerminalIsRestoredWhateverEndsTheSession(t *testing.T) {
	const killed = -1
	for name, end := range map[string]struct {
		do   func(*terminal.Terminal, *fakekubelet.Server)
		want string
	}{
		"the agent vanishes": {func(_ *terminal.Terminal, k *fakekubelet.Server) { k.Vanish() },
			"\r\njournalet: the connection to the agent was lost"},
		"terminated": {func(x *terminal.Terminal, _ *fakekubelet.Server) { x.Signal(syscall.SIGTERM) }, "interrupted"},
		"hung up":    {func(x *terminal.Terminal, _ *fakekubelet.Server) { x.Signal(syscall.SIGHUP) }, "interrupted"},
		"interrupted twice": {func(x *terminal.Terminal, _ *fakekubelet.Server) {
			x.Signal(syscall.SIGINT)
			x.Signal(syscall.SIGINT)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := fakekubelet.Serve(t, aPod("default/web", "app"))
			x := terminal.Run(t, journalet("exec", "--socket", k.Socket, "-it", "web", "--", "sh", "-c",
				"printf ready; sleep 1000"))
			x.Expect("ready")
			end.do(x, k)
			x.Expect(end.want)
			if code := x.End(); code != exitError && (code != killed || end.want != "") {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func TestAttachEndsWithTheDetachKeys(t *testing.T) {
	p := aPod("default/shell", "main")
	p.Spec.Containers[0].TTY, p.Spec.Containers[0].Stdin = true, true
	p.Spec.Containers[0].Command = []string{"sh", "-c", `echo ready; while read x; do echo "got <$x>"; done`}
	k := fakekubelet.Serve(t, p)
	for _, keys := range [][]string{{"\x10", "\x11"}, {"\x01", "d"}} {
		args := []string{"attach", "--socket", k.Socket, "-it", "shell"}
		if keys[1] == "d" {
			args = append(args, "--detach-keys", "ctrl-a,d")
		}
		x := terminal.Run(t, journalet(args...))
		x.Expect("press enter")
		x.Expect("ready")
		x.Type(keys[0] + "x\r") // not the keys
		x.Expect("x>")
		x.Type(keys[0])
		x.Type(keys[1])
		x.Expect("journalet attach -it default/shell -c main")
		if code := x.End(); code != exitOK {
			t.Errorf("%q: exit code %d", keys, code)
		}
	}
}

func TestOutputToATerminalIsTextUnlessRaw(t *testing.T) {
	k := fakekubelet.Serve(t, aPod("default/web", "app"))
	script := `printf 'a\033]0;title\007b\r\nc\303'; sleep 0.1; printf '\244d\n'`
	for _, c := range []struct{ flags, want string }{
		{"", "a\\u001b]0;title\\u0007b\r\nc\u00e4d\r\n"},
		{"--raw", "a\x1b]0;title\x07b\r\r\nc\u00e4d\r\n"},
	} {
		args := append([]string{"exec", "--socket", k.Socket, "web"}, strings.Fields(c.flags)...)
		x := terminal.Run(t, journalet(append(args, "--", "sh", "-c", script)...))
		x.Expect("d\r\n")
		if code := x.End(); code != exitOK || x.Text() != c.want {
			t.Errorf("%q: exit code %d, %q, want %q", c.flags, code, x.Text(), c.want)
		}
	}
}

func TestOutputToAPipeIsNotChanged(t *testing.T) {
	k := fakekubelet.Serve(t, aPod("default/web", "app", "log"))
	data := bytes.Repeat([]byte("\x00\x1b[2J\xff\r\n"), 1<<16)
	cmd := journalet("exec", "--socket", k.Socket, "-i", "-t", "web", "--", "sh", "-c", "cat; echo oops >&2; exit 3")
	cmd.Stdin = bytes.NewReader(data)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if !bytes.Equal(out.Bytes(), data) || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("exit code %d, %d bytes of %d", cmd.ProcessState.ExitCode(), out.Len(), len(data))
	}
	for _, want := range []string{"Defaulted container \"app\" out of: app, log\n", "Unable to use a TTY", "oops\n",
		"command terminated with exit code 3\n"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is not in %q", want, &errs)
		}
	}
	cmd = journalet("exec", "--socket", k.Socket, "-q", "-t", "web", "--", "sh", "-c", "echo oops >&2")
	b, err := cmd.CombinedOutput()
	must.OK(t, err)
	if string(b) != "oops\n" {
		t.Errorf("quiet: %q", b)
	}
}

func TestCommandLinesOfSessionsAreChecked(t *testing.T) {
	k := fakekubelet.Serve(t, aPod("default/web", "app"))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"exec", exitUsage, "no pod given"},
		{"exec -- ls", exitUsage, "no pod given"},
		{"exec web", exitUsage, "no command given"},
		{"exec web ls", exitUsage, "put -- before the command"},
		{"exec web ls -- -l", exitUsage, "put -- before the command"},
		{"exec wbe -- ls", exitNotFound, "did you mean default/web?"},
		{"exec web -c no -- ls", exitNotFound, "it has app"},
		{"exec ../web -- ls", exitNotFound, "not found"},
		{"exec web -c ../app -- ls", exitNotFound, "not found"},
		{"attach web --detach-keys ctrl-", exitUsage, "no key"},
		{"attach web x", exitUsage, "accepts 1 arg"},
	} {
		args := append(strings.Fields(c.args), "--socket", k.Socket)
		if i := strings.Index(c.args, " -- "); i > 0 {
			args = append(append(strings.Fields(c.args[:i]), "--socket", k.Socket), strings.Fields(c.args[i:])...)
		}
		code, _, errs := run(t.Context(), args...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %q; want %d, %q", c.args, code, errs, c.code, c.want)
		}
	}
	if got := len(k.Requests()); got == 0 || strings.Contains(strings.Join(k.Requests(), " "), "exec") {
		t.Errorf("requests: %q", k.Requests())
	}
}

func TestDetachKeysAreFoundInPieces(t *testing.T) {
	for _, c := range []struct{ typed, read string }{
		{"ab", "ab"}, {"a\x10b", "a\x10b"}, {"\x10\x10\x10b", "\x10\x10\x10b"}, {"a\x10\x11b", "a"}, {"\x10\x10\x11", "\x10"},
	} {
		for _, one := range []bool{false, true} {
			var r io.Reader = strings.NewReader(c.typed)
			if one {
				r = &oneByte{r}
			}
			d := &detachable{r: r, keys: []byte{0x10, 0x11}, cancel: func(error) {}}
			got, err := io.ReadAll(d)
			must.OK(t, err)
			if string(got) != c.read {
				t.Errorf("%q is read as %q, want %q", c.typed, got, c.read)
			}
		}
	}
}

// oneByte reads a byte at a time.
type oneByte struct{ r io.Reader }

func (o *oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }
