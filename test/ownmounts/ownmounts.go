package ownmounts

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inside marks the process that has mounts of its own.
const inside = "OWN_MOUNTS_INSIDE"

// Main runs the tests and returns the exit code, for TestMain. Without root they run in a user namespace, where they
// are root.
func Main(m *testing.M) int {
	if os.Getenv(inside) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "keep mounts private:", err)
			return 1
		}
		return m.Run()
	}
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	self := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:gosec // the test itself
	self.SysProcAttr, self.Env = attr, append(os.Environ(), inside+"=1")
	self.Stdin, self.Stdout, self.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := self.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "tests that need a mount namespace; run them as root or allow user namespaces:", err)
		return 1
	}
	return 0
}
