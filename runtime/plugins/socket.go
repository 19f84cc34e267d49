package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/journalet/journalet/runtime/bounded"
)

// socketMode keeps sockets to the agent's user: plugins run as root, as with the kubelet.
const socketMode = 0o600

// window bounds what a plugin may have sent and nobody has read. gRPC's first value; its own may grow to 16 MiB.
const window = 64 << 10

// Dial connects to a unix socket. Its path may be longer than the kernel's limit of a socket's path; a link is refused.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	at := short(dir, path)
	info, err := os.Lstat(at)
	if err != nil {
		return nil, err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is no socket", path)
	}
	return new(net.Dialer).DialContext(ctx, "unix", at)
}

// short returns a path of a file in an open directory that fits into a socket's address.
func short(dir *os.File, path string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
}

// NewConn returns a connection to the plugin that listens on a socket. An answer of more than maxBytes is an error.
func NewConn(path string, maxBytes int) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// Of what a plugin sends unasked no more than this waits to be read.
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return Dial(ctx, path) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBytes)))
}

// Listen listens on a socket that only this user can connect to, for at most so many connections at once. It replaces a
// socket that an earlier run has left, and nothing else. Closing it removes the socket.
func Listen(path string, connections int) (net.Listener, error) {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	at := short(dir, path)
	l, err := bind(at)
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return &listener{Listener: netutil.LimitListener(l, connections), dir: dir, at: at}, nil
}

func bind(at string) (net.Listener, error) {
	switch info, err := os.Lstat(at); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, errors.New("there is a file that is no socket; remove it")
	default:
		if err := os.Remove(at); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", at)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(at, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// listener keeps the directory of its socket open: the path that Close removes the socket by leads through it.
type listener struct {
	net.Listener
	dir *os.File
	at  string
}

func (l *listener) Close() error { return errors.Join(l.Listener.Close(), l.dir.Close()) }

// RemoveSockets removes the sockets in a directory. Their plugins notice it.
func RemoveSockets(dir string) error {
	n := 0
	for e, err := range bounded.Entries(dir) {
		if n++; err != nil {
			return err
		}
		if n > maxEntries {
			return fmt.Errorf("%s has too many files; remove them", dir)
		}
		if e.Type() != fs.ModeSocket {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
