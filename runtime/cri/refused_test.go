package cri_test

import (
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
)

// What is known of a refused start decides whether a container with restartPolicy Never is started again. The texts
// come from containerd with runc and crun, and from runc alone.
func TestRefusedStartShowsWhetherAProcessRan(t *testing.T) {
	const (
		task    = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
		runc    = task + "runc create failed: unable to start container process: "
		notRun  = journaletv1.FailedStart_FAILED_START_NOT_RUN
		command = journaletv1.FailedStart_FAILED_START_COMMAND
		unknown = journaletv1.FailedStart_FAILED_START_UNSPECIFIED
	)
	for want, texts := range map[journaletv1.FailedStart][]string{
		notRun: {
			runc + `error during container init: error mounting "/v/0" to rootfs at "/etc/x": no such file or directory`,
			task + `runc create failed: unable to apply cgroup configuration: no such file or directory`,
			task + `crun: open "/v/0": No such file or directory`,
			`failed to create containerd task: failed to start shim: exec: "runc": executable file not found in $PATH`,
			runc + `exec: "/bin/x": text file busy`,
		},
		command: {
			runc + `exec: "x": executable file not found in $PATH`,
			runc + `error during container init: exec: "x": executable file not found in $PATH`,
			runc + `exec: "/etc": is a directory`,
			runc + `exec: "/x": permission denied`,
			runc + `exec: "/x": stat /x: no such file or directory`,
			runc + `exec /x: exec format error`,
			task + "crun: executable file `x` not found in $PATH: No such file or directory",
			task + "crun: open executable: Permission denied",
			`container_linux.go:380: starting container process caused: exec: "x": executable file not found in $PATH`,
		},
		unknown: {
			`failed to start containerd task "main": OCI runtime start failed: cannot start a container that has stopped`,
			task + "signal: killed",
		},
	} {
		for _, why := range texts {
			checkRefused(t, why, want)
		}
	}
}

func checkRefused(t *testing.T, why string, want journaletv1.FailedStart) {
	t.Helper()
	r := newRig(t, nil)
	r.pod.Spec.Containers[0].Command = []string{"/refused", why}
	sandbox := r.sandbox()
	id := r.done("m", createOnly(sandbox), false).GetContainerId()
	for _, inDoubt := range []bool{false, true} {
		out := r.perform("s", startOnly(sandbox, id), inDoubt)
		if inDoubt && out.GetError() == journaletv1.CallError_CALL_ERROR_NOT_DONE {
			continue // it was cancelled before there was a task, and is removed
		}
		if out.GetError() != journaletv1.CallError_CALL_ERROR_START || out.GetFailedStart() != want {
			t.Errorf("%s (in doubt: %t): %s, %s; want %s", why, inDoubt, out.GetError(), out.GetFailedStart(), want)
		}
	}
}
