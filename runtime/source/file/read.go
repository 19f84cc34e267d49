package file

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
)

const (
	// maxReadTries bounds the attempts to read a file that changes during the read.
	maxReadTries = 3
	// racyWindow is the minimum age of a file whose time stamps reveal every later change. The next reread reads a younger
	// file again, because a second change within one tick of the file system's clock leaves the time stamps unchanged.
	racyWindow = 2 * time.Second
)

// Codes of the problems of this driver, in addition to those of packages manifest and feed.
const (
	codeUnreadable = "unreadable" // the file cannot be read
	codeChanging   = "changing"   // the file changed during every attempt to read it
)

var errChanging = errors.New("the file changes during the read")

// inode identifies a file or directory while it exists.
type inode struct{ dev, ino uint64 }

// stamp is the metadata of a file by which a change is detected.
type stamp struct {
	id           inode
	size         int64
	mtime, ctime unix.Timespec
	mode         uint32
}

func (s *stamp) isDir() bool     { return s.mode&unix.S_IFMT == unix.S_IFDIR }
func (s *stamp) isRegular() bool { return s.mode&unix.S_IFMT == unix.S_IFREG }

// racy reports whether a change at the time now might not change this stamp.
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

// file is one name in the directory.
type file struct {
	stamp stamp // at the last read
	racy  bool  // the content may have changed since stamp
	// outdated means that the content was decoded with other runtime classes.
	outdated bool
	sum      [sha256.Size]byte
	// result is the decoded content; nil if the name is gone or not a regular file.
	result *journaletv1.ManifestFile
	// parsed are the pods of result until it is emitted.
	parsed []manifest.Parsed
}

// refresh updates one name. Unless a notification named it, it is read only if its stamp differs.
func (d *Driver) refresh(name string, notified bool) {
	path, ok := d.pathOf(name)
	if !ok {
		return
	}
	f := d.files[name]
	now, err := statPath(path)
	if err == nil && f != nil && f.stamp == now && !f.racy && !notified {
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
		// As in the kubelet, subdirectories, pipes and devices are ignored.
		d.warnOnce(name, "not a regular file, ignored")
		*f = file{stamp: now}
		d.pending[name] = true
		return
	}
	delete(d.warned, name)
	d.read(f, name, path)
}

// read reads a file, and decodes it unless the content is unchanged.
func (d *Driver) read(f *file, name, path string) {
	data, st, err := readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.forget(name)
		return
	case err != nil:
		// Without a stamp, the next reread reads it again.
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

// forget removes a name that is gone.
func (d *Driver) forget(name string) {
	delete(d.warned, name)
	if _, ok := d.files[name]; ok || d.sender.Files[name] != nil {
		delete(d.files, name)
		d.pending[name] = true
	}
}

// pathOf returns the path of a name. ok is false if Path is one file with another name.
func (d *Driver) pathOf(name string) (string, bool) {
	if d.dir.isRegular() {
		return d.opts.Path, name == filepath.Base(d.opts.Path)
	}
	return filepath.Join(d.opts.Path, name), true
}

// readFile reads at most the limit plus one byte of a regular file. It fails if the file changes during each attempt.
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
	f, err := bounded.Open(path)
	if errors.Is(err, bounded.ErrNotRegular) {
		return nil, stamp{}, errChanging // it was regular just before
	}
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	before, err := statFile(f)
	if err != nil {
		return nil, stamp{}, err
	}
	// The decoder refuses one byte more than the limit.
	data, err := bounded.ReadAll(f, manifest.DefaultMaxBytes+1)
	if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
		return nil, stamp{}, err
	}
	after, err := statFile(f)
	if err != nil {
		return nil, stamp{}, err
	}
	// The name may have got another file meanwhile.
	named, err := statPath(path)
	if err != nil {
		return nil, stamp{}, err
	}
	complete := int64(len(data)) == after.size || int64(len(data)) > manifest.DefaultMaxBytes
	if before != after || named != after || !complete {
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
	if errors.Is(err, errChanging) {
		return feed.Unreadable(name, codeChanging,
			"changes while it is read; write manifests under another name and rename them into place")
	}
	return feed.Unreadable(name, codeUnreadable,
		"cannot be read: "+cause(err)+"; check the file's permissions and the disk")
}

// cause returns an error's text without the path, which the problem has already.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return strings.ToValidUTF8(err.Error(), "?")
}
