package node_test

import (
	"errors"
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

func TestReservedPortIsForTheProgramOfItsTestAlone(t *testing.T) {
	port := node.Port(t)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.OK(t, err)
	defer func() { _ = unix.Close(fd) }()
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a socket that shares no address gets the port: %v", err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for range 2 { // a program that is started again
		l, err := net.Listen("tcp", address)
		must.OK(t, err)
		c, err := net.Dial("tcp", address)
		must.OK(t, err)
		s, err := l.Accept()
		must.OK(t, err)
		must.OK(t, errors.Join(s.Close(), c.Close(), l.Close())) // the server's end is the one that lingers
	}
}
