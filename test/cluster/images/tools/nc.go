package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// nc sends its standard input to a port, and prints what comes back, until that ends or the seconds of -w have passed
// without anything.
func nc(args []string) error {
	network, wait := "tcp", 30*time.Second
	for ; len(args) > 0 && args[0][0] == '-'; args = args[1:] {
		switch {
		case args[0] == "-u":
			network = "udp"
		case args[0] == "-w" && len(args) > 1:
			seconds, err := strconv.Atoi(args[1])
			if err != nil {
				return err
			}
			wait, args = time.Duration(seconds)*time.Second, args[1:]
		case args[0] == "-v", args[0] == "-t":
		default:
			return fmt.Errorf("nc: %s is nothing that the specs use", args[0])
		}
	}
	if len(args) != 2 {
		return errors.New("usage: nc [-v] [-t | -u] [-w SECONDS] HOST PORT")
	}
	conn, err := net.DialTimeout(network, net.JoinHostPort(args[0], args[1]), wait)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	if _, err := conn.Write(input); err != nil {
		return err
	}
	b := make([]byte, maxMessage)
	for {
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		n, err := conn.Read(b)
		if _, err := os.Stdout.Write(b[:n]); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		}
	}
}
