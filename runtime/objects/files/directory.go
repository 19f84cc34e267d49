package files

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

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
	// maxWarned bounds the paths with a logged warning.
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

	files    *watch.Files
	contents map[string]file // by name, only of regular files
	bytes    int             // of the files that hold objects
	failed   string
	dirty    bool      // the view differs from contents
	unready  bool      // a file changed during its read
	waits    bool      // its next read counts, whatever it is
	begun    time.Time // when the last check of all files began
	fresh    bool      // checked does not have begun yet

	view atomic.Pointer[view]
}

// view is the content of a path at one time. It is not changed.
type view struct {
	files map[string]*content // by path
	err   error               // why the path cannot be read; files are those from before
}

// file is what one file holds, and its size if that is an object.
type file struct {
	content *content
	bytes   int
}

// open begins with the files of a path.
func (d *directory) open(path *watch.Path) {
	d.contents = map[string]file{}
	d.files = watch.NewFiles(path, d.limit, d.clock.Now, d)
	d.files.One = d.one
}

// run reads and follows the path until ctx ends.
func (d *directory) run(ctx context.Context) {
	d.open(watch.New(d.path, d.log))
	defer d.files.Close()
	reread, changes := watch.NewAlarm(d.clock), d.files.Gather(d.clock, quietPeriod, maxQuietPeriod)
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
			case e, open := <-d.files.Events():
				again = true
				changes.AddEvent(e, open)
			case err, open := <-d.files.Errors():
				again = true
				changes.AddError(err, open)
			}
		}
	}
}

func (d *directory) readNotified(n watch.Changes) {
	if n.All {
		d.begin()
		d.files.Relist()
		d.scan()
	}
	for name := range n.Names {
		d.files.Refresh(name)
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
	for name, f := range d.contents {
		if !f.content.empty() {
			now.files[d.files.Where(name)] = f.content
		}
	}
	d.view.Store(now)
}

// scan checks the path, its names and each file, and reads files with another stamp.
func (d *directory) scan() {
	d.unready = false
	d.fail(d.files.Scan())
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

// Changed implements watch.Reader.
func (d *directory) Changed(name, path string, data []byte, st watch.Stamp) bool {
	before := d.contents[name]
	switch {
	case int64(len(data)) > d.limit:
		d.replace(name, file{content: before.content.broken(
			fmt.Sprintf("%s: more than %d bytes; split it into several files", path, d.limit))})
	case d.bytes-before.bytes+len(data) > d.total:
		// The next check tries again: others may have made room.
		d.replace(name, file{content: before.content.broken(fmt.Sprintf(
			"%s: more than %d bytes of objects in %s; move some of them elsewhere", path, d.total, d.path))})
		return false
	default:
		now := file{content: d.decode(path, data, st, before.content)}
		if !now.content.empty() {
			now.bytes = len(data)
		}
		d.replace(name, now)
	}
	return true
}

// Unreadable implements watch.Reader. While a file is written, what was read before counts.
func (d *directory) Unreadable(name, path string, err error) bool {
	if errors.Is(err, watch.ErrChanging) {
		d.unready = true
		return true
	}
	d.replace(name, file{content: d.contents[name].content.broken(path + ": cannot be read: " + watch.Cause(err))})
	return false
}

// Gone implements watch.Reader.
func (d *directory) Gone(name string) {
	d.replace(name, file{})
	delete(d.contents, name)
}

// Known implements watch.Reader: what pods refer to is not known here.
func (d *directory) Known(string) bool { return false }

// replace sets the content of a name.
func (d *directory) replace(name string, now file) {
	before := d.contents[name]
	d.bytes += now.bytes - before.bytes
	d.contents[name] = now
	problem := now.content.problem()
	if problem != "" && problem != before.content.problem() && !d.quiet {
		d.log.Warn("object problem", "problem", problem)
	}
	if !now.content.empty() || !before.content.empty() {
		d.dirty = true
	}
}
