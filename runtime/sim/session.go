package sim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"
)

const (
	// exitNotFound is the exit code of a shell for a program that does not exist.
	exitNotFound = 127
	// maxAttached bounds the pieces of output that a client of attach is behind; what is beyond is dropped.
	maxAttached = 1_000
)

// sessions are what clients do in containers and sandboxes.
type sessions struct{ r *Runtime }

// Exec plays a command in a running container. `cat` returns what it reads, a shell without a script runs the lines
// that it reads. What is not understood ends with 127 and a message, unless it is known never to end.
func (s sessions) Exec(ctx context.Context, id string, cmd []string, in io.Reader, out, errs io.WriteCloser, tty bool,
	sizes <-chan remotecommand.TerminalSize) error {
	x, err := s.inside(ctx, id, out, errs, tty)
	if err != nil {
		return err
	}
	defer x.cancel()
	name := ""
	if len(cmd) > 0 {
		name = path.Base(cmd[0])
	}
	switch {
	case in != nil && len(cmd) == 1 && name == "cat":
		return x.ended(copyUntil(x.ctx, x.out, in))
	case in != nil && isShell(name) && !slices.ContainsFunc(cmd[1:], isArgument):
		return x.ended(x.converse(in, sizes))
	}
	x.sh.status = x.sh.run(cmd)
	return x.ended(x.play(name))
}

// isArgument reports whether an argument has a shell read no lines.
func isArgument(arg string) bool { return arg != "-i" && arg != "-l" }

func isShell(name string) bool { return slices.Contains([]string{"sh", "ash", "bash", "dash"}, name) }

// inside is a command in a container.
type inside struct {
	r         *Runtime
	c         *container
	sh        *shell
	out, errs io.Writer
	ctx       context.Context // ends with the session and with the container
	cancel    context.CancelFunc
}

// errStopped ends what runs in a container that has stopped.
var errStopped = errors.New("the container has stopped")

func (s sessions) inside(ctx context.Context, id string, out, errs io.Writer, tty bool) (*inside, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	c, err := s.r.runningContainer(id)
	if err != nil {
		return nil, err
	}
	x := &inside{r: s.r, c: c, sh: newShell(c.config, c.files), out: output(out, tty), errs: output(errs, tty)}
	if tty {
		x.errs = x.out
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-c.stopped:
			cancel(errStopped)
		case <-ctx.Done():
		}
	}()
	x.ctx, x.cancel = ctx, func() { cancel(nil) }
	return x, nil
}

// output is a stream of a session, which may have none; a terminal's lines end with a carriage return, too.
func output(w io.Writer, tty bool) io.Writer {
	switch {
	case w == nil:
		return io.Discard
	case tty:
		return lines{w}
	}
	return w
}

type lines struct{ io.Writer }

