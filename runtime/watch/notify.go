package watch

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// MaxNames bounds the names of Changes; beyond, all files count as changed. It is more than a directory may hold.
const MaxNames = 4096

// followTries bounds the attempts to set up the watch while the path changes; a reread finds later changes.
const followTries = 3

// Changes are the notified names since the last read. The zero value has none.
type Changes struct {
	// All means that any file may have changed, also a file that is not in Names.
	All   bool
	Names map[string]bool
	// Removed has the names among Names that were removed. A file of this name may be there again.
	Removed map[string]bool
}

// Path is inotify on a directory, or on its parent while the path is one file or missing. Without inotify, such as when
// no instances are left, only a reread finds changes. Its methods are for one goroutine.
type Path struct {
	path   string
	log    *slog.Logger
	w      *fsnotify.Watcher
	on     string // the watched directory; empty: none
	id     inode  // its inode
	warned string // last logged error
}

// New returns a watch of a path, which the first Files.Scan sets up. Close ends it.
func New(path string, log *slog.Logger) *Path {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		w = nil
		log.Warn("no notifications: only the reread finds changes; raise fs.inotify.max_user_instances", "error", err)
	}
	return &Path{path: path, log: log, w: w}
}

// Deaf returns a watch without notifications.
func Deaf(path string, log *slog.Logger) *Path { return &Path{path: path, log: log} }

// Close ends the watch.
func (w *Path) Close() {
	if w.w != nil {
		_ = w.w.Close()
	}
}

// Events returns the notifications for Gathering.AddEvent; nil without inotify.
func (w *Path) Events() <-chan fsnotify.Event {
	if w.w == nil {
		return nil
	}
	return w.w.Events
}

// Errors returns the errors for Gathering.AddError; nil without inotify.
func (w *Path) Errors() <-chan error {
	if w.w == nil {
		return nil
	}
	return w.w.Errors
}

// follow watches the path, or its parent, and returns the path's stamp. The watch is set up first, so that changes
// after the stamp are notified. moved means that the watch is another one than before: a listing from before may be
// outdated.
func (w *Path) follow() (st Stamp, moved bool, err error) {
	for range followTries {
		st, err = Stat(w.path)
		dir, id := w.path, st.id
		if err != nil || !st.IsDir() {
			parent := filepath.Dir(w.path)
			up, upErr := Stat(parent)
			if upErr != nil {
				// Nothing to watch: the reread finds the path.
				return st, moved, err
			}
			dir, id = parent, up.id
		}
		if !w.watchDir(dir, id) {
			return st, moved, err
		}
		moved = true
	}
	return st, moved, err
}

// watchDir watches the directory dir with the inode id. It reports whether the watch has changed; a listing from before
// may be outdated then.
func (w *Path) watchDir(dir string, id inode) bool {
	// WatchList is checked too: a watch ends with its directory, whose inode number may be reused, and silently when its
	// file system is unmounted.
	if w.w == nil || w.on == dir && w.id == id && slices.Contains(w.w.WatchList(), dir) {
		return false
	}
	if w.on != "" {
		// It fails if the kernel has dropped the watch with its directory.
		_ = w.w.Remove(w.on)
	}
	w.on = ""
	if err := w.w.Add(dir); err != nil {
		if text := dir + ": " + err.Error(); text != w.warned {
			w.warned = text
			w.log.Warn("cannot watch the directory: only the reread finds changes; at the limit, "+
				"raise fs.inotify.max_user_watches", "directory", dir, "error", err)
		}
		return false
	}
	w.on, w.id, w.warned = dir, id, ""
	return true
}

// addEvent adds one notification and reports whether there is something to read.
func (w *Path) addEvent(e fsnotify.Event, open bool, n *Changes) bool {
	if !open {
		w.w = nil
		return false
	}
	changed := filepath.Clean(e.Name)
	if w.on != w.path {
		// The parent is watched for one name.
		n.All = n.All || changed == w.path
		return changed == w.path
	}
	if changed == w.path {
		n.All = true
		return true
	}
	name := filepath.Base(changed)
	if strings.HasPrefix(name, "..") {
		// A mounted ConfigMap changes by replacing its link ..data: every file may have changed.
		n.All = true
		return true
	}
	if strings.HasPrefix(name, ".") {
		return false
	}
	if n.Names == nil {
		n.Names = map[string]bool{}
	}
	if e.Op.Has(fsnotify.Remove) {
		if n.Removed == nil {
			n.Removed = map[string]bool{}
		}
		n.Removed[name] = true
	}
	if n.Names[name] = true; len(n.Names) > MaxNames {
		n.All, n.Names, n.Removed = true, nil, nil
	}
	return true
}

// addError handles an error of the watcher and reports whether notifications may be lost.
func (w *Path) addError(err error, open bool, n *Changes) bool {
	if !open {
		w.w = nil
		return false
	}
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.log.Warn("notification failed, reading the directory again", "error", err)
	}
	n.All = true
	return true
}
