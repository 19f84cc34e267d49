package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/own"
)

// RegistryDir is the directory of plugins in the root directory. kubelet: plugins_registry.
const RegistryDir = own.PluginsRegistry

const (
	// maxSockets bounds the plugins of a node, maxDirectories the directories that are watched.
	maxSockets     = 128
	maxDirectories = 64
	// maxDepth is how deep plugins may create their directories.
	maxDepth = 4
	// maxEntries bounds how much of a directory is read.
	maxEntries = 4096
	// dirMode is the mode of a directory for plugins. kubelet: 0750.
	dirMode = 0o750
)

// Plugin is a plugin as it describes itself.
type Plugin struct {
	// Type is such as DevicePlugin, Name such as vendor.com/gpu.
	Type, Name string
	// Endpoint is the path of the socket that it serves.
	Endpoint string
	// Versions are the versions of its type's API.
	Versions []string
}

// Handler uses plugins of one type.
type Handler interface {
	// Validate returns why a plugin cannot be used, as long as it is as it is; nil: it can.
	Validate(p Plugin) error
	// Register begins to use a plugin. An error is reported to it, and Register is called again later.
	Register(ctx context.Context, p Plugin) error
	// Deregister ends the use of a plugin whose socket is gone.
	Deregister(p Plugin)
}

// Refuse is a handler of a type that is not supported: why is what plugins are answered.
type Refuse string

// Validate refuses.
func (r Refuse) Validate(Plugin) error { return errors.New(string(r)) }

// Register is never called.
func (r Refuse) Register(context.Context, Plugin) error { return errors.New(string(r)) }

// Deregister is never called.
func (r Refuse) Deregister(Plugin) {}

// Options configure a Watcher. Dir and Handlers must be set.
type Options struct {
	// Dir is the directory to watch. It is created.
	Dir string
	// Handlers are by type.
	Handlers map[string]Handler
	// After is the clock of back-offs; nil: time.After.
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// Watcher finds plugins.
type Watcher struct {
	opts    Options
	watch   *fsnotify.Watcher
	dirs    map[string]bool
	sockets map[string]*socket
	running sync.WaitGroup
}

// socket is one plugin's socket.
type socket struct {
	info   fs.FileInfo
	cancel context.CancelFunc
	done   chan struct{}
}

// is reports whether a file is this socket, and none that has taken its place since: a number of a file is used again.
func (s *socket) is(info fs.FileInfo) bool {
	return os.SameFile(s.info, info) && s.info.ModTime().Equal(info.ModTime())
}

// New returns a watcher that does nothing until Run.
func New(o Options) *Watcher {
	if o.After == nil {
		o.After = time.After
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Watcher{opts: o, dirs: map[string]bool{}, sockets: map[string]*socket{}}
}

// Run watches until ctx ends. It returns an error if the directory cannot be watched.
func (w *Watcher) Run(ctx context.Context) error {
	if err := os.MkdirAll(w.opts.Dir, dirMode); err != nil {
		return fmt.Errorf("cannot create the directory of plugins: %w", err)
	}
	var err error
	if w.watch, err = fsnotify.NewWatcher(); err != nil {
		return fmt.Errorf("cannot watch %s: %w (fs.inotify.max_user_instances may be too small)", w.opts.Dir, err)
	}
	defer w.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer w.watch.Close()
	if err := w.watch.Add(w.opts.Dir); err != nil {
		return fmt.Errorf("cannot watch %s: %w", w.opts.Dir, err)
	}
	w.dirs[w.opts.Dir] = true
	w.scan(ctx, w.opts.Dir)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-w.watch.Events:
			if open {
				w.notified(ctx, e)
			}
		case err, open := <-w.watch.Errors:
			if open {
				w.opts.Log.Warn("notifications of plugins were lost; the directory is read again", "error", err)
				w.rescan(ctx)
			}
		}
	}
}

// notified handles one notification.
func (w *Watcher) notified(ctx context.Context, e fsnotify.Event) {
	switch {
	case e.Has(fsnotify.Remove), e.Has(fsnotify.Rename):
		w.end(e.Name)
		delete(w.dirs, e.Name)
	case e.Has(fsnotify.Create):
		w.found(ctx, e.Name)
	}
}

// found handles a file that is there. A scan may have found it before its notification is read.
func (w *Watcher) found(ctx context.Context, path string) {
	if strings.HasPrefix(filepath.Base(path), ".") {
		return
	}
	info, err := os.Lstat(path)
	if err == nil && info.Mode().Type() == fs.ModeSocket {
		w.begin(ctx, path, info)
		return
	}
	w.end(path)
	if err == nil && info.IsDir() {
		w.addDir(ctx, path)
	}
}

// addDir watches a directory below the first one.
func (w *Watcher) addDir(ctx context.Context, path string) {
	inside, err := filepath.Rel(w.opts.Dir, path)
	if err != nil || w.dirs[path] {
		return
	}
	if len(w.dirs) >= maxDirectories || strings.Count(inside, string(filepath.Separator)) >= maxDepth {
		w.opts.Log.Warn("a directory of plugins is not watched: there are too many, or it is too deep", "path", path)
		return
	}
	if err := w.watch.Add(path); err != nil {
		w.opts.Log.Warn("a directory of plugins cannot be watched", "path", path, "error", err)
		return
	}
	w.dirs[path] = true
	w.scan(ctx, path)
}

// scan handles what is in a directory.
func (w *Watcher) scan(ctx context.Context, dir string) {
	n := 0
	for e, err := range bounded.Entries(dir) {
		if n++; err != nil || n > maxEntries {
			w.opts.Log.Warn("a directory of plugins cannot be read, or not wholly", "path", dir, "entries", n, "error", err)
			return
		}
		w.found(ctx, filepath.Join(dir, e.Name()))
	}
}

// rescan handles what has changed without a notification.
func (w *Watcher) rescan(ctx context.Context) {
	for path := range w.sockets {
		if _, err := os.Lstat(path); err != nil {
			w.end(path)
		}
	}
	for dir := range w.dirs {
		if dir != w.opts.Dir {
			delete(w.dirs, dir)
		}
	}
	w.scan(ctx, w.opts.Dir)
}

// begin begins to register the plugin of a socket, unless it has begun. The plugin of a socket that was replaced ends.
func (w *Watcher) begin(ctx context.Context, path string, info fs.FileInfo) {
	if s := w.sockets[path]; s != nil && s.is(info) {
		return
	}
	w.end(path)
	if len(w.sockets) >= maxSockets {
		w.opts.Log.Warn("a plugin is ignored: there are too many", "socket", path, "most", maxSockets)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &socket{info: info, cancel: cancel, done: make(chan struct{})}
	w.sockets[path] = s
	w.running.Go(func() {
		defer close(s.done)
		w.keep(ctx, path)
	})
}

// end ends the use of a socket's plugin.
func (w *Watcher) end(path string) {
	if s := w.sockets[path]; s != nil {
		s.cancel()
		<-s.done
		delete(w.sockets, path)
	}
}