// Write writes lines as a terminal does.
func (l lines) Write(p []byte) (int, error) {
	if _, err := io.WriteString(l.Writer, strings.ReplaceAll(string(p), "\n", "\r\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ended returns how a session reports its end: what runs in a container dies with it.
func (x *inside) ended(err error) error {
	if errors.Is(context.Cause(x.ctx), errStopped) {
		return exec.CodeExitError{Err: errStopped, Code: exitCodeKILL}
	}
	if err == nil && x.sh.status != 0 {
		return exec.CodeExitError{Err: fmt.Errorf("exit status %d", x.sh.status), Code: int(x.sh.status)}
	}
	return err
}

// play lets what the shell has recorded happen, in its time.
func (x *inside) play(name string) error {
	b := x.sh.result()
	begun := x.r.clock.Now()
	until := func(after time.Duration) error { return x.pause(after - x.r.clock.Now().Sub(begun)) }
	for _, e := range b.Effects {
		if err := until(e.After); err != nil {
			return err
		}
		if err := x.perform(e); err != nil {
			return err
		}
	}
	switch {
	case x.sh.lost && x.sh.endless:
		<-x.ctx.Done()
		return context.Cause(x.ctx)
	case x.sh.lost:
		x.sh.status = exitNotFound
		_, err := fmt.Fprintf(x.errs, "%s: this is not simulated\n", name)
		return err
	}
	return until(b.RunFor)
}

func (x *inside) perform(e Effect) error {
	switch {
	case e.File != "":
		x.r.mu.Lock()
		defer x.r.mu.Unlock()
		if x.c.process != nil {
			x.r.apply(x.c, e)
		}
		return nil
	case e.Stream == Stderr:
		_, err := io.WriteString(x.errs, e.Text)
		return err
	}
	_, err := io.WriteString(x.out, e.Text)
	return err
}

func (x *inside) pause(d time.Duration) error {
	if d <= 0 {
		return context.Cause(x.ctx)
	}
	if err := x.r.wait(x.ctx, d, nil); err != nil {
		return context.Cause(x.ctx)
	}
	return nil
}

// converse runs the lines of its input until it ends or one of them exits.
func (x *inside) converse(in io.Reader, sizes <-chan remotecommand.TerminalSize) error {
	next := x.reader(in, sizes)
	for {
		read := make(chan string, 1)
		go func() { // it may outlive the session, until its input ends
			defer close(read)
			if text, err := next(); err == nil {
				read <- text
			}
		}()
		select {
		case <-x.ctx.Done():
			return context.Cause(x.ctx)
		case text, ok := <-read:
			if !ok {
				return nil
			}
			if exited, err := x.line(text); exited || err != nil {
				return err
			}
		}
	}
}

// line runs one line, and reports whether it exited.
func (x *inside) line(text string) (bool, error) {
	sh := x.sh
	before := sh.status
	sh.effects, sh.jobs, sh.steps, sh.bytes, sh.now, sh.lost, sh.endless, sh.done = nil, nil, 0, 0, 0, false, false, false
	if strings.TrimSpace(text) == "" {
		return false, nil
	}
	sh.interpret(text)
	exited := sh.done && !sh.lost
	if exited && strings.TrimSpace(text) == "exit" {
		sh.status = before
	}
	return exited, x.play("sh")
}

// reader returns what reads the next line: from a terminal with a prompt, if the session has one.
func (x *inside) reader(in io.Reader, sizes <-chan remotecommand.TerminalSize) func() (string, error) {
	raw, ok := x.out.(lines)
	if !ok {
		scan := bufio.NewScanner(in)
		return func() (string, error) {
			if scan.Scan() {
				return scan.Text(), nil
			}
			return "", io.EOF
		}
	}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, raw.Writer}, "/ # ")
	x.out, x.errs = t, t
	go func() {
		for size := range sizes {
			_ = t.SetSize(int(size.Width), int(size.Height)) // fails if the client has left
		}
	}()
	return t.ReadLine
}

// Attach shows what the process of a running container prints from now on, until it ends. It reads nothing.
func (s sessions) Attach(ctx context.Context, id string, in io.Reader, out, errs io.WriteCloser, tty bool,
	_ <-chan remotecommand.TerminalSize) error {
	x, err := s.inside(ctx, id, out, errs, tty)
	if err != nil {
		return err
	}
	defer x.cancel()
	printed := make(chan Effect, maxAttached)
	s.r.mu.Lock()
	if x.c.attached == nil {
		x.c.attached = map[chan<- Effect]struct{}{}
	}
	x.c.attached[printed] = struct{}{}
	s.r.mu.Unlock()
	defer func() {
		s.r.mu.Lock()
		defer s.r.mu.Unlock()
		delete(x.c.attached, printed)
	}()
	if in != nil {
		go func() { _, _ = io.Copy(io.Discard, in) }() // else what the client types blocks it
	}
	for {
		select {
		case e := <-printed:
			if err := x.perform(e); err != nil {
				return err
			}
		case <-x.ctx.Done():
			return x.drain(printed)
		}
	}
}

// drain shows what a process printed before it ended.
func (x *inside) drain(printed <-chan Effect) error {
	if !errors.Is(context.Cause(x.ctx), errStopped) {
		return context.Cause(x.ctx)
	}
	for {
		select {
		case e := <-printed:
			if err := x.perform(e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// show passes a piece of output to all attached sessions. The caller holds r.mu.
func (c *container) show(e Effect) {
	for to := range c.attached {
		select {
		case to <- e:
		default: // the process does not wait for them
		}
	}
}

// methods begin a request of HTTP.
var methods = []string{"GET ", "HEAD ", "POST ", "PUT ", "PATCH ", "DELETE ", "OPTIONS "}

// PortForward connects to a port of a sandbox. Something listens on the ports that a container's command names, and on
// all of a container that runs its image's own command. It answers HTTP with a line about itself, and returns the rest.
func (s sessions) PortForward(ctx context.Context, id string, port int32, stream io.ReadWriteCloser) error {
	s.r.mu.Lock()
	sb, err := s.r.readySandbox(id)
	listens := err == nil && slices.ContainsFunc(s.r.containersOf(sb.id), func(c *container) bool {
		return c.process != nil && c.names(port)
	})
	s.r.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !listens:
		return fmt.Errorf("dial tcp4 127.0.0.1:%d: connect: connection refused", port)
	}
	from := bufio.NewReader(stream)
	if _, err := from.Peek(1); err != nil {
		return nil
	}
	first, err := from.Peek(from.Buffered())
	if err != nil || !slices.ContainsFunc(methods, func(m string) bool { return strings.HasPrefix(string(first), m) }) {
		return copyUntil(ctx, stream, from)
	}
	m := sb.config.GetMetadata()
	page := fmt.Sprintf("port %d of pod %s/%s, simulated\n", port, m.GetNamespace(), m.GetName())
	_, err = fmt.Fprintf(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n"+
		"Connection: close\r\n\r\n%s", len(page), page)
	return err
}

// names reports whether a container's command names a port, or is unknown.
func (c *container) names(port int32) bool {
	words := slices.Concat(c.config.GetCommand(), c.config.GetArgs())
	return len(words) == 0 || slices.ContainsFunc(words, func(word string) bool {
		numbers := strings.FieldsFunc(word, func(r rune) bool { return r < '0' || r > '9' })
		return slices.Contains(numbers, strconv.Itoa(int(port)))
	})
}
