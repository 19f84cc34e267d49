package cri

import (
	"context"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/pattern"
)

// What containerd reports about a start that it refused.
const (
	startErrorReason = "StartError"
	// startedTaskText is in its error where it had asked for the process to be executed: one may have run. The same
	// words are in the container's status.
	startedTaskText = "failed to start containerd task"
)

// commandError matches what OCI runtimes report about a command that cannot be executed, or about a working directory
// that it cannot have: runc, older runc, crun, and runsc. What a kernel reports for lack of something else, such as
// "text file busy", is not among it, nor is a program of the node that is missing: exec: "runc": executable file not
// found.
var commandError = pattern.Lazy("(?is)" +
	"(?:container process(?: caused)?: (?:error during container init: )?exec[: ]" +
	"|exec user process caused|chdir to cwd" +
	"|executable file `|open executable|exec container process|error finding executable)" +
	".*(?:not found in \\$PATH|no such file or directory|permission denied|exec format error|is a directory" +
	"|not a directory|too many levels of symbolic links)")

// IsCommandError reports whether a runtime's error says that a command cannot be executed in its container: it does not
// exist, or is not a program. A temporary error, such as a node without memory for another process, is not a command
// error.
func IsCommandError(message string) bool { return commandError().MatchString(message) }

// refusedStart returns the error of a start that the runtime has refused, with what the container's status shows of it.
func (c *call) refusedStart(ctx context.Context, id, why string) error {
	st, err := c.containerStatus(ctx, id)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		st = nil // it is gone, and what ran is not known
	}
	return failedStart(st, why)
}

// failedStart returns the error of a failed start, and whether its container has certainly not run (ADR 083). That
// takes three things: the runtime's answer, a container that is created only or that it reports as not started, and no
// word of a process.
func failedStart(st *runtimeapi.ContainerStatus, why string) error {
	f := calls.Retryable(journaletv1.CallError_CALL_ERROR_START, why)
	created := st.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED
	refused := st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && st.GetReason() == startErrorReason
	text := why + " " + st.GetMessage()
	switch {
	case st.GetId() == "", !created && !refused, st.GetStartedAt() != 0, strings.Contains(text, startedTaskText),
		isCanceledStart(text):
	case commandError().MatchString(why):
		f.FailedStart = journaletv1.FailedStart_FAILED_START_COMMAND
	default:
		f.FailedStart = journaletv1.FailedStart_FAILED_START_NOT_RUN
	}
	return f
}
