package local

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// maxPasswdBytes bounds the list of users.
	maxPasswdBytes = 1 << 20
	// maxNameBytes bounds the name of a process; the kernel keeps 15 bytes.
	maxNameBytes = 64
)

// Peer is the process at the other end of a connection, as it was when it connected.
type Peer struct {
	UID, GID uint32
	// PID is 0 if the process is in another PID namespace.
	PID int32
}

// Identify returns the process at the other end of a unix socket, as the kernel knows it.
func Identify(c net.Conn) (Peer, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return Peer{}, fmt.Errorf("%T has no peer credentials", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := cmp.Or(failed, err); err != nil {
		return Peer{}, fmt.Errorf("read the peer's credentials: %w", err)
	}
	return Peer{UID: cred.Uid, GID: cred.Gid, PID: cred.Pid}, nil
}

// ID returns the user.
func (p Peer) ID() string { return fmt.Sprintf("uid %d", p.UID) }

// String describes the peer: "user alice (uid 1000), process 4242 (kubectl)". The names are the current ones; an ended
// process has no name.
func (p Peer) String() string {
	text := fmt.Sprintf("uid %d", p.UID)
	if name := userName(p.UID); name != "" {
		text = fmt.Sprintf("user %s (uid %d)", name, p.UID)
	}
	if p.PID == 0 {
		return text
	}
	text += fmt.Sprintf(", process %d", p.PID)
	if name := processName(p.PID); name != "" {
		text += " (" + name + ")"
	}
	return text
}

// userName returns the name of a user of this machine, "" if /etc/passwd has none. It asks no name service, which may
// take its time.
func userName(uid uint32) string {
	data, _ := bounded.ReadFile("/etc/passwd", maxPasswdBytes)
	want := strconv.FormatUint(uint64(uid), 10)
	for line := range bytes.Lines(data) {
		if f := strings.SplitN(string(line), ":", 4); len(f) == 4 && f[2] == want {
			return printable(f[0])
		}
	}
	return ""
}

// processName returns the name that a process has given itself.
func processName(pid int32) string {
	data, _ := bounded.ReadFile(fmt.Sprintf("/proc/%d/comm", pid), maxNameBytes)
	return printable(strings.TrimSuffix(string(data), "\n"))
}

// printable replaces what would act on a terminal or forge the form of the text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || strings.ContainsRune("(),", r) {
			return '?'
		}
		return r
	}, s)
}

type peerKey struct{}

// PeerOf returns the peer of a request's connection.
func PeerOf(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}
