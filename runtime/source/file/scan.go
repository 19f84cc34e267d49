package file

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/watch"
)

const (
	// maxFiles bounds the files of the directory, so that a wrong directory cannot fill the memory.
	maxFiles = watch.MaxNames
	// maxWarned bounds the names with a logged warning.
	maxWarned = 1024
)

// scan checks the path, its names, and each file, and reads files with another stamp.
func (d *Driver) scan() {
	d.refreshClasses()
	st, err := d.follow()
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil && !st.IsDir() && !st.IsRegular() {
		err = fmt.Errorf("%s is neither a directory nor a file", d.opts.Path)
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
	// A dangling link, or a name beyond maxFiles, is not in files and must be checked again.
	d.listed = st.IsDir() && len(d.files) == len(names) && !st.Racy(d.clock.Now())
	d.scanned = true
}

// refreshClasses decodes every file again if a runtime class has changed.
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

// errUnchanged means that a directory has the same names as at the last listing.
var errUnchanged = errors.New("no name was added or removed")

// follow watches the path, or its parent, and returns the path's stamp.
func (d *Driver) follow() (watch.Stamp, error) {
	st, moved, err := d.watch.Follow()
	d.listed = d.listed && !moved
	return st, err
}

// names lists the manifest files. If the directory's stamp is unchanged, no name was added or removed.
func (d *Driver) names(st watch.Stamp, missing bool) (map[string]bool, error) {
	switch {
	case missing:
		return nil, nil
	case st.IsRegular():
		return map[string]bool{filepath.Base(d.opts.Path): true}, nil
	case d.listed && d.dir == st:
		return nil, errUnchanged
	}
	out := map[string]bool{}
	fresh := 0
	for e, err := range bounded.Entries(d.opts.Path) {
		if err != nil {
			return nil, err
		}
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		if d.files[name] == nil {
			// Names beyond the limit are dropped; known names stay.
			if fresh++; fresh > maxFiles+1 {
				continue
			}
		}
		out[name] = true
	}
	return out, nil
}

// setNames updates files to these names.
func (d *Driver) setNames(names map[string]bool) {
	// Removed files make room first.
	for name := range d.files {
		if !names[name] {
			d.forget(name)
		}
	}
	for name := range d.sender.Files {
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
	// Files in the journal come first: many new files must not stop a running pod.
	for name := range names {
		if d.files[name] != nil || d.sender.Files[name] != nil {
			d.refresh(name, false)
		}
	}
	for name := range names {
		if d.files[name] == nil {
			d.refresh(name, false)
		}
	}
}

// hasRoom reports whether one more file fits, and whether its name is valid in a fact.
func (d *Driver) hasRoom(name string) bool {
	if !utf8.ValidString(name) {
		d.warnOnce(name, "its name is not UTF-8, ignored; rename it")
		return false
	}
	if len(d.files) < maxFiles || d.sender.Files[name] != nil {
		return true
	}
	if !d.tooMany {
		d.tooMany = true
		d.log.Error("too many files: the others are ignored; move files that are no manifests elsewhere",
			"limit", maxFiles, "first", name)
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

// setPathErr sets why the path cannot be read; nil if it can. Its pods keep running.
func (d *Driver) setPathErr(err error) {
	if err != nil {
		err = fmt.Errorf("read the static pods: %w; they keep running; check that the agent may read the path", err)
	}
	d.mu.Lock()
	was := d.pathErr
	d.pathErr = err
	d.mu.Unlock()
	if err != nil && (was == nil || was.Error() != err.Error()) {
		d.log.Error("cannot read static pods", "error", err)
	}
}
