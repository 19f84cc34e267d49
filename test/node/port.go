package node

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// Port reserves a TCP port of 127.0.0.1 for a program that the test starts, until the test ends. The socket that holds
// it is bound and does not listen, and shares its address: Linux lets the program listen there, again and again, and
// gives the port to no connection and to nobody who asks for any port.
func Port(t testing.TB) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.OK(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	must.OK(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	must.OK(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := unix.Getsockname(fd)
	must.OK(t, err)
	return at.(*unix.SockaddrInet4).Port
}
