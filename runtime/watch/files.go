package watch

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/journalet/journalet/messages/plain"
)

// maxWarned bounds the names with a logged warning.
const maxWarned = 1024

// Files are the files of a path: all of a directory, at most MaxNames beside known files, or the file that the
// path names. Files finds out which files have changed, and reads these; what they hold is the Reader's. Its methods
// are for one goroutine.
type Files struct {
	*Path
	// One refuses a directory.
	One bool

	reader Reader
	limit  int64
	now    func() time.Time

	seen    map[string]*seen // by name
	dir     Stamp            // of the path at the last listing
	listed  bool             // seen has the listing of dir
	warned  map[string]bool  // names with a logged warning
	tooMany bool             // an error about more than MaxNames was logged
}

// A Reader takes what the files of a path hold. A name is within the path; path is where it is.
type Reader interface {
	// Changed takes the content of a file that is new, or not as it was at the last read. One that exceeds the limit of
	// bytes has one byte more. If it returns false, the next check reads the file again.
	Changed(name, path string, data []byte, st Stamp) bool
	// Unreadable says why a file cannot be read now; ErrChanging while somebody writes it. The next check tries again. If
	// it returns true, what was read before is still in use, and need not be taken again.
	Unreadable(name, path string, err error) bool
	// Gone says that a name is not there any more, or is no regular file.
	Gone(name string)
	// Known reports whether a file was there before this run: it is read before others, and always has room.
	Known(name string) bool
}

// seen is a file as it was at the last read.
type seen struct {
	stamp Stamp
	racy  bool // the content may have changed since stamp
	taken bool // the reader has the content with the digest sum
	sum   [sha256.Size]byte
}

// NewFiles returns the files of a path, which the first Scan reads. A file has at most limit bytes.
func NewFiles(path *Path, limit int64, now func() time.Time, reader Reader) *Files {
	return &Files{
		Path: path, reader: reader, limit: limit, now: now, seen: map[string]*seen{}, warned: map[string]bool{},
	}
}

// Scan checks the path, its names and each file, and reads the files with another stamp. It fails if the path cannot be
// read; a missing one has no files.
func (f *Files) Scan() error {
	st, moved, err := f.follow()
	f.listed = f.listed && !moved
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil && !st.IsDir() && !st.IsRegular() {
		err = fmt.Errorf("%s is neither a directory nor a file", f.path)
	} else if err == nil && st.IsDir() && f.One {
		err = fmt.Errorf("%s is a directory; name a file", f.path)
	}
	if err != nil && !missing {
		return err
	}
	if f.listed && f.dir == st { // no name was added or removed
		for name := range f.seen {
			f.refresh(name, false)
		}
		return nil
	}
	names, err := f.names(st, missing, func(name string) bool { return f.seen[name] != nil })
	if err != nil {
		return err
	}
	f.dir = st
	f.setNames(names)
	// A dangling link, or a name beyond MaxNames, is not in seen and must be checked again.
	f.listed = st.IsDir() && len(f.seen) == len(names) && !st.Racy(f.now())
	return nil
}

// Relist has the next Scan list the names, also if the directory's stamp is as before.
func (f *Files) Relist() { f.listed = false }

// Refresh reads a file again that a notification named.
func (f *Files) Refresh(name string) { f.refresh(name, true) }

// Forget has a file count as gone until it is read again.
func (f *Files) Forget(name string) { f.forget(name) }

// Retake reads all files again, and has the reader take them although they are as before.
func (f *Files) Retake() {
	for name, s := range f.seen {
		s.taken = false
		f.refresh(name, true)
	}
}

// Len returns the number of files, and of names that are no regular files.
func (f *Files) Len() int { return len(f.seen) }

// Has reports whether a name is there.
func (f *Files) Has(name string) bool { return f.seen[name] != nil }

// Where returns the path of a name.
func (f *Files) Where(name string) string {
	path, _ := f.join(f.dir, name)
	return path
}

// setNames updates the files to these names. Removed files make room first, and known ones come before new ones: many
// new files must not push a known one out.
func (f *Files) setNames(names map[string]bool) {
	for name := range maps.Clone(f.seen) {
		if !names[name] {
			f.forget(name)
		}
	}
	maps.DeleteFunc(f.warned, func(name string, _ bool) bool { return !names[name] })
	if len(f.seen) < MaxNames {
		f.tooMany = false
	}
	known := func(name string) bool { return f.seen[name] != nil || f.reader.Known(name) }
	var others []string
	for name := range names {
		if known(name) {
			f.refresh(name, false)
		} else {
			others = append(others, name)
		}
	}
	for _, name := range others {
		f.refresh(name, false)
	}
}

// refresh updates one name. Unless a notification named it, it is read only if its stamp differs.
func (f *Files) refresh(name string, notified bool) {
	path, ok := f.join(f.dir, name)
	if !ok {
		return
	}
	s := f.seen[name]
	st, err := Stat(path)
	if err == nil && s != nil && s.stamp == st && !s.racy && !notified {
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		f.forget(name)
		return
	}
	if s == nil {
		if !f.hasRoom(name) {
			return
		}
		s = &seen{}
		f.seen[name] = s
	}
	if err == nil && !st.IsRegular() {
		// As in the kubelet, directories below, pipes and devices are ignored.
		f.warnOnce(name, "not a regular file, ignored")
		*s = seen{stamp: st}
		f.reader.Gone(name)
		return
	}
	delete(f.warned, name)
	f.read(s, name, path)
}

// read reads a file, and has the reader take it unless the content is unchanged.
func (f *Files) read(s *seen, name, path string) {
	data, st, err := Read(path, f.limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.forget(name)
		return
	case err != nil:
		// It is racy: the next check reads it again.
		s.racy, s.taken = true, f.reader.Unreadable(name, path, err) && s.taken
		return
	}
	racy, sum := st.Racy(f.now()), sha256.Sum256(data)
	if s.taken && s.sum == sum && s.stamp.Shared() == st.Shared() {
		s.stamp, s.racy = st, racy
		return
	}
	taken := f.reader.Changed(name, path, data, st)
	*s = seen{stamp: st, racy: racy || !taken, taken: taken, sum: sum}
}

// forget removes a name that is gone.
func (f *Files) forget(name string) {
	delete(f.warned, name)
	if f.seen[name] != nil || f.reader.Known(name) {
		delete(f.seen, name)
		f.reader.Gone(name)
	}
}

// hasRoom reports whether one more file fits, and whether its name can be in a message.
func (f *Files) hasRoom(name string) bool {
	if !utf8.ValidString(name) {
		f.warnOnce(name, "its name is not UTF-8, ignored; rename it")
		return false
	}
	if len(f.seen) < MaxNames || f.reader.Known(name) {
		return true
	}
	if !f.tooMany {
		f.tooMany = true
		f.log.Error("too many files: the others are ignored; move some of them elsewhere", "limit", MaxNames,
			"first", plain.Quote(name, false))
	}
	return false
}

func (f *Files) warnOnce(name, what string) {
	if f.warned[name] || len(f.warned) >= maxWarned {
		return
	}
	f.warned[name] = true
	f.log.Warn(what, slog.String("file", plain.Quote(name, false)))
}
