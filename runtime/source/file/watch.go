package file

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// changes are the notified names since the last read.
type changes struct {
	all   bool
	names map[string]bool
}

// watch is inotify on the directory, or on its parent while the path is one file or missing. Without inotify, such as
// when no instances are left, only the reread finds changes.
type watch struct {
	path   string
	log    *slog.Logger
	w      *fsnotify.Watcher
	on     string // the watched directory; empty: none
	id     inode  // its inode
	warned string // last logged error
}

func newWatch(path string, log *slog.Logger) *watch {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		w = nil
		log.Warn("no notifications: only the reread finds changes; raise fs.inotify.max_user_instances", "error", err)
	}
	return &watch{path: path, log: log, w: w}
}

func (w *watch) close() {
	if w.w != nil {
		_ = w.w.Close()
	}
}

func (w *watch) events() <-chan fsnotify.Event {
	if w.w == nil {
		return nil
	}
	return w.w.Events
}

func (w *watch) errors() <-chan error {
	if w.w == nil {
		return nil
	}
	return w.w.Errors
}

// watchDir watches the directory dir with the inode id. It reports whether the watch has changed; a listing from before
// may be outdated then.
func (w *watch) watchDir(dir string, id inode) bool {
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
func (w *watch) addEvent(e fsnotify.Event, open bool, n *changes) bool {
	if !open {
		w.w = nil
		return false
	}
	changed := filepath.Clean(e.Name)
	if w.on != w.path {
		// The parent is watched for one name.
		n.all = n.all || changed == w.path
		return changed == w.path
	}
	if changed == w.path {
		n.all = true
		return true
	}
	name := filepath.Base(changed)
	if strings.HasPrefix(name, "..") {
		// A mounted ConfigMap changes by replacing its link ..data: every file may have changed.
		n.all = true
		return true
	}
	if strings.HasPrefix(name, ".") {
		return false
	}
	if n.names == nil {
		n.names = map[string]bool{}
	}
	if n.names[name] = true; len(n.names) > maxFiles {
		n.all, n.names = true, nil
	}
	return true
}

// addError handles an error of the watcher and reports whether notifications may be lost.
func (w *watch) addError(err error, open bool, n *changes) bool {
	if !open {
		w.w = nil
		return false
	}
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.log.Warn("notification failed, reading the directory again", "error", err)
	}
	n.all = true
	return true
}
