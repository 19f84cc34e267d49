package files

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/runtime/source/manifest"
)

const (
	// DefaultReread is how often all files are checked, independent of notifications (kubelet fileCheckFrequency: 20 s).
	DefaultReread = 20 * time.Second
	// idleAfter is for how long files are followed after the last pod that refers to an object: another often comes soon.
	idleAfter = time.Minute
)

// Options configure a Backing.
type Options struct {
	// Manifests is the directory or file of pod manifests, which may hold objects too. Its reader logs their problems.
	Manifests string
	// Objects is a directory or file of objects; empty: none. Of two objects with one name that no pod has yet, the object
	// in Manifests counts.
	Objects string
	// Tokens are paths of files with the token of a service account, by namespace/name.
	Tokens map[string]string
	// Reread defaults to DefaultReread.
	Reread time.Duration
	Clock  clock.Clock
	Log    *slog.Logger

	total int // maxTotalBytes, unless a test sets it
}

// Backing reads objects from files. It implements objects.Backing.
type Backing struct {
	opts Options
	wake chan struct{}

	mu      sync.Mutex
	watched map[objects.Key]*reported
}

// reported is what was last reported of a watched object; nil: nothing. since is when its watch began. file is the file
// that pods had it from then.
type reported struct {
	object *objects.Object
	since  time.Time
	file   string
}

var _ objects.Backing = (*Backing)(nil)

// New returns a backing. It reads nothing before Run.
func New(o Options) *Backing {
	if o.Reread <= 0 {
		o.Reread = DefaultReread
	}
	if o.total == 0 {
		o.total = maxTotalBytes
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Backing{opts: o, wake: make(chan struct{}, 1), watched: map[objects.Key]*reported{}}
}

// Watch implements objects.Backing.
func (b *Backing) Watch(k objects.Key, file string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched[k] = &reported{since: time.Now(), file: file}
	b.signal()
}

// WatchLater implements objects.Backing: all files are read at once.
func (b *Backing) WatchLater(k objects.Key, file string) { b.Watch(k, file) }

// Unwatch implements objects.Backing.
func (b *Backing) Unwatch(k objects.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watched, k)
	b.signal()
}

func (b *Backing) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Backing) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.watched) == 0
}

// Run implements objects.Backing. While nothing is watched it holds no contents and no file.
func (b *Backing) Run(ctx context.Context, read func(map[objects.Key]objects.Object)) error {
	for ctx.Err() == nil {
		for b.idle() {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-b.wake:
			}
		}
		b.follow(ctx, read)
	}
	return ctx.Err()
}

// follow reads and follows all paths until nothing has been watched for a while.
func (b *Backing) follow(ctx context.Context, read func(map[objects.Key]objects.Object)) {
	ctx, cancel := context.WithCancel(ctx)
	s := b.newSession()
	var running sync.WaitGroup
	for _, d := range s.directories() {
		running.Go(func() { d.run(ctx) })
	}
	defer running.Wait()
	defer cancel()
	var idle <-chan time.Time
	for {
		if s.ready() {
			if batch := b.changes(s); len(batch) > 0 {
				read(batch)
			}
		}
		if !b.idle() {
			idle = nil
		} else if idle == nil {
			idle = time.After(idleAfter)
		}
		select {
		case <-ctx.Done():
			return
		case <-idle:
			if b.idle() {
				return
			}
		case <-b.wake:
		}
	}
}

// newSession returns the directories of all paths, which signal the backing with each change.
func (b *Backing) newSession() *session {
	s := &session{log: b.opts.Log, tokens: map[string]*directory{}}
	add := func(path string, quiet bool) {
		if path == "" {
			return
		}
		log := b.opts.Log.With("path", path)
		decode := decoder{log: log, quiet: quiet, warned: sets.New[string]()}
		d := b.newDirectory(path, log, decode.decode)
		d.limit, d.total, d.quiet = manifest.DefaultMaxBytes, b.opts.total, quiet
		s.dirs = append(s.dirs, d)
	}
	add(b.opts.Manifests, true)
	if b.opts.Objects != b.opts.Manifests {
		add(b.opts.Objects, false)
	}
	for account, path := range b.opts.Tokens {
		log := b.opts.Log.With("path", path, "serviceAccount", account)
		decode := decoder{log: log, warned: sets.New[string]()}
		d := b.newDirectory(path, log, decode.decodeToken)
		d.limit, d.total, d.one = maxTokenBytes, maxTokenBytes, true
		s.tokens[account] = d
	}
	return s
}

