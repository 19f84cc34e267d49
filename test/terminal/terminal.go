package terminal

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// Patience bounds what a test waits for.
const Patience = 3 * time.Minute

// Terminal is a terminal with a program in it.
type Terminal struct {
	t         testing.TB
	pty, tty  *os.File
	before    unix.Termios
	cmd       *exec.Cmd
	ended     chan struct{}
	printed   chan struct{} // has a value when something was printed
	mu        sync.Mutex
	text      strings.Builder
	exit      error
	unchecked int // where the next Expect begins
}

// Run starts a program in a terminal of 24 rows and 80 columns.
func Run(t testing.TB, cmd *exec.Cmd) *Terminal {
	t.Helper()
	x := &Terminal{t: t, cmd: cmd, ended: make(chan struct{}), printed: make(chan struct{}, 1)}
	var err error
	x.pty, x.tty, err = pty.Open()
	must.OK(t, err)
	x.Resize(80, 24)
	before, err := unix.IoctlGetTermios(int(x.tty.Fd()), unix.TCGETS)
	must.OK(t, err)
	x.before = *before
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.tty, x.tty, x.tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.OK(t, cmd.Start())
	go x.read()
	go func() {
		x.exit = cmd.Wait()
		close(x.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-x.ended
		_ = x.tty.Close()
		_ = x.pty.Close()
	})
	return x
}

func (x *Terminal) read() {
	b := make([]byte, 32<<10)
	for {
		n, err := x.pty.Read(b)
		x.mu.Lock()
		x.text.Write(b[:n])
		x.mu.Unlock()
		select {
		case x.printed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Text returns what was printed so far.
func (x *Terminal) Text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// Expect waits until a text is printed, after the texts that were expected before.
func (x *Terminal) Expect(text string) {
	x.t.Helper()
	limit := time.After(Patience)
	for {
		all := x.Text()
		if i := strings.Index(all[x.unchecked:], text); i >= 0 {
			x.unchecked += i + len(text)
			return
		}
		select {
		case <-x.printed:
		case <-limit:
			x.t.Fatalf("%q is not printed:\n%q", text, all[x.unchecked:])
		}
	}
}

// Type types a text.
func (x *Terminal) Type(text string) {
	x.t.Helper()
	_, err := x.pty.WriteString(text)
	must.OK(x.t, err)
}

// Resize changes the size of the terminal, and the program hears of it.
func (x *Terminal) Resize(columns, rows uint16) {
	x.t.Helper()
	must.OK(x.t, pty.Setsize(x.pty, &pty.Winsize{Cols: columns, Rows: rows}))
}

// Signal sends a signal to the command, unless the command has ended: a second one may come too late.
func (x *Terminal) Signal(s os.Signal) {
	x.t.Helper()
	if err := x.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		must.OK(x.t, err)
	}
}

// Raw reports whether the terminal passes on what is typed as it is.
func (x *Terminal) Raw() bool {
	x.t.Helper()
	now, err := unix.IoctlGetTermios(int(x.tty.Fd()), unix.TCGETS)
	must.OK(x.t, err)
	return now.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0
}

// mark ends what a program has printed.
const mark = "\x00"

// flush waits until all that a program has printed is in Text.
func (x *Terminal) flush() {
	x.t.Helper()
	_, err := x.tty.WriteString(mark)
	must.OK(x.t, err)
	limit := time.After(Patience)
	for !strings.HasSuffix(x.Text(), mark) {
		select {
		case <-x.printed:
		case <-limit:
			x.t.Fatalf("the terminal does not show all:\n%q", x.Text())
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	text := strings.TrimSuffix(x.text.String(), mark)
	x.text.Reset()
	x.text.WriteString(text)
}

// End waits until the program has ended and all that it has printed is in Text, and returns its exit code. The terminal
// must be as it was before.
func (x *Terminal) End() int {
	x.t.Helper()
	select {
	case <-x.ended:
	case <-time.After(Patience):
		x.t.Fatalf("it does not end:\n%q", x.Text())
	}
	x.flush()
	now, err := unix.IoctlGetTermios(int(x.tty.Fd()), unix.TCGETS)
	must.OK(x.t, err)
	if *now != x.before {
		x.t.Errorf("the terminal is left as %+v, it was %+v", *now, x.before)
	}
	var exit *exec.ExitError
	if x.exit != nil && !errors.As(x.exit, &exit) {
		x.t.Fatal(x.exit)
	}
	return x.cmd.ProcessState.ExitCode()
}
