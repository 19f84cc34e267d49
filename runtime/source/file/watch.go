package file

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// changes is what notifications have named since the last reading.
type changes struct {
	all   bool
	names map[string]bool
}

// watch is inotify on the folder, or on its parent while the path is one file or missing. Without inotify, such as when
// the machine's instances are used up, the reread goes on alone.
type watch struct {
	path   string
	log    *slog.Logger
	w      *fsnotify.Watcher
	on     string // the folder that is watched; empty: none
	id     inode  // which folder that was
	warned string // last complaint, so that a lasting one is logged once
}

func newWatch(path string, log *slog.Logger) *watch {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		w = nil
		log.Warn("no notifications: changes are found by the reread only; raise fs.inotify.max_user_instances", "error", err)
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

// watchDir sees to it that the folder dir, which is the inode id, is the one watched. It reports whether anything changed,
// in which case what was seen before may be outdated.
func (w *watch) watchDir(dir string, id inode) bool {
	// The list is asked too: a watch ends with its folder, which another one of the same number may follow, and without
	// a word when its file system is unmounted.
	if w.w == nil || w.on == dir && w.id == id && slices.Contains(w.w.WatchList(), dir) {
		return false
	}
	if w.on != "" {
		// It fails where the kernel has dropped the watch along with its folder.
		_ = w.w.Remove(w.on)
	}
	w.on = ""
	if err := w.w.Add(dir); err != nil {
		if text := dir + ": " + err.Error(); text != w.warned {
			w.warned = text
			w.log.Warn("folder not watched: changes are found by the reread only; if the limit is reached, raise fs.inotify.max_user_watches",
				"folder", dir, "error", err)
		}
		return false
	}
	w.on, w.id, w.warned = dir, id, ""
	return true
}

// addEvent takes in one notification and reports whether anything is to be read.
func (w *watch) addEvent(e fsnotify.Event, open bool, n *changes) bool {
	if !open {
		w.w = nil
		return false
	}
	changed := filepath.Clean(e.Name)
	if w.on != w.path {
		// The parent is watched for the sake of one name.
		n.all = n.all || changed == w.path
		return changed == w.path
	}
	if changed == w.path {
		n.all = true
		return true
	}
	name := filepath.Base(changed)
	if strings.HasPrefix(name, "..") {
		// A mounted ConfigMap changes by moving its link ..data: every file may be another one.
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

// addError takes in a failure of the notifications and reports whether something may have been missed.
func (w *watch) addError(err error, open bool, n *changes) bool {
	if !open {
		w.w = nil
		return false
	}
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.log.Warn("notification failed, reading the folder again", "error", err)
	}
	n.all = true
	return true
}
