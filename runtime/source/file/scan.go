package file

import (
	"errors"
	"fmt"
	"io/fs"
	"unicode/utf8"

	"github.com/journalet/journalet/messages/plain"
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
	st, moved, err := d.watch.Follow()
	d.listed = d.listed && !moved
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil && !st.IsDir() && !st.IsRegular() {
		err = fmt.Errorf("%s is neither a directory nor a file", d.opts.Path)
	}
	if err != nil && !missing {
		d.setPathErr(err)
		return
	}
	if d.listed && d.dir == st {
		// No name was added or removed.
		d.setPathErr(nil)
		for name := range d.files {
			d.refresh(name, false)
		}
		return
	}
	names, err := d.watch.Names(st, missing, func(name string) bool { return d.files[name] != nil })
	d.setPathErr(err)
	if err != nil {
		return
	}
	d.dir = st
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
	d.log.Warn(what, "file", plain.Quote(name, false))
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
