package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// onTerminal reports whether a person can be asked: what is asked goes to stderr, the answer comes from stdin.
func (a *app) onTerminal() bool { return a.err.terminal() && term.IsTerminal(int(os.Stdin.Fd())) }

// confirm prints what is about to happen on the terminal, and waits for an answer. Only y and yes confirm it; after
// another one it says what has become of it, and returns errRefused.
func (a *app) confirm(ctx context.Context, what, refused string) error {
	fmt.Fprint(a.err, what+" [y/N] ")
	answered := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // an end of input is no
		answered <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.err)
		return ctx.Err()
	case answer := <-answered:
		if answer == "y" || answer == "yes" {
			return nil
		}
	}
	a.notice(refused)
	return errRefused
}
