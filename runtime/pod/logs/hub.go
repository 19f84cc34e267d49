package logs

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

// hub notifies all followers by one inotify instance: a user may have 128 of them by default. It has none while nobody
// follows.
type hub struct {
	mu      sync.Mutex
	watcher *fsnotify.Watcher
	dirs    map[fileID]*watched
	paths   map[string]*watched
}

// watched is a directory that is watched for one or more followers.
type watched struct {
	dir       *bounded.Held
	id        fileID
	followers map[*subscription]bool
}

// subscription is a follower of one log.
type subscription struct {
	base   string
	signal chan struct{}
}

// subscribe returns a channel that receives after the file base in dir, or one rotated from it, has changed. The
// directory is watched, not its path: it may be renamed and replaced by a link.
func (h *hub) subscribe(dir *bounded.Held, base string) (<-chan struct{}, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watcher == nil {
		w, err := fsnotify.NewWatcher()
		if err != nil {
			return nil, nil, err
		}
		h.watcher, h.dirs, h.paths = w, map[fileID]*watched{}, map[string]*watched{}
		go h.pass(w)
	}
	d, err := h.watch(dir)
	if err != nil {
		h.closeIfIdle()
		return nil, nil, err
	}
	s := &subscription{base: base, signal: make(chan struct{}, 1)}
	d.followers[s] = true
	return s.signal, func() { h.unsubscribe(d, s) }, nil
}

func (h *hub) watch(dir *bounded.Held) (*watched, error) {
	own, err := dir.Again()
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if st, err = own.Self(); err != nil {
		_ = own.Close()
		return nil, err
	}
	if d := h.dirs[idOf(&st)]; d != nil {
		_ = own.Close()
		return d, nil
	}
	d := &watched{dir: own, id: idOf(&st), followers: map[*subscription]bool{}}
	if err := h.watcher.Add(own.ProcPath()); err != nil {
		_ = own.Close()
		return nil, err
	}
	h.dirs[d.id], h.paths[own.ProcPath()] = d, d
	return d, nil
}

func (h *hub) unsubscribe(d *watched, s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(d.followers, s)
	if len(d.followers) > 0 {
		return
	}
	delete(h.dirs, d.id)
	delete(h.paths, d.dir.ProcPath())
	_ = h.watcher.Remove(d.dir.ProcPath()) // gone already if the directory was removed
	_ = d.dir.Close()
	h.closeIfIdle()
}

func (h *hub) closeIfIdle() {
	if len(h.dirs) == 0 {
		_ = h.watcher.Close()
		h.watcher = nil
	}
}

// pass passes events on until the watcher is closed.
func (h *hub) pass(w *fsnotify.Watcher) {
	errs := w.Errors
	for {
		select {
		case e, open := <-w.Events:
			if !open {
				return
			}
			if e.Op != fsnotify.Chmod {
				h.notify(w, filepath.Dir(e.Name), filepath.Base(e.Name))
			}
		case _, open := <-errs:
			if !open {
				errs = nil
				continue
			}
			h.notify(w, "", "") // events were lost: anything may have changed
		}
	}
}

func (h *hub) notify(w *fsnotify.Watcher, path, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watcher != w {
		return
	}
	for _, d := range h.dirs {
		if path != "" && h.paths[path] != d {
			continue
		}
		for s := range d.followers {
			if path != "" && !strings.HasPrefix(name, s.base) {
				continue
			}
			select {
			case s.signal <- struct{}{}:
			default:
			}
		}
	}
}
