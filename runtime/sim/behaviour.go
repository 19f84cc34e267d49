package sim

import (
	"path"
	"slices"
	"strings"
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
	// OOM makes its end an OOM kill: code 137, reason OOMKilled.
	OOM bool
	// IgnoreTERM makes the stop signal do nothing, so that a stop takes the whole grace period and ends with 137.
	IgnoreTERM bool
	// OnTERM is what it does from the stop signal on (a handler that cleans up and exits); nil means to die of it with
	// 143 at once. Its own IgnoreTERM and OnTERM don't matter: the signal is sent only once.
	OnTERM *Behaviour
	// Effects are what it does on the way, in order of After.
	Effects []Effect
	// MemoryBytes is what it uses of memory while it runs; 0: defaultMemoryBytes.
	MemoryBytes uint64
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
var deafPrograms = []string{"sleep", "cat", "tail", "httpd", "nc", "yes", "top"}

// shells are the programs whose -c argument is interpreted.
var shells = []string{"sh", "ash", "bash", "dash"}

// Interpret guesses a behaviour from a container's command and arguments: sleep, true, false, echo, exit and small
// shell scripts do what they say (shell.go lists what is understood); everything else runs forever, and a program not
// known by name dies of SIGTERM with 143. A script that loops without end is played for maxShellSteps commands and then
// only runs on, silently. A command that is empty (the image's own) runs forever.
func Interpret(config *cri.ContainerConfig) Behaviour {
	argv := slices.Concat(config.GetCommand(), config.GetArgs())
	sh := newShell(config, fileSet{})
	return sh.behaviour(argv, isPID1(config))
}

// interpretExec is Interpret for a command run in a container that runs already. A command that is not understood
// succeeds at once, since nothing is known of the image that could make it fail.
func interpretExec(config *cri.ContainerConfig, files fileSet, argv []string) Behaviour {
	sh := newShell(config, files)
	b := sh.behaviour(argv, false)
	if sh.lost {
		return Behaviour{}
	}
	return b
}

// isPID1 says whether a container's process is the first of its own PID namespace.
func isPID1(config *cri.ContainerConfig) bool {
	return config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetPid() == cri.NamespaceMode_CONTAINER
}

// behaviour plays a command line to its end, in no time, and tells what would have happened when.
func (sh *shell) behaviour(argv []string, pid1 bool) Behaviour {
	argv = sh.unwrap(argv)
	if len(argv) == 0 {
		sh.lost = true
		return Behaviour{RunFor: Forever}
	}
	program := path.Base(argv[0])
	deaf := slices.Contains(deafPrograms, program)
	if slices.Contains(shells, program) {
		deaf = true
		if in, ok := shellScript(argv[1:]); ok {
			sh.params, sh.errexit = in.params, in.errexit
			sh.runScript(in.script)
		} else if len(argv) > 1 {
			sh.lose() // a script file: its content is unknown
		}
	} else {
		sh.simple(argv)
	}
	b := Behaviour{RunFor: sh.now, ExitCode: sh.status, OOM: sh.oom, Effects: sh.effects}
	if sh.lost {
		b.RunFor, b.ExitCode = Forever, 0
	}
	switch {
	case sh.trap != nil:
		b.OnTERM, b.IgnoreTERM = sh.onTERM()
	case deaf && pid1:
		b.IgnoreTERM = true
	}
	return b
}

// unwrap takes "busybox", "env A=B" and "exec" off the front of a command line.
func (sh *shell) unwrap(argv []string) []string {
	for len(argv) > 0 {
		switch path.Base(argv[0]) {
		case "busybox", "exec":
			if len(argv) == 1 {
				return argv
			}
			argv = argv[1:]
		case "env":
			rest := argv[1:]
			for len(rest) > 0 && strings.Contains(rest[0], "=") {
				k, v, _ := strings.Cut(rest[0], "=")
				sh.setEnv(k, v)
				rest = rest[1:]
			}
			if len(rest) == 0 {
				return argv
			}
			argv = rest
		default:
			return argv
		}
	}
	return argv
}

// invocation is what a shell was called with: its script, the script's $0, $1 and so on, and whether -e is set.
type invocation struct {
	script  string
	params  []string
	errexit bool
}

// shellScript finds the script among a shell's arguments: after -c, which may be joined with other flags (-ec).
func shellScript(args []string) (in invocation, ok bool) {
	for i, a := range args {
		if !strings.HasPrefix(a, "-") {
			return in, false
		}
		if strings.HasPrefix(a, "--") {
			continue
		}
		in.errexit = in.errexit || strings.Contains(a, "e")
		if strings.Contains(a, "c") {
			if i+1 == len(args) {
				return in, false
			}
			in.script, in.params = args[i+1], args[i+2:]
			return in, true
		}
	}
	return in, false
}

// onTERM plays the trap: one that exits ends the process, one that does not is as good as ignoring the signal.
func (sh *shell) onTERM() (handler *Behaviour, ignore bool) {
	if *sh.trap == "" {
		return nil, true
	}
	t := &shell{config: sh.config, files: sh.files, env: sh.env, order: sh.order, dir: sh.dir}
	t.runScript(*sh.trap)
	if !t.done || t.lost {
		return nil, true
	}
	return &Behaviour{RunFor: t.now, ExitCode: t.status, Effects: t.effects}, false
}
