package file

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
)

const (
	// maxReadTries bounds how often a file that changes under the reader is read at once.
	maxReadTries = 3
	// racyWindow is how old a change must be to show in the time stamps for certain. A younger file is read once more by
	// the next reread, since a second change within one tick of the file system's clock leaves the stamps as they were.
	racyWindow = 2 * time.Second
)

// Codes of the problems that this driver finds itself; the others are those of packages manifest and reading.
const (
	codeUnreadable = "unreadable" // the file cannot be read
	codeChanging   = "changing"   // the file changed while it was read, every time
)

var errChanging = errors.New("it changes while it is read")

// inode names a file or folder for as long as it exists.
type inode struct{ dev, ino uint64 }

// stamp is what tells that a file is no longer the one that was read.
type stamp struct {
	id           inode
	size         int64
	mtime, ctime unix.Timespec
	mode         uint32
}

func (s *stamp) isDir() bool     { return s.mode&unix.S_IFMT == unix.S_IFDIR }
func (s *stamp) isRegular() bool { return s.mode&unix.S_IFMT == unix.S_IFREG }

// racy tells whether a change at the time now could hide behind this stamp.
func (s *stamp) racy(now time.Time) bool {
	return now.Sub(time.Unix(s.ctime.Unix())) < racyWindow || now.Sub(time.Unix(s.mtime.Unix())) < racyWindow
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{
		id: inode{dev: st.Dev, ino: st.Ino}, size: st.Size, mtime: st.Mtim, ctime: st.Ctim, mode: st.Mode,
	}
}

// statPath follows symbolic links, as the kubelet does.
func statPath(path string) (stamp, error) {
	var st unix.Stat_t
	for {
		err := unix.Stat(path, &st)
		if err == nil {
			return stampOf(&st), nil
		}
		if !errors.Is(err, unix.EINTR) {
			return stamp{}, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
	}
}

// file is one name in the folder.
type file struct {
	stamp stamp // when it was read last
	racy  bool  // stamp does not vouch for the content
	// outdated: what was read was decoded with other runtime classes.
	outdated bool
	sum      [sha256.Size]byte
	// result is what the last reading gave; nil: the name holds nothing, because it is gone or no regular file.
	result *journaletv1.ManifestFile
	// parsed are the pods of result that have not been handed over yet.
	parsed []manifest.Parsed
}

// refresh brings one name up to date. Without a reason to believe that it changed, it is read only if its stamp differs.
func (d *Driver) refresh(name string, noticed bool) {
	path, ok := d.pathOf(name)
	if !ok {
		return
	}
	f := d.files[name]
	now, err := statPath(path)
	if err == nil && f != nil && f.stamp == now && !f.racy && !noticed {
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		d.forget(name)
		return
	}
	if f == nil {
		if !d.hasRoom(name) {
			return
		}
		f = &file{}
		d.files[name] = f
	}
	if err == nil && !now.isRegular() {
		// As the kubelet: folders are not descended into, and what a pipe or a device would give is nobody's manifest.
		d.warnOnce(name, "not a regular file, ignored")
		*f = file{stamp: now}
		d.pending[name] = true
		return
	}
	delete(d.warned, name)
	d.read(f, name, path)
}

// read reads and decodes a file, and keeps its result. A content that is the one already decoded is not decoded again.
func (d *Driver) read(f *file, name, path string) {
	data, st, err := readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.forget(name)
		return
	case err != nil:
		// No stamp is kept, so that the next reread tries again.
		*f = file{racy: true, result: unreadable(name, err)}
		d.pending[name] = true
		return
	}
	racy, sum := st.racy(d.clock.Now()), sha256.Sum256(data)
	if f.result != nil && f.sum == sum && !f.outdated {
		f.stamp, f.racy = st, racy
		return
	}
	result, parsed := feed.Decode(name, path, data, manifest.Options{
		NodeName: d.opts.Node, Source: manifest.SourceFile, Classes: d.classes,
	})
	*f = file{stamp: st, racy: racy, sum: sum, result: result, parsed: parsed}
	d.pending[name] = true
}

// forget takes a name out that is gone.
func (d *Driver) forget(name string) {
	delete(d.warned, name)
	if _, ok := d.files[name]; ok || d.recorded.Files[name] != nil {
		delete(d.files, name)
		d.pending[name] = true
	}
}

// pathOf is where the file of this name lies. It is not ok where the path is one file and the name another one's.
func (d *Driver) pathOf(name string) (string, bool) {
	if d.dir.isRegular() {
		return d.opts.Path, name == filepath.Base(d.opts.Path)
	}
	return filepath.Join(d.opts.Path, name), true
}

// readFile reads a regular file of which nothing changed meanwhile, one byte more than the limit at most.
func readFile(path string) ([]byte, stamp, error) {
	for range maxReadTries {
		data, st, err := readOnce(path)
		if !errors.Is(err, errChanging) {
			return data, st, err
		}
	}
	return nil, stamp{}, errChanging
}

func readOnce(path string) ([]byte, stamp, error) {
	// Not blocking, in case a pipe took the file's place a moment ago.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	before, err := statFile(f)
	if err != nil {
		return nil, stamp{}, err
	}
	if !before.isRegular() {
		return nil, stamp{}, errChanging
	}
	data, err := io.ReadAll(io.LimitReader(f, manifest.DefaultMaxBytes+1))
	if err != nil {
		return nil, stamp{}, err
	}
	after, err := statFile(f)
	if err != nil {
		return nil, stamp{}, err
	}
	// The name must still lead here: of two files, only the one that stands there now counts.
	named, err := statPath(path)
	if err != nil {
		return nil, stamp{}, err
	}
	whole := int64(len(data)) == after.size || int64(len(data)) > manifest.DefaultMaxBytes
	if before != after || named != after || !whole {
		return nil, stamp{}, errChanging
	}
	return data, after, nil
}

func statFile(f *os.File) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return stamp{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return stampOf(&st), nil
}

func unreadable(name string, err error) *journaletv1.ManifestFile {
	code, message := codeUnreadable, "cannot be read: "+cause(err)+"; see to it that the agent may read the file, and that its disk is well"
	if errors.Is(err, errChanging) {
		code, message = codeChanging, "changes while it is read; write manifests under another name and rename them into place"
	}
	return &journaletv1.ManifestFile{
		Path: name, Unreadable: true,
		Problems: []*journaletv1.ManifestProblem{{Code: code, Message: message}},
	}
}

// cause is an error without the path, which the reader of a problem has already.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return strings.ToValidUTF8(err.Error(), "?")
}
