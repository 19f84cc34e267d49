package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/watch"
)

const (
	// quietPeriod is how long a path must have no changes before changed files are read, and maxQuietPeriod bounds that
	// wait if changes do not stop. An editor makes several changes, and a copy truncates a file before it writes it.
	quietPeriod    = 20 * time.Millisecond
	maxQuietPeriod = 200 * time.Millisecond
	// retryAfter is the wait before a file that changed during its read is read again.
	retryAfter = 200 * time.Millisecond
	// maxFiles bounds the files of a directory, so that a wrong one cannot fill the memory.
	maxFiles = watch.MaxNames
	// maxWarned bounds the names with a logged warning.
	maxWarned = 1024
	// maxTotalBytes bounds the files of one path that hold objects, whose contents stay in memory.
	maxTotalBytes = 32 << 20
)

// decodeFunc returns what a file holds, given what it held before.
type decodeFunc func(path string, data []byte, st watch.Stamp, before *content) *content

// directory follows the files of one path. Only its run uses the fields.
type directory struct {
	path   string
	limit  int64 // bytes of a file
	total  int   // bytes of all files that hold objects
	one    bool  // the path is one file
	quiet  bool  // the reader of manifests logs the problems of files
	reread time.Duration
	clock  clock.Clock
	log    *slog.Logger
	decode decodeFunc
	// changed is called after each change of view, and after each check.
	changed func()
	// check asks for a check of all files; checked is when the last one began whose outcome is in view.
	check   chan struct{}
	checked atomic.Pointer[time.Time]

	watch   *watch.Path
	files   map[string]*file // by name
	dir     watch.Stamp
	listed  bool // files has the listing of dir
	bytes   int  // of the files that hold objects
	failed  string
	warned  map[string]bool // names with a logged warning
	dirty   bool            // the view differs from files
	unready bool            // a file changed during its read
	waits   bool            // its next read counts, whatever it is
	begun   time.Time       // when the last check of all files began
	fresh   bool            // checked does not have begun yet

	view atomic.Pointer[view]
}

// view is the content of a path at one time. It is not changed.
type view struct {
	files map[string]*content // by path
	err   error               // why the path cannot be read; files are those from before
}

// file is one name in the directory.
type file struct {
	stamp   watch.Stamp
	racy    bool // the content may have changed since stamp
	sum     [sha256.Size]byte
	bytes   int
	content *content // nil: not a regular file
}

// run reads and follows the path until ctx ends.
func (d *directory) run(ctx context.Context) {
	d.files, d.warned = map[string]*file{}, map[string]bool{}
	d.watch = watch.New(d.path, d.log)
	defer d.watch.Close()
	reread, changes := watch.NewAlarm(d.clock), d.watch.Gather(d.clock, quietPeriod, maxQuietPeriod)
	defer reread.Clear()
	defer changes.Clear()
	d.begin()
	d.scan()
	for {
		d.publish()
		if d.unready {
			reread.Set(retryAfter)
		} else if !reread.Armed() {
			reread.Set(d.reread)
		}
		for again := true; again; {
			again = false
			select {
			case <-ctx.Done():
				return
			case <-reread.C():
				reread.Rang()
				d.begin()
				d.scan()
			case <-d.check:
				again = true
				changes.AddAll() // and wait until nobody writes
			case <-changes.C():
				d.readNotified(changes.Take())
			case e, open := <-d.watch.Events():
				again = true
				changes.AddEvent(e, open)
			case err, open := <-d.watch.Errors():
				again = true
				changes.AddError(err, open)
			}
		}
	}
}

func (d *directory) readNotified(n watch.Changes) {
	if n.All {
		d.begin()
		d.listed = false
		d.scan()
	}
	for name := range n.Names {
		d.refresh(name, true)
	}
}

// begin notes that a check of all files begins.
func (d *directory) begin() { d.begun, d.fresh = time.Now(), true }

// publish replaces the view if it has changed, and says how old it is. A file that changed during its read is read
// once more before that.
func (d *directory) publish() {
	old := d.view.Load()
	changed := old == nil || d.dirty
	if changed {
		d.replaceView()
	}
	if d.waits = d.unready && !d.waits; d.fresh && (!d.waits || old == nil) {
		begun := d.begun
		d.checked.Store(&begun)
		changed, d.fresh = true, false
	}
	if changed {
		d.changed()
	}
}

func (d *directory) replaceView() {
	d.dirty = false
	now := &view{files: map[string]*content{}}
	if d.failed != "" {
		now.err = errors.New(d.failed)
	}
	for name, f := range d.files {
		if path, ok := d.watch.Join(d.dir, name); ok && f.content != nil && !f.content.empty() {
			now.files[path] = f.content
		}
	}
	d.view.Store(now)
}

