package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/journalet/journalet/runtime/api/query"
)

// Exit codes, the same for every command.
const (
	exitOK       = 0
	exitError    = 1 // the command failed, or found something wrong
	exitUsage    = 2 // the command line makes no sense
	exitNoAgent  = 3 // no agent can be reached
	exitNotFound = 4 // what was asked for does not exist
)

const exitHelp = `Exit codes:
  0  success
  1  an error, or something that was checked is not well
  2  wrong usage
  3  no agent can be reached
  4  what was asked for does not exist`

// usageError is an error in the command line.
type usageError struct{ error }

// noAgentError is an error on the way to the agent.
type noAgentError struct{ error }

func (e noAgentError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errFound ends a command that did its work and found something wrong; what it was is printed already.
var errFound = errors.New("something is not well")

func exitCode(err error) int {
	var usage usageError
	var away noAgentError
	var answer *query.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &away), errors.Is(err, query.ErrNoAgent):
		return exitNoAgent
	case query.IsNotFound(err):
		return exitNotFound
	case errors.As(err, &answer) && answer.Code == query.CodeBadRequest:
		return exitUsage
	case errors.As(err, &answer) && answer.Code == query.CodeUnavailable:
		return exitNoAgent
	}
	return exitError
}

// complaint is how an error is told on stderr; "" for one that needs no words.
func complaint(ctx context.Context, command string, err error) string {
	var usage usageError
	switch {
	case err == nil, errors.Is(err, errFound):
		return ""
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return "journalet: interrupted\n"
	case errors.As(err, &usage):
		return fmt.Sprintf("journalet: %s\nSee `%s --help`.\n", strings.TrimSpace(err.Error()), command)
	}
	return "journalet: " + strings.TrimSpace(err.Error()) + "\n"
}
