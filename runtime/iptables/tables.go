package iptables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/program"
)

const (
	// programTimeout ends a program that hangs in the kernel or waits for longer than for the lock.
	programTimeout = 20 * time.Second
	// maxAnswerBytes bounds what is kept of a program's errors.
	maxAnswerBytes = 512
	// notThere is the exit status for a chain or rule that is not there.
	notThere = 1
)

// tables are the rules of one family of addresses of this machine, by its program. Of go-iptables they take four
// methods; that library gives programs the agent's own environment, whose XTABLES_LIBDIR names code to load.
type tables struct{ program string }

// newTables returns the tables of a program, or an error of package program if the program does not exist.
func newTables(name string) (Tables, error) {
	t := tables{name}
	return t, t.run("--version")
}

// exitError is a program's own error.
type exitError struct {
	status int
	text   string
}

// Error returns the program's words.
func (e *exitError) Error() string { return e.text }

// run runs the program.
func (t tables) run(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), programTimeout)
	defer cancel()
	cmd := program.Command(ctx, t.program, args...)
	out := &program.Head{Most: maxAnswerBytes}
	cmd.Stderr, cmd.WaitDelay = out, time.Second
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s %s does not end within %s", t.program, strings.Join(args, " "), programTimeout)
	case cmd.ProcessState == nil:
		return err // it was not started
	}
	text := fmt.Sprintf("%s %s: %s: %s", t.program, strings.Join(args, " "), err, strings.TrimSpace(string(out.Kept)))
	return &exitError{status: cmd.ProcessState.ExitCode(), text: text}
}

// rule runs the program on a table. It waits for the lock that all such programs share.
func (t tables) rule(table string, args ...string) error {
	return t.run(append([]string{"--wait", strconv.Itoa(lockSeconds), "-t", table}, args...)...)
}

// isThere reports whether what a program was asked for is there.
func isThere(err error) (bool, error) {
	var exit *exitError
	if errors.As(err, &exit) && exit.status == notThere {
		return false, nil
	}
	return err == nil, err
}

// ChainExists reports whether a table has a chain.
func (t tables) ChainExists(table, chain string) (bool, error) {
	return isThere(t.rule(table, "-S", chain, "1"))
}

// NewChain creates a chain.
func (t tables) NewChain(table, chain string) error { return t.rule(table, "-N", chain) }

// InsertUnique inserts a rule at a position unless the chain has it.
func (t tables) InsertUnique(table, chain string, pos int, rule ...string) error {
	return t.unique(table, rule, "-I", chain, strconv.Itoa(pos))
}

// AppendUnique appends a rule unless the chain has it.
func (t tables) AppendUnique(table, chain string, rule ...string) error {
	return t.unique(table, rule, "-A", chain)
}

func (t tables) unique(table string, rule []string, add ...string) error {
	if ok, err := t.exists(table, add[1], rule...); err != nil || ok {
		return err
	}
	return t.rule(table, slices.Concat(add, rule)...)
}

// exists reports whether a chain has a rule.
func (t tables) exists(table, chain string, rule ...string) (bool, error) {
	return isThere(t.rule(table, append([]string{"-C", chain}, rule...)...))
}
