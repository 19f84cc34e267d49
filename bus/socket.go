package bus

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/journalet/journalet/runtime/durable"
)

const (
	socketFile = "bus.sock"
	// socketPathFile holds the socket's path if Dir/bus.sock would be too long for one.
	socketPathFile = "bus.sock.path"
	// maxSocketPath is what fits into the kernel's sockaddr_un, without its final zero.
	maxSocketPath = 107
	runDir        = "/run"
)

// socket is the door of clients on this machine: a unix socket that only the agent's user can open.
type socket struct {
	*door
	pathFile string // file that holds the socket's path, "" if the socket is in the bus's directory
}

func listenSocket(dir string, srv *server.Server, onConnect func(), log *slog.Logger) (*socket, error) {
	path, pathFile, err := socketPath(dir)
	if err != nil {
		return nil, fmt.Errorf("bus: choose the socket's path: %w", err)
	}
	// The directory is locked: a socket that is there was left by an agent that has ended.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("bus: remove the old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("bus: listen on the socket: %w", err)
	}
	// Its directory is 0700, so no other user has connected meanwhile.
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("bus: restrict the socket to this user: %w", err)
	}
	return &socket{newDoor(l, srv, maxSocketConns, maxSocketConns, nil, onConnect, log), pathFile}, nil
}

func (s *socket) close() {
	s.door.close()
	if s.pathFile != "" {
		_ = os.Remove(s.pathFile)
		_ = os.Remove(filepath.Dir(s.l.Addr().String()))
	}
}

// socketPath returns where the socket goes: into the bus's directory, or, if that path is too long, into a private
// directory under /run that pathFile names.
func socketPath(dir string) (path, pathFile string, err error) {
	pathFile = filepath.Join(dir, socketPathFile)
	path = filepath.Join(dir, socketFile)
	if len(path) <= maxSocketPath {
		if err := os.Remove(pathFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", "", err
		}
		return path, "", nil
	}
	sum := sha256.Sum256([]byte(dir))
	private := filepath.Join(runDir, "journalet-"+hex.EncodeToString(sum[:8]))
	if err := os.Mkdir(private, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", "", err
	}
	if err := checkPrivateDir(private); err != nil {
		return "", "", err
	}
	path = filepath.Join(private, socketFile)
	return path, pathFile, durable.Write(pathFile, []byte(path+"\n"))
}

// checkPrivateDir fails if another user has put a directory or a link at path.
func checkPrivateDir(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ok || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a private directory of this user: remove it", path)
	}
	return nil
}
