package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	// maxFiles bounds the files of one folder, so that a folder mistaken for a manifest folder cannot fill the memory.
	maxFiles = 4096
	// maxWarned bounds the names that are remembered as logged.
	maxWarned = 1024
	// readDirBatch is how many names are taken from a folder in one go.
	readDirBatch = 512
	// watchTries bounds how often the watch follows a path that changes while it is set up; the reread finds the rest.
	watchTries = 3
)

// scan looks at everything: the path, the names in it, and each file, of which it reads those that look different.
func (d *Driver) scan() {
	d.refreshClasses()
	st, err := d.follow()
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil && !st.isDir() && !st.isRegular() {
		err = fmt.Errorf("%s is neither a folder nor a file", d.opts.Path)
	}
	if err != nil && !missing {
		d.setPathErr(err)
		return
	}
	names, err := d.names(st, missing)
	same := errors.Is(err, errUnchanged)
	if err != nil && !same {
		d.setPathErr(err)
		return
	}
	d.setPathErr(nil)
	d.dir = st
	if same {
		for name := range d.files {
			d.refresh(name, false)
		}
		return
	}
	d.setNames(names)
	// A name that leads nowhere yet, or had no room, is none of files: it is looked for again.
	d.listed = st.isDir() && len(d.files) == len(names) && !st.racy(d.clock.Now())
	d.scanned = true
}

// refreshClasses has every file decoded again once a runtime class has changed.
func (d *Driver) refreshClasses() {
	now := d.opts.Classes()
	if now == d.classes {
		return
	}
	d.classes = now
	for name, f := range d.files {
		f.outdated = true
		d.refresh(name, true)
	}
}

// errUnchanged says that a folder holds the names that it held when it was last listed.
var errUnchanged = errors.New("nothing was added or removed")

// follow puts the watch where it belongs and tells what the path is. The watch stands first: what changes after the
// stamp was taken is then notified.
func (d *Driver) follow() (stamp, error) {
	var st stamp
	var err error
	for range watchTries {
		st, err = statPath(d.opts.Path)
		dir, id := d.opts.Path, st.id
		if err != nil || !st.isDir() {
			parent := filepath.Dir(d.opts.Path)
			up, upErr := statPath(parent)
			if upErr != nil {
				// Nothing to watch: the reread sees it coming.
				return st, err
			}
			dir, id = parent, up.id
		}
		if !d.watch.watchDir(dir, id) {
			return st, err
		}
		d.listed = false
	}
	return st, err
}

// names lists the manifest files. A folder whose own stamp has not changed has had no name added or removed.
func (d *Driver) names(st stamp, missing bool) (map[string]bool, error) {
	switch {
	case missing:
		return nil, nil
	case st.isRegular():
		return map[string]bool{filepath.Base(d.opts.Path): true}, nil
	case d.listed && d.dir == st:
		return nil, errUnchanged
	}
	f, err := os.Open(d.opts.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]bool{}
	fresh := 0
	for {
		names, err := f.Readdirnames(readDirBatch)
		for _, name := range names {
			if strings.HasPrefix(name, ".") {
				continue
			}
			if d.files[name] == nil {
				// What is beyond the limit is not even remembered; those that were taken before keep their place.
				if fresh++; fresh > maxFiles+1 {
					continue
				}
			}
			out[name] = true
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// setNames makes files the files of these names.
func (d *Driver) setNames(names map[string]bool) {
	// What is gone makes room first.
	for name := range d.files {
		if !names[name] {
			d.forget(name)
		}
	}
	for name := range d.recorded.Files {
		if !names[name] {
			d.forget(name)
		}
	}
	for name := range d.warned {
		if !names[name] {
			delete(d.warned, name)
		}
	}
	if len(d.files) < maxFiles {
		d.tooMany = false
	}
	// Those that the journal knows come first: a flood of new files must not stop a running pod.
	for name := range names {
		if d.files[name] != nil || d.recorded.Files[name] != nil {
			d.refresh(name, false)
		}
	}
	for name := range names {
		if d.files[name] == nil {
			d.refresh(name, false)
		}
	}
}

// hasRoom tells whether one more file can be taken, and has a name that a fact can carry.
func (d *Driver) hasRoom(name string) bool {
	if !utf8.ValidString(name) {
		d.warnOnce(name, "its name is not UTF-8, ignored; rename it")
		return false
	}
	if len(d.files) < maxFiles || d.recorded.Files[name] != nil {
		return true
	}
	if !d.tooMany {
		d.tooMany = true
		d.log.Error("too many files: the others are left out; move what is no manifest elsewhere", "limit", maxFiles, "first", name)
	}
	return false
}

func (d *Driver) warnOnce(name, what string) {
	if d.warned[name] || len(d.warned) >= maxWarned {
		return
	}
	d.warned[name] = true
	d.log.Warn(what, "file", strings.ToValidUTF8(name, "?"))
}

// setPathErr keeps why the path as a whole cannot be read; nil: it can. What it held goes on.
func (d *Driver) setPathErr(err error) {
	if err != nil {
		err = fmt.Errorf("read the static pods: %w; what they were goes on, see to it that the agent may read the path", err)
	}
	d.mu.Lock()
	was := d.pathErr
	d.pathErr = err
	d.mu.Unlock()
	if err != nil && (was == nil || was.Error() != err.Error()) {
		d.log.Error("static pods not read", "error", err)
	}
}
