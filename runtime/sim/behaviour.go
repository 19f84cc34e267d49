package sim

import (
	"slices"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Forever as Behaviour.RunFor: the process ends only by a signal.
const Forever time.Duration = -1

// Stream is an output stream of a process, named as in the CRI log format.
type Stream string

// The two streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Behaviour is what a container's process does once it is started.
type Behaviour struct {
	// RunFor is how long it runs by the clock; 0 ends at once, Forever (any negative value) never.
	RunFor time.Duration
	// ExitCode is what it ends with by itself.
	ExitCode int32
	// OOM turns its end into an OOM kill: code 137, reason OOMKilled.
	OOM bool
	// IgnoreTERM: the stop signal does nothing, so that a stop takes the whole grace period and ends with 137.
	IgnoreTERM bool
	// OnTERM is what it does from the stop signal on (a handler that cleans up and exits); nil means to die of it with
	// 143 at once. Its own IgnoreTERM and OnTERM don't matter: the signal is sent only once.
	OnTERM *Behaviour
	// Effects are what it does on the way, in order of After.
	Effects []Effect
	// StartError, if not empty, makes StartContainer fail with it (a missing binary): code 128, reason StartError.
	StartError string
}

// Effect is one thing a process does: a piece of output, or, with File set, a change to a file.
type Effect struct {
	// After is the time since the start.
	After time.Duration
	// Stream is where Text goes; empty is stdout.
	Stream Stream
	// Text is the output, with its line ends, or the file's new content.
	Text string
	// File is an absolute path in the container.
	File string
	// Append adds to the file, Remove deletes it.
	Append, Remove bool
}

// deafPrograms have no handler for SIGTERM. The kernel keeps a signal without a handler from the first process of a
// PID namespace, so as a container's PID 1 they are stopped only by SIGKILL.
var deafPrograms = []string{"sleep", "cat", "tail", "httpd", "nc", "yes", "top", "sh", "ash", "bash", "dash"}

// Interpret guesses a behaviour from a container's command and arguments: the commands of commands.go and scripts of
// them do what their names promise; everything else runs forever, and a program not known by name dies of SIGTERM with
// 143. A script that loops without end runs for maxShellSteps commands and then keeps running, silently. A command that
// is empty (the image's own) runs forever.
func Interpret(config *cri.ContainerConfig) Behaviour {
	sh := newShell(config, fileSet{})
	b := sh.behaviour(slices.Concat(config.GetCommand(), config.GetArgs()))
	pid1 := config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetPid() == cri.NamespaceMode_CONTAINER
	switch {
	case sh.trap != nil:
		b.OnTERM = sh.onTERM()
		b.IgnoreTERM = b.OnTERM == nil
	case pid1:
		b.IgnoreTERM = slices.Contains(deafPrograms, sh.program)
	}
	return b
}

// interpretExec is Interpret for a command run in a container that runs already. A command that is not understood
// succeeds at once, since nothing is known of the image that could make it fail.
func interpretExec(config *cri.ContainerConfig, files fileSet, argv []string) Behaviour {
	sh := newShell(config, files)
	b := sh.behaviour(argv)
	if sh.lost {
		return Behaviour{}
	}
	return b
}

// behaviour runs a command line to its end, in no time, and returns what would have happened when.
func (sh *shell) behaviour(argv []string) Behaviour {
	if len(argv) == 0 {
		sh.lose()
	} else {
		sh.status = sh.run(argv)
	}
	return sh.result()
}

// onTERM runs the trap. One that does not exit is as good as ignoring the signal: the result is nil.
func (sh *shell) onTERM() *Behaviour {
	handler := newShell(sh.config, sh.files)
	handler.vars, handler.dir = sh.vars, sh.dir
	handler.interpret(*sh.trap)
	if !handler.done || handler.lost {
		return nil
	}
	b := handler.result()
	return &b
}
