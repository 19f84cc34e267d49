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

	"github.com/nats-io/nats-server/v2/server"
)

const (
	socketFile = "bus.sock"
	// socketPathFile says where the socket is when its path would be too long for one.
	socketPathFile = "bus.sock.path"
	// maxSocketPath is what fits the kernel's sockaddr_un with its final zero.
	maxSocketPath = 107
	// maxSocketConns leaves room among the server's connections for the agent's own and for TCP.
	maxSocketConns = maxConnections / 2
	runDir         = "/run"
	// maxInfoLine is more than the server's first line ever has.
	maxInfoLine = 32 << 10
)

// socket lets observers on this machine in without an open port. It carries bytes between them and the
// server, which asks for their key as on any other connection.
type socket struct {
	l     net.Listener
	srv   *server.Server
	log   *slog.Logger
	where string // file that says where the socket is, "" for the usual place
	slots chan struct{}
	came  func() // told of each connection

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	byID   map[uint64]net.Conn // the ends towards the server, by the server's number of them
	closed bool
	wg     sync.WaitGroup
}

func listenSocket(dir string, srv *server.Server, came func(), log *slog.Logger) (*socket, error) {
	path, where, err := socketPath(dir)
	if err != nil {
		return nil, fmt.Errorf("bus: make the socket: %w", err)
	}
	// The folder is locked: a socket that is there was left by an agent that is gone.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("bus: remove the old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("bus: listen on the socket: %w", err)
	}
	// Its folder is 0700, so nobody came in between.
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("bus: close the socket to others: %w", err)
	}
	s := &socket{l: l, srv: srv, log: log, came: came, where: where, slots: make(chan struct{}, maxSocketConns), conns: make(map[net.Conn]struct{}), byID: make(map[uint64]net.Conn)}
	s.wg.Add(1)
	go s.accept()
	return s, nil
}

// socketPath is where the socket goes: into the bus's folder, or, if that is too deep, into a private
// one under /run that the bus's folder names.
func socketPath(dir string) (path, where string, err error) {
	where = filepath.Join(dir, socketPathFile)
	path = filepath.Join(dir, socketFile)
	if len(path) <= maxSocketPath {
		if err := os.Remove(where); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", "", err
		}
		return path, "", nil
	}
	sum := sha256.Sum256([]byte(dir))
	private := filepath.Join(runDir, "journalet-"+hex.EncodeToString(sum[:8]))
	if err := os.Mkdir(private, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", "", err
	}
	if err := ownFolder(private); err != nil {
		return "", "", err
	}
	path = filepath.Join(private, socketFile)
	return path, where, writeFileDurably(where, []byte(path+"\n"))
}

// ownFolder makes sure that nobody else put a folder or a link in the way of ours.
func ownFolder(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ownedByUs(info) {
		return fmt.Errorf("%s is not a private folder of this user: remove it", path)
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
				s.log.Error("the bus's socket is closed: commands on this machine cannot reach the agent until it is restarted", "err", err)
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
		s.came()
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

// serve carries bytes both ways until one side ends.
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
			id = s.number(line, in)
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

// number learns from the server's first line by which number it knows a connection.
func (s *socket) number(line []byte, in net.Conn) uint64 {
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

// cut ends a connection at once, with all that is kept for it: the server itself would wait for its write to end. It does
// nothing for one that did not come by the socket.
func (s *socket) cut(id uint64) {
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
	// An accept that waits for a slot gets one from the connections that end now.
	s.wg.Wait()
	if s.where != "" {
		_ = os.Remove(s.where)
		_ = os.Remove(filepath.Dir(s.l.Addr().String()))
	}
}
