package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
	"k8s.io/client-go/tools/remotecommand"
)

// errSignal is the cause of a session that a signal ended.
var errSignal = errors.New("ended by a signal")

// rawTerminal is the user's terminal while a session has it: what is typed goes to the container as it is, Ctrl-C too.
type rawTerminal struct {
	in      *os.File
	state   *term.State
	signals chan os.Signal
	sizes   *sizes
	once    sync.Once
}

// newRawTerminal switches the terminal to raw mode. Any signal that would end the process ends the session instead, by
// cancel, so that the caller restores the terminal. A size is reported for each change of the terminal; with redraw the
// first one differs from the second, so that a program that already runs draws its screen again.
func newRawTerminal(in *os.File, cancel context.CancelCauseFunc, redraw bool) (*rawTerminal, error) {
	t := &rawTerminal{in: in, signals: make(chan os.Signal, 4), sizes: newSizes()}
	signal.Notify(t.signals, syscall.SIGWINCH, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		signal.Stop(t.signals)
		return nil, fmt.Errorf("switch the terminal to raw mode: %w", err)
	}
	t.state = state
	if redraw {
		if w, h, err := term.GetSize(int(in.Fd())); err == nil {
			t.sizes.set(w+1, h+1)
		}
	}
	t.resized()
	go func() {
		for s := range t.signals {
			if s == syscall.SIGWINCH {
				t.resized()
			} else {
				cancel(errSignal)
			}
		}
	}()
	return t, nil
}

func (t *rawTerminal) resized() {
	if w, h, err := term.GetSize(int(t.in.Fd())); err == nil {
		t.sizes.set(w, h)
	}
}

// restore gives the terminal back as it was. It may be called more than once.
func (t *rawTerminal) restore() {
	t.once.Do(func() {
		_ = term.Restore(int(t.in.Fd()), t.state) // a terminal that is gone cannot be restored
		signal.Stop(t.signals)
		close(t.signals)
		t.sizes.close()
	})
}

// sizes is a queue of the sizes of a terminal. It keeps two: the first ones are both sent for a redraw, and of
// the sizes that nobody has taken yet only the latest counts.
type sizes struct {
	mu     sync.Mutex
	queue  chan remotecommand.TerminalSize
	closed bool
}

func newSizes() *sizes { return &sizes{queue: make(chan remotecommand.TerminalSize, 2)} }

func (s *sizes) set(width, height int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	size := remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)} // kernel: 16 bits
	for {
		select {
		case s.queue <- size:
			return
		default:
		}
		select {
		case <-s.queue: // the oldest
		default:
		}
	}
}

// Next waits for a size, and returns nil after the last one.
func (s *sizes) Next() *remotecommand.TerminalSize {
	if size, ok := <-s.queue; ok {
		return &size
	}
	return nil
}

func (s *sizes) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
}

// terminalOf returns the terminal that a reader is, nil for anything else.
func terminalOf(r io.Reader) *os.File {
	f, ok := r.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return f
}

// flushInput drops what was typed and not read: it was meant for the container, not for the shell.
func flushInput(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
