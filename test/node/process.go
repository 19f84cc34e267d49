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
	// Soon bounds what takes an agent alone: a start, a stop, an answer.
	Soon = 30 * time.Second
	// again is the pause between looks at what tells of no change.
	again = 50 * time.Millisecond
	// tailLines is how much of a log a failure shows.
	tailLines = 40
)

// Log takes what processes say, one after the other.
type Log struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{} // closed and replaced with each write
	file    *os.File      // takes a copy, if not nil
}

// Write takes a piece of a log.
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

// Text is what was said so far, and a channel that closes with the next word.
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
	from int // where its own words begin
}

// Run starts a program in a folder, this process's if dir is empty. A nil user is this process's, a nil log one of its own.
func Run(t *testing.T, dir string, user *syscall.Credential, log *Log, program string, args ...string) *Process {
	t.Helper()
	if log == nil {
		log = new(Log)
	}
	before, _ := log.Text()
	p := &Process{Cmd: exec.Command(program, args...), done: make(chan struct{}), log: log, from: len(before)} //nolint:gosec // the program under test
	p.Cmd.Dir, p.Cmd.Stderr, p.Cmd.Stdout = dir, log, log
	if user != nil {
		p.Cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	}
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Cmd.Wait() // the state tells
		close(p.done)
	}()
	return p
}

// Text is what this run has said so far.
func (p *Process) Text() string {
	text, _ := p.log.Text()
	return text[p.from:]
}

// Tail is the end of that.
func (p *Process) Tail() string {
	lines := strings.Split(p.Text(), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// Expect waits for words in the run's log.
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
				t.Fatalf("the agent ended (%s) before it said %q:\n%s", p.Cmd.ProcessState, words, p.Tail())
			}
		case <-deadline:
			t.Fatalf("the agent did not say %q within %s:\n%s", words, Soon, p.Tail())
		}
	}
}

// Running tells whether the process has not ended. No process does not run.
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

// End sends a signal to a running process and waits for the exit status; -1 for one that a signal ended. A process that
// had ended by itself is a failure.
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

// Ended waits for the exit status of a process that ends by itself.
func (p *Process) Ended(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(Soon):
		_ = p.Cmd.Process.Kill() // it did not end when it was told
		t.Fatalf("the agent did not end within %s:\n%s", Soon, p.Tail())
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Eventually asks again until there is no error: for what tells nobody when it changes.
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
