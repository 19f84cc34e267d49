package nfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/program"
)

const (
	// killTimeout is how long a killed process may take to end. One that is in a system call for a server that is away
	// may not end before the server is back.
	killTimeout = 5 * time.Second
	// outputWait is how long a daemon that a helper has started, such as rpc.statd, may keep the output open.
	outputWait = time.Second
	// maxOutputBytes bounds what is kept of the output of a process: some lines.
	maxOutputBytes = 1 << 10
)

// errHangs means that a process did not end in time: its server does not answer.
var errHangs = errors.New("the server does not answer")

// command is a run of mount(8) or umount(8).
type command struct {
	// what it does of which directory, for errors. Of the same two only one process runs at a time.
	what, of string
	program  string
	args     []string
	// file is its first descriptor beside the standard ones; nil: none.
	file    *os.File
	timeout time.Duration
}

// processes are those under way, also those that did not end when they were killed.
type processes struct {
	// kill kills a process group, and killTimeout is how long that may take.
	kill        func(leader int)
	killTimeout time.Duration

	mu      sync.Mutex
	running map[string]bool
}

func killGroup(leader int) { _ = unix.Kill(-leader, unix.SIGKILL) } // it may have ended meanwhile

// run runs a command in a process group of its own, which is killed at its deadline or when ctx ends. The error has
// what it has printed.
func (p *processes) run(ctx context.Context, c command) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	key := c.what + " " + c.of
	p.mu.Lock()
	if p.running[key] {
		p.mu.Unlock()
		return fmt.Errorf("%w: an earlier %s has been killed and has not ended", errHangs, c.what)
	}
	p.running[key] = true
	p.mu.Unlock()

	cmd := program.Command(context.Background(), c.program, c.args...) // it is killed below, with what it has started
	out := &program.Head{Most: maxOutputBytes}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, outputWait
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if c.file != nil {
		cmd.ExtraFiles = []*os.File{c.file}
	}
	ended := make(chan struct{})
	err := cmd.Start()
	if err != nil {
		p.end(key)
		return err
	}
	var failed error // once it has ended
	go func() {
		failed = cmd.Wait()
		p.end(key)
		close(ended)
	}()
	t := time.NewTimer(c.timeout)
	defer t.Stop()
	select {
	case <-ended:
		return failure(failed, out.Kept)
	case <-ctx.Done():
		err = ctx.Err()
	case <-t.C:
		err = fmt.Errorf("%w within %s", errHangs, c.timeout)
	}
	p.kill(cmd.Process.Pid)
	t.Reset(p.killTimeout)
	select {
	case <-ended:
		return err
	case <-t.C:
		return fmt.Errorf("%w, and process %d (%s) does not end", err, cmd.Process.Pid, c.program)
	}
}

func (p *processes) end(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, key)
}

// failure returns the error of a process that has ended, with its output in one line.
func failure(err error, output []byte) error {
	if err == nil || errors.Is(err, program.ErrWaitDelay) {
		return nil
	}
	if text := strings.Join(strings.Fields(string(output)), " "); text != "" {
		return fmt.Errorf("%s (%w)", text, err)
	}
	return err
}
