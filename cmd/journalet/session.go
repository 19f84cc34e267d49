package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/runtime/api/stream"
)

// session is a session in a container, as flags.
type session struct {
	*target
	stdin, tty, raw bool
	redraw          bool   // have the program in the container draw its screen again
	detach          []byte // keys that end the session, on a terminal
}

// newSession adds the flags that exec and attach share.
func (a *app) newSession(cmd *cobra.Command) *session {
	s := &session{target: a.targetFlags(cmd)}
	s.containerFlag(cmd)
	s.sessionFlags(cmd)
	f := cmd.Flags()
	f.BoolVarP(&s.stdin, "stdin", "i", false, "send what is typed, or the standard input, to the container")
	f.BoolVarP(&s.tty, "tty", "t", false, "give the command a terminal; needs -i")
	f.BoolVar(&s.raw, "raw", false,
		"without -t: print control characters to a terminal as they are; they can move the cursor, set titles, hide text")
	return s
}

// errDetached is the cause of a session that the user has left by the detach keys.
var errDetached = errors.New("detached")

// open runs a session and returns when it has ended. tty has the process of the container written to one stream, which
// is raw only if the user has a terminal too.
func (s *session) open(ctx context.Context, c *stream.Client, path string, command []string, tty bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var streams stream.Streams
	streams.Out, streams.Err, streams.TTY = s.output(s.a.out), s.output(s.a.err), tty
	if s.stdin {
		streams.In = s.a.in
	}
	if in := terminalOf(s.a.in); tty && s.stdin && in != nil {
		t, err := newRawTerminal(in, cancel, s.redraw)
		if err != nil {
			return err
		}
		defer t.restore()
		streams.Out, streams.Sizes = s.a.out.w, t.sizes
		if len(s.detach) > 0 {
			streams.In = &detachable{r: in, keys: s.detach, cancel: cancel}
		}
	}
	err := c.Session(ctx, path, command, streams)
	if streams.Sizes != nil && errors.Is(err, stream.ErrLost) {
		fmt.Fprint(s.a.out.w, "\r\n") // the error begins a line
		flushInput(terminalOf(s.a.in))
	}
	if errors.Is(err, errDetached) {
		return nil
	}
	return s.socketError(err)
}

// output returns where a stream of the container goes: to a terminal with its control characters as text, unless raw is
// given, to anything else as it is.
func (s *session) output(to *screen) io.Writer {
	if s.raw || !to.terminal() {
		return to.w
	}
	return &pieces{to: to}
}

// useTerminal returns whether the container's process gets a terminal, with a note if it was asked for in vain.
func (s *session) useTerminal() bool {
	switch {
	case !s.tty:
		return false
	case !s.stdin:
		s.note("-t has no effect without -i")
	case terminalOf(s.a.in) == nil:
		s.note("Unable to use a TTY: the standard input is not a terminal")
	default:
		return true
	}
	return false
}

func (s *session) note(text string) {
	if !s.quiet {
		s.a.notice(text)
	}
}

// pieces prints what arrives in pieces: a character of several bytes may be cut.
type pieces struct {
	to   *screen
	rest []byte
}

func (l *pieces) Write(b []byte) (int, error) {
	all := append(l.rest, b...)
	whole := len(all) - cutRune(all)
	_, err := l.to.Write(bytes.ReplaceAll(all[:whole], []byte("\r\n"), []byte("\n")))
	l.rest = append([]byte(nil), all[whole:]...)
	return len(b), err
}

// cutRune returns how many bytes at the end of b begin a character whose other bytes are missing.
func cutRune(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		switch c := b[len(b)-n]; {
		case c&0xc0 == 0x80: // a byte within a character
			continue
		case c >= 0xf0 && n < 4, c >= 0xe0 && n < 3, c >= 0xc0 && n < 2:
			return n
		default:
			return 0
		}
	}
	return 0
}

// detachable reads a terminal until the detach keys are typed.
type detachable struct {
	r      io.Reader
	keys   []byte
	typed  int // how many of them were typed last
	cancel context.CancelCauseFunc
}

func (d *detachable) Read(p []byte) (int, error) {
	if len(p) <= len(d.keys) {
		return 0, io.ErrShortBuffer
	}
	n, err := d.r.Read(p[:len(p)-len(d.keys)])
	out := make([]byte, 0, n+d.typed)
	for _, b := range p[:n] {
		if b == d.keys[d.typed] {
			if d.typed++; d.typed == len(d.keys) {
				d.cancel(errDetached)
				return copy(p, out), io.EOF
			}
			continue
		}
		out = append(out, d.keys[:d.typed]...) // they were not the keys
		d.typed = 0
		if b == d.keys[0] {
			d.typed = 1
			continue
		}
		out = append(out, b)
	}
	return copy(p, out), err
}

// parseKeys returns the keys of --detach-keys: letters, and ctrl- with a letter or one of @[]^_ and backslash.
func parseKeys(text string) ([]byte, error) {
	var keys []byte
	for part := range bytes.SplitSeq([]byte(text), []byte(",")) {
		control, isControl := bytes.CutPrefix(part, []byte("ctrl-"))
		switch {
		case isControl && len(control) == 1 && control[0] >= 'a' && control[0] <= 'z':
			keys = append(keys, control[0]-'a'+1)
		case isControl && len(control) == 1 && control[0] >= '@' && control[0] <= '_':
			keys = append(keys, control[0]-'@')
		case !isControl && len(part) == 1:
			keys = append(keys, part[0])
		default:
			return nil, usagef("--detach-keys: %q is no key: want letters and ctrl-LETTER with commas between them", part)
		}
	}
	if len(keys) > maxDetachKeys {
		return nil, usagef("--detach-keys has %d keys, at most %d", len(keys), maxDetachKeys)
	}
	return keys, nil
}

// maxDetachKeys bounds the keys of --detach-keys.
const maxDetachKeys = 16
