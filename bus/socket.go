package bus

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	socketFile = "bus.sock"
	// socketPathFile holds the socket's path if Dir/bus.sock would be too long for one.
	socketPathFile = "bus.sock.path"
	// maxSocketPath is what fits into the kernel's sockaddr_un, without its final zero.
	maxSocketPath = 107
	// maxSocketConns leaves connections of the server for the agent's own and for TCP.
	maxSocketConns = maxConnections / 2
	runDir         = "/run"
	// maxInfoLine is longer than the server's first line ever is.
	maxInfoLine = 32 << 10
)

// socket is a unix socket by which observers on this machine reach the server without an open port. It copies bytes
// between them and the server, which requires their key as on any other connection.
type socket struct {
	l         net.Listener
	srv       *server.Server
	log       *slog.Logger
	pathFile  string // file that holds the socket's path, "" if the socket is in the bus's directory
	slots     chan struct{}
	onConnect func() // called for each connection

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	byID   map[uint64]net.Conn // the server's side of each connection, by the server's client id
	closed bool
	wg     sync.WaitGroup
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
	s := &socket{
		l: l, srv: srv, log: log, onConnect: onConnect, pathFile: pathFile, slots: make(chan struct{}, maxSocketConns),
		conns: make(map[net.Conn]struct{}), byID: make(map[uint64]net.Conn),
	}
	s.wg.Add(1)
	go s.accept()
	return s, nil
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
	return path, pathFile, writeFileDurably(pathFile, []byte(path+"\n"))
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

func (s *socket) accept() {
	defer s.wg.Done()
	for {
		s.slots <- struct{}{}
		c, err := s.l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.log.Error("the bus's socket is closed: commands on this machine cannot reach the agent until it restarts",
					"err", err)
			}
			return
		}
		in, err := s.srv.InProcessConn()
		if err != nil || !s.add(c, in) {
			c.Close()
			if in != nil {
				in.Close()
			}
			<-s.slots
			continue
		}
		s.onConnect()
		s.wg.Add(1)
		go s.serve(c, in)
	}
}

func (s *socket) add(conns ...net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	for _, c := range conns {
		s.conns[c] = struct{}{}
	}
	return true
}

// serve copies bytes both ways until one side ends.
func (s *socket) serve(c, in net.Conn) {
	defer s.wg.Done()
	done := make(chan struct{}, 2)
	id := uint64(0)
	go func() {
		_, _ = io.Copy(in, c)
		done <- struct{}{}
	}()
	go func() {
		from := bufio.NewReaderSize(in, maxInfoLine)
		if line, err := from.ReadSlice('\n'); err == nil {
			id = s.register(line, in)
			if _, err := c.Write(line); err == nil {
				_, _ = io.Copy(c, from)
			}
		}
		done <- struct{}{}
	}()
	<-done
	c.Close()
	in.Close()
	<-done
	s.mu.Lock()
	delete(s.conns, c)
	delete(s.conns, in)
	delete(s.byID, id)
	s.mu.Unlock()
	<-s.slots
}

// register reads the client id of a connection from the server's first line.
func (s *socket) register(line []byte, in net.Conn) uint64 {
	var info struct {
		ID uint64 `json:"client_id"`
	}
	if json.Unmarshal(bytes.TrimPrefix(line, []byte("INFO ")), &info) != nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[info.ID] = in
	return info.ID
}

// disconnect closes a connection at once, with all bytes pending for it: the server itself would wait for its write
// to end. It does nothing for a client that is not connected by the socket.
func (s *socket) disconnect(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.byID[id]; in != nil {
		in.Close()
	}
}

func (s *socket) close() {
	s.l.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	// An accept that waits for a slot gets one from a connection that ends now.
	s.wg.Wait()
	if s.pathFile != "" {
		_ = os.Remove(s.pathFile)
		_ = os.Remove(filepath.Dir(s.l.Addr().String()))
	}
}
