//go:build clients

package clients

import (
	"os/exec"
	"syscall"
	"time"
)

// group starts a command in a process group of its own, which ends with it: a script has children.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
}