// scan checks the path, its names and each file, and reads files with another stamp.
func (d *directory) scan() {
	d.unready = false
	st, moved, err := d.watch.Follow()
	d.listed = d.listed && !moved
	gone := errors.Is(err, fs.ErrNotExist)
	if err == nil && !st.IsDir() && !st.IsRegular() {
		err = fmt.Errorf("%s is neither a directory nor a file", d.path)
	} else if err == nil && st.IsDir() && d.one {
		err = fmt.Errorf("%s is a directory; name a file", d.path)
	}
	if err != nil && !gone {
		d.fail(err)
		return
	}
	if d.listed && d.dir == st {
		d.fail(nil)
		for name := range d.files {
			d.refresh(name, false)
		}
		return
	}
	names, err := d.watch.Names(st, gone, func(name string) bool { return d.files[name] != nil })
	d.fail(err)
	if err != nil {
		return
	}
	d.dir = st
	d.setNames(names)
	// A dangling link, or a name beyond maxFiles, is not in files and must be checked again.
	d.listed = st.IsDir() && len(d.files) == len(names) && !st.Racy(d.clock.Now())
}

// setNames updates files to these names. Removed files make room first.
func (d *directory) setNames(names map[string]bool) {
	for name := range maps.Clone(d.files) {
		if !names[name] {
			d.forget(name)
		}
	}
	maps.DeleteFunc(d.warned, func(name string, _ bool) bool { return name != "" && !names[name] })
	for name := range names {
		d.refresh(name, false)
	}
}

// fail sets why the path cannot be read; nil if it can. Contents read before stay.
func (d *directory) fail(err error) {
	text := ""
	if err != nil {
		text = fmt.Sprintf("%v; check that the agent may read the path", err)
	}
	if text == d.failed {
		return
	}
	d.failed, d.dirty = text, true
	if err != nil {
		d.log.Error("cannot read objects; those read before stay in use", "error", err)
	}
}

// refresh updates one name. Unless a notification named it, it is read only if its stamp differs.
func (d *directory) refresh(name string, notified bool) {
	path, ok := d.watch.Join(d.dir, name)
	if !ok {
		return
	}
	f := d.files[name]
	now, err := watch.Stat(path)
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
	if err == nil && !now.IsRegular() {
		// A pipe, a device or a directory below.
		d.warnOnce(name, "not a regular file, ignored")
		d.replace(name, &file{stamp: now})
		return
	}
	d.read(f, name, path)
}

// read reads a file, and decodes it unless the content is unchanged.
func (d *directory) read(f *file, name, path string) {
	data, st, err := watch.Read(path, d.limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.forget(name)
		return
	case errors.Is(err, watch.ErrChanging):
		// Its writer is not done: what was read before counts until then.
		f.racy, d.unready = true, true
		return
	case err != nil:
		// Without a stamp, the next reread reads it again.
		d.replace(name, &file{racy: true, content: f.content.broken(path + ": cannot be read: " + watch.Cause(err))})
		return
	}
	racy, sum := st.Racy(d.clock.Now()), sha256.Sum256(data)
	if f.content != nil && f.sum == sum && f.stamp.Shared() == st.Shared() {
		f.stamp, f.racy = st, racy
		return
	}
	now := &file{stamp: st, racy: racy, sum: sum}
	switch {
	case int64(len(data)) > d.limit:
		now.content = f.content.broken(fmt.Sprintf("%s: more than %d bytes; split it into several files", path, d.limit))
	case d.bytes-f.bytes+len(data) > d.total:
		// The next reread tries again: others may have made room.
		now.racy, now.sum = true, [sha256.Size]byte{}
		now.content = f.content.broken(fmt.Sprintf("%s: more than %d bytes of objects in %s; move some of them elsewhere",
			path, d.total, d.path))
	default:
		if now.content = d.decode(path, data, st, f.content); !now.content.empty() {
			now.bytes = len(data)
		}
	}
	d.replace(name, now)
}

// replace sets the content of a name.
func (d *directory) replace(name string, now *file) {
	before := d.files[name]
	d.bytes += now.bytes - before.bytes
	d.files[name] = now
	problem := now.content.problem()
	if problem != "" && problem != before.content.problem() && !d.quiet {
		d.log.Warn("object problem", "problem", problem)
	}
	if !now.content.empty() || !before.content.empty() {
		d.dirty = true
	}
}

// forget removes a name that is gone.
func (d *directory) forget(name string) {
	if f := d.files[name]; f != nil {
		d.replace(name, &file{})
		delete(d.files, name)
	}
}

// hasRoom reports whether one more file fits, and whether its name can be in a message.
func (d *directory) hasRoom(name string) bool {
	switch {
	case !utf8.ValidString(name):
		d.warnOnce(name, "its name is not UTF-8, ignored; rename it")
	case len(d.files) < maxFiles:
		return true
	default:
		d.warnOnce("", fmt.Sprintf("more than %d files: the others are ignored; move some of them elsewhere", maxFiles))
	}
	return false
}

func (d *directory) warnOnce(name, what string) {
	if d.warned[name] || len(d.warned) >= maxWarned {
		return
	}
	d.warned[name] = true
	d.log.Warn(what, "file", plain.Quote(name, false))
}
