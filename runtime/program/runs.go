package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killTimeout is how long a killed program may take to end. One that is in a system call for a server that is away,
	// or for a disk that hangs, may not end before that is back.
	killTimeout = 5 * time.Second
	// outputWait is how long a daemon that a program has started, such as rpc.statd, may keep the output open.
	outputWait = time.Second
	// maxOutputBytes bounds what is kept of the output of a program: some lines.
	maxOutputBytes = 1 << 10
	// maxMemoryBytes bounds what a program can print that is not cut short.
	maxMemoryBytes = 64 << 10
)

// Run is a run of a program that may hang.
type Run struct {
	// Does is what it does, for errors. Of the same Key only one program runs at a time.
	Does, Key string
	Program   string
	Args      []string
	// File is its first descriptor beside the standard ones; nil: none.
	File *os.File
	// Stdout takes its output; nil: it goes to the error, as what it says on its standard error does.
	Stdout  *Head
	Timeout time.Duration
	// Finishes: the end of the caller's context ends the wait and not the program, which must not be cut short. Only its
	// deadline kills it, and the agent's end does not. Stdout has to be nil.
	Finishes bool
}

// Runs starts programs that may hang, and knows the programs under way, also programs that did not end when they were
// killed.
type Runs struct {
	// Hangs is the error of a program that does not end in time. It must be set.
	Hangs error
	// Kill kills a process group, and KillTimeout is how long that may take. Default: SIGKILL, and 5 s.
	Kill        func(leader int)
	KillTimeout time.Duration

	mu sync.Mutex
	// underWay has what is done, and killed, by key.
	underWay map[string]*underWay
}

type underWay struct {
	does   string
	killed bool
}

func killGroup(leader int) { _ = unix.Kill(-leader, unix.SIGKILL) } // it may have ended meanwhile

// Do runs a program in a process group of its own, which is killed at its deadline or when ctx ends. The error has what
// it has printed.
func (p *Runs) Do(ctx context.Context, r Run) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.begin(r); err != nil {
		return err
	}
	cmd := Command(context.Background(), r.Program, r.Args...) // it is killed below, with what it has started
	out, err := output(cmd, r)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.end(r.Key)
		if out != nil {
			out() // closes what it has opened
		}
		return err
	}
	ended, left := make(chan struct{}), make(chan error, 1)
	var failed error // once it has ended
	go func() {
		failed = failure(cmd.Wait(), out)
		p.end(r.Key)
		close(ended)
	}()
	wait, stop := ctx, (<-chan struct{})(nil) // await sees the end of ctx
	if r.Finishes {
		wait, stop = context.WithoutCancel(ctx), ctx.Done()
	}
	go func() { left <- p.await(wait, r, cmd.Process.Pid, ended) }()
	select {
	case err := <-left:
		if err != nil {
			return err
		}
		return failed
	case <-stop:
		return fmt.Errorf("the %s continues: %w", r.Does, ctx.Err())
	}
}

// output prepares a program's files, and returns what reads its output once it has ended.
func output(cmd *exec.Cmd, r Run) (func() []byte, error) {
	cmd.WaitDelay, cmd.SysProcAttr = outputWait, &unix.SysProcAttr{Setpgid: true}
	if r.File != nil {
		cmd.ExtraFiles = []*os.File{r.File}
	}
	if !r.Finishes {
		out := &Head{Most: maxOutputBytes}
		cmd.Stdout, cmd.Stderr = out, out
		if r.Stdout != nil {
			cmd.Stdout = r.Stdout
		}
		return func() []byte { return out.Kept }, nil
	}
	f, err := memory()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = f, f
	return func() []byte {
		defer f.Close()
		b := make([]byte, maxOutputBytes)
		n, _ := f.ReadAt(b, 0) // the text is for people
		return bytes.TrimRight(b[:n], "\x00")
	}, nil
}

// memory returns a file in memory that does not grow. A program whose output is a pipe to the agent would be killed by
// its next line once the agent is gone; this one fails to print what has no room.
func memory() (*os.File, error) {
	fd, err := unix.MemfdCreate("output", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create a file for output: %w", err)
	}
	f := os.NewFile(uintptr(fd), "output")
	err = f.Truncate(maxMemoryBytes)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a file for output: %w", err), f.Close())
	}
	return f, nil
}

// await waits until a program has ended, and kills it at its deadline or when ctx ends.
func (p *Runs) await(ctx context.Context, r Run, leader int, ended <-chan struct{}) (err error) {
	t := time.NewTimer(r.Timeout)
	defer t.Stop()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-t.C:
		err = fmt.Errorf("%w within %s", p.Hangs, r.Timeout)
	}
	kill, timeout := p.Kill, p.KillTimeout
	if kill == nil {
		kill = killGroup
	}
	if timeout == 0 {
		timeout = killTimeout
	}
	p.kills(r.Key)
	kill(leader)
	t.Reset(timeout)
	select {
	case <-ended:
		return err
	case <-t.C:
		return fmt.Errorf("%w, and process %d (%s) does not end", err, leader, r.Program)
	}
}

// begin notes a program, unless one of its key is under way.
func (p *Runs) begin(r Run) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch u := p.underWay[r.Key]; {
	case u == nil:
	case u.killed:
		return fmt.Errorf("%w: an earlier %s has been killed and has not ended", p.Hangs, u.does)
	default:
		return fmt.Errorf("an earlier %s is still under way", u.does)
	}
	if p.underWay == nil {
		p.underWay = map[string]*underWay{}
	}
	p.underWay[r.Key] = &underWay{does: r.Does}
	return nil
}

func (p *Runs) kills(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.underWay[key]; u != nil {
		u.killed = true
	}
}

func (p *Runs) end(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.underWay, key)
}

// failure returns the error of a program that has ended, with its output in one line.
func failure(err error, output func() []byte) error {
	text := strings.Join(strings.Fields(string(output())), " ")
	if err == nil || errors.Is(err, ErrWaitDelay) {
		return nil
	}
	if text != "" {
		return fmt.Errorf("%s (%w)", text, err)
	}
	return err
}

// ExitCode returns the exit code of the program whose error this is; -1: it did not end by itself.
func ExitCode(err error) int {
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
