package node

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Port returns a port of 127.0.0.1 for a program that cannot choose one itself. Until the end of the test the system
// gives it to nobody: it is bound, but nothing listens, so that who names it can listen.
func Port(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	// Go's listeners set it too, and two that do may have one port while neither listens.
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	err = errors.Join(err, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, nameErr := unix.Getsockname(fd)
	in, ok := at.(*unix.SockaddrInet4)
	if err := errors.Join(err, nameErr); err != nil || !ok {
		t.Fatalf("no port: %v", err)
	}
	return in.Port
}