func (b *Backing) newDirectory(path string, log *slog.Logger, decode decodeFunc) *directory {
	return &directory{
		path: path, reread: b.opts.Reread, clock: b.opts.Clock, log: log, decode: decode, changed: b.signal,
		check: make(chan struct{}, 1),
	}
}

// changes returns the watched objects that differ from what was reported. One that is watched since the files were
// checked waits for the next check, which begins now: its file may have been replaced a moment ago, and a pod keeps an
// immutable object.
func (b *Backing) changes(s *session) map[objects.Key]objects.Object {
	checked := s.checked()
	s.load()
	s.inUse, s.used = s.used, map[id]string{}
	b.mu.Lock()
	defer b.mu.Unlock()
	batch, waits := map[objects.Key]objects.Object{}, false
	for k, last := range b.watched {
		if last.object == nil && checked.Before(last.since) {
			s.check(last.since)
			waits = true
			continue
		}
		if now := s.object(k, last.file); last.object == nil || !same(last.object, &now) {
			now.Requested = checked
			batch[k] = now
			b.watched[k] = &reported{&now, last.since, now.File}
		}
	}
	if !waits {
		s.reportIgnored()
	}
	return batch
}

// same reports whether two reads of an object are equal. Files that have not changed give the same pointers.
func same(a, b *objects.Object) bool {
	return a.State == b.State && a.File == b.File && a.Message == b.Message && a.Immutable == b.Immutable &&
		a.ConfigMap == b.ConfigMap && a.Secret == b.Secret && bytes.Equal(a.Data, b.Data)
}

// session is what all paths hold while they are followed.
type session struct {
	log    *slog.Logger
	dirs   []*directory
	tokens map[string]*directory // by namespace/name of the service account

	views  []*view
	index  map[id][]object  // the objects of one name by path, those in the first directory first
	inUse  map[id]string    // the files whose objects were in use at the last look
	used   map[id]string    // and those that are at this one
	loaded bool             // since the last reportIgnored
	twice  sets.Set[string] // logged duplicates
	due    time.Time        // no check that is due begins before
	faults []fault          // files whose objects are unknown, and paths that cannot be read
}

// fault is why nothing is known of the objects of a file, or of all files below a path.
type fault struct{ path, text string }

func (s *session) directories() []*directory {
	all := slices.Clone(s.dirs)
	for _, d := range s.tokens {
		all = append(all, d)
	}
	return all
}

// checked returns when the check of all paths began that the session has the outcome of.
func (s *session) checked() (oldest time.Time) {
	for i, d := range s.directories() {
		if at := *d.checked.Load(); i == 0 || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}

// check has all paths checked, unless a check is due that begins after the given time.
func (s *session) check(after time.Time) {
	if !s.due.Before(after) {
		return
	}
	s.due = time.Now()
	for _, d := range s.directories() {
		select {
		case d.check <- struct{}{}:
		default:
		}
	}
}

// ready reports whether every path has been read once.
func (s *session) ready() bool {
	for _, d := range s.directories() {
		if d.checked.Load() == nil {
			return false
		}
	}
	return true
}

// load builds the index of what the paths hold now.
func (s *session) load() {
	var views []*view
	for _, d := range s.dirs {
		views = append(views, d.view.Load())
	}
	if len(views) == len(s.views) && slices.Equal(views, s.views) {
		return
	}
	s.views, s.index, s.faults, s.loaded = views, map[id][]object{}, nil, true
	for i, v := range views {
		if v.err != nil {
			s.faults = append(s.faults, fault{s.dirs[i].path, v.err.Error()})
		}
		for _, path := range slices.Sorted(maps.Keys(v.files)) {
			s.add(path, v.files[path])
		}
	}
}

func (s *session) add(path string, c *content) {
	if c.fault != "" {
		s.faults = append(s.faults, fault{path, c.fault})
	}
	for key, o := range c.objects {
		if o.path = path; c.fault != "" {
			o.problem = c.fault
		}
		s.index[key] = append(s.index[key], o)
	}
}
