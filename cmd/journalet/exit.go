package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/api/stream"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
)

// Exit codes, the same for every command.
const (
	exitOK       = 0
	exitError    = 1 // the command failed, or found something wrong
	exitUsage    = 2 // the command line is invalid
	exitDiverged = 3 // a replay decides otherwise than recorded
	exitDamaged  = 4 // a journal or a bundle is not as it was written
	exitNoAgent  = 5 // no agent can be reached
	exitNotFound = 6 // the requested object does not exist
)

const exitHelp = `Exit codes:
  0  success
  1  an error, or a failed check
  2  wrong usage
  3  replay: a decision differs from the recorded one
  4  a journal or a bundle is damaged
  5  no agent can be reached
  6  the requested object does not exist
exec and attach end with the exit code of the command, and then print that it
"terminated with exit code N".`

// usageError is an error in the command line.
type usageError struct{ error }

// noAgentError is an error of the connection to the agent.
type noAgentError struct{ error }

func (e noAgentError) Unwrap() error { return e.error }

// notFoundError is an error of something that a journal does not hold.
type notFoundError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errCheckFailed is the error of a command that has printed failed checks.
var errCheckFailed = errors.New("check failed")

// errDamaged is the error of a command that has printed what is damaged, errDiverged of a command that has printed
// where a replay diverges.
var (
	errDamaged  = errors.New("damaged")
	errDiverged = errors.New("diverged")
)

func exitCode(err error) int {
	var usage usageError
	var noAgent noAgentError
	var missing notFoundError
	var response *query.Error
	var command *stream.ExitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &command):
		return command.Code
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errDiverged):
		return exitDiverged
	case errors.Is(err, errDamaged), errors.Is(err, history.ErrDamaged):
		return exitDamaged
	case errors.As(err, &noAgent), errors.Is(err, query.ErrNoAgent):
		return exitNoAgent
	case errors.As(err, &missing), query.IsNotFound(err), errors.Is(err, history.ErrGone),
		errors.Is(err, history.ErrNoRecord),
		errors.Is(err, open.ErrNoJournal):
		return exitNotFound
	case errors.As(err, &response) && response.Code == query.CodeBadRequest:
		return exitUsage
	case errors.As(err, &response) && response.Code == query.CodeUnavailable:
		return exitNoAgent
	}
	return exitError
}

// errorText returns an error as printed on stderr; "" for an error that needs no text.
func errorText(ctx context.Context, command string, err error) string {
	var usage usageError
	var exit *stream.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.Error() + "\n" // as kubectl prints it
	case err == nil, errors.Is(err, errCheckFailed), errors.Is(err, errRefused), errors.Is(err, errDamaged),
		errors.Is(err, errDiverged):
		return ""
	case errors.Is(err, context.Canceled) && ctx.Err() != nil, errors.Is(err, errSignal):
		return "journalet: interrupted\n"
	case errors.As(err, &usage):
		return fmt.Sprintf("journalet: %s\nSee `%s --help`.\n", strings.TrimSpace(err.Error()), command)
	}
	return "journalet: " + strings.TrimSpace(err.Error()) + "\n"
}
