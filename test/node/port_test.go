package node_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

func TestPortIsGivenToNobodyElseAndCanBeListenedOn(t *testing.T) {
	port := node.Port(t)
	// The system is asked for any port of a range that has this one only. Before Linux 6.3 it knows no such range.
	const portRange = 51 // the option's number in linux/in.h
	only := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, portRange, port<<16|port)
		}), err)
	}}
	l, err := only.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err == nil {
		l.Close()
	}
	if !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, unix.ENOPROTOOPT) {
		t.Errorf("somebody else who asks for a port gets %v", err)
	}
	for range 2 { // a program that is started again
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		must.OK(t, err)
		c, err := net.Dial("tcp", l.Addr().String())
		must.OK(t, err)
		must.OK(t, c.Close())
		must.OK(t, l.Close())
	}
}
