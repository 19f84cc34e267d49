package local

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/own"
)

// SocketFile is the name of the socket in the root directory.
const SocketFile = own.Socket

const (
	// ownerMode admits the agent's user alone, groupMode a group too.
	ownerMode = 0o600
	groupMode = 0o660
	// backlog is how many connections wait to be accepted; the kernel refuses the next one at once.
	backlog = maxConnections
)

// Listener listens on a unix socket. Its connections know their peer.
type Listener struct {
	net.Listener
	path  string
	inode fileID
	users users
	once  sync.Once
}

// fileID identifies a file on this machine.
type fileID struct{ dev, ino uint64 }

// Listen listens on a socket that only this user can connect to, and the members of group, unless that is empty. The
// path may be longer than the kernel's limit of a socket's path. It replaces a socket that nobody listens on, and
// nothing else.
func Listen(path, group string) (*Listener, error) {
	gid, err := groupID(group)
	if err != nil {
		return nil, err
	}
	dir, err := openDirectory(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	defer dir.Close()
	if err := removeStale(dir, filepath.Base(path)); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l, err := bind(dir, filepath.Base(path), gid)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l.path = path
	return l, nil
}

// groupID returns the id of a group by its name or number, -1 for none.
func groupID(group string) (int, error) {
	if group == "" {
		return -1, nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		if id, numeric := strconv.ParseUint(group, 10, 31); numeric == nil {
			return int(id), nil
		}
		return 0, fmt.Errorf("group %q of the socket: %w; create it, or name another with --api-socket-group", group, err)
	}
	return strconv.Atoi(g.Gid)
}

// openDirectory opens the socket's directory. It refuses a directory where others may replace files, or that another
// user owns.
func openDirectory(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("%w; create the directory, or choose another path with --api-socket", err)
	}
	info, err := dir.Stat()
	if err == nil && info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		err = fmt.Errorf("others may replace files in %s; take their permission to write, or choose another path with "+
			"--api-socket", path)
	}
	if owner := ownerOf(info); err == nil && !trusted(owner, os.Geteuid()) {
		err = fmt.Errorf("uid %d owns %s and may replace files in it; give it to this user, or choose another path with "+
			"--api-socket", owner, path)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// ownerOf returns the user that owns a file, -1 if that is not known.
func ownerOf(info fs.FileInfo) int {
	if info == nil {
		return -1
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}

// trusted reports whether a user may put files where the process of another one uses them: root, and itself.
func trusted(uid, user int) bool { return uid == 0 || uid == user }

// short returns a path of a file in an open directory that fits into a socket's address.
func short(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// removeStale removes a socket that nobody listens on. Anything else at its place is an error.
func removeStale(dir *os.File, name string) error {
	info, err := os.Lstat(short(dir, name))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is no socket; remove it, or choose another path with --api-socket")
	}
	c, err := net.Dial("unix", short(dir, name))
	if err == nil {
		c.Close()
		return errors.New("another process listens on it; stop it, or choose another path with --api-socket")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(short(dir, name))
}

// bind creates the socket, sets its owner and mode, and listens only then: nobody connects before.
func bind(dir *os.File, name string, gid int) (*Listener, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close() // FileListener has a descriptor of its own
	path := short(dir, name)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	l := &Listener{users: users{byID: map[uint32]int{}}}
	if err = restrict(path, gid); err == nil {
		l.inode, err = identify(path)
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err == nil {
		l.Listener, err = net.FileListener(f)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return l, nil
}

func restrict(path string, gid int) error {
	mode := fs.FileMode(ownerMode)
	if gid >= 0 {
		mode = groupMode
		if err := os.Lchown(path, -1, gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}

func identify(path string) (fileID, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return fileID{st.Dev, st.Ino}, err
}

// Path returns the path of the socket.
func (l *Listener) Path() string { return l.path }

// Close closes the listener and removes its socket, unless another process has replaced it.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() {
		if id, idErr := identify(l.path); idErr == nil && id == l.inode {
			err = errors.Join(err, os.Remove(l.path))
		}
	})
	return err
}

// Accept returns the next connection within the limits of its user. Connections beyond them are closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.users.admit(raw); c != nil {
			return c, nil
		}
		raw.Close()
	}
}
