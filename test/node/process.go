package node

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// Soon bounds what needs no runtime: a start, a stop, a request of the agent. Cores and disk may be busy.
	Soon = 2 * time.Minute
	// Attempt bounds one request of the agent, which is lost if the agent is killed; a test repeats it.
	Attempt = 10 * time.Second
	// again is the time between two polls.
	again = 50 * time.Millisecond
	// tailLines bounds the part of a log that a failure shows.
	tailLines = 40
)

// Log collects the output of processes that run one after the other.
type Log struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{} // closed and replaced with each write
	file    *os.File      // takes a copy, if not nil
}

// Write appends to the log.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	if l.written != nil {
		close(l.written)
		l.written = nil
	}
	if l.file != nil {
		return l.file.Write(b)
	}
	return len(b), nil
}

// Text returns the output so far, and a channel that closes with the next write.
func (l *Log) Text() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written == nil {
		l.written = make(chan struct{})
	}
	return l.text.String(), l.written
}

// Process is a run of a program.
type Process struct {
	Cmd  *exec.Cmd
	done chan struct{}
	log  *Log
	from int // where its output begins in log
}

// Run starts a program in a directory. An empty dir and a nil user are this process's own; a nil log is a new one.
func Run(t *testing.T, dir string, user *syscall.Credential, log *Log, program string, args ...string) *Process {
	t.Helper()
	if log == nil {
		log = new(Log)
	}
	before, _ := log.Text()
	cmd := exec.Command(program, args...) //nolint:gosec // the program under test
	p := &Process{Cmd: cmd, done: make(chan struct{}), log: log, from: len(before)}
	p.Cmd.Dir, p.Cmd.Stderr, p.Cmd.Stdout = dir, log, log
	if user != nil {
		p.Cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	}
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Cmd.Wait() // ProcessState holds the exit status
		close(p.done)
	}()
	return p
}

// Text returns the output of this run so far.
func (p *Process) Text() string {
	text, _ := p.log.Text()
	return text[p.from:]
}

// Tail returns the last lines of Text.
func (p *Process) Tail() string {
	lines := strings.Split(p.Text(), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// Expect waits for words in the output of this run.
func (p *Process) Expect(t *testing.T, words string) {
	t.Helper()
	deadline := time.After(Soon)
	for {
		text, written := p.log.Text()
		if strings.Contains(text[p.from:], words) {
			return
		}
		select {
		case <-written:
		case <-p.done:
			if !strings.Contains(p.Text(), words) {
				t.Fatalf("the agent ended (%s) before it logged %q:\n%s", p.Cmd.ProcessState, words, p.Tail())
			}
		case <-deadline:
			t.Fatalf("the agent did not log %q within %s:\n%s", words, Soon, p.Tail())
		}
	}
}

// Running reports whether the process runs. A nil process does not.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// End sends a signal to a running process and returns its exit status, -1 after a signal that it does not handle. A
// process that has ended before fails the test.
func (p *Process) End(t *testing.T, s syscall.Signal) int {
	t.Helper()
	if !p.Running() {
		t.Fatalf("the agent had ended by itself (%s):\n%s", p.Cmd.ProcessState, p.Tail())
	}
	if err := p.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return p.Ended(t)
}

// Ended waits for the end of a process and returns its exit status.
func (p *Process) Ended(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(Soon):
		_ = p.Cmd.Process.Kill()
		t.Fatalf("the agent did not end within %s:\n%s", Soon, p.Tail())
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Eventually repeats try until it returns no error: for a condition that announces no change.
func Eventually(t *testing.T, within time.Duration, what string, try func() error) {
	t.Helper()
	deadline := time.After(within)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-time.After(again):
		case <-deadline:
			t.Fatalf("not within %s: %s: %v", within, what, err)
		}
	}
}
