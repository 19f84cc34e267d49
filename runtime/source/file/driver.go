package file

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/takeover"
	"github.com/journalet/journalet/runtime/watch"
)

const (
	// DefaultReread is how often all files are checked, independent of notifications (kubelet fileCheckFrequency: 20 s).
	DefaultReread = 20 * time.Second
	// quietPeriod is how long a directory must have no changes before changed files are read: an editor makes several
	// changes, and a copy truncates a file before it writes it.
	quietPeriod = 10 * time.Millisecond
	// maxQuietPeriod bounds that wait if changes do not stop.
	maxQuietPeriod = 200 * time.Millisecond
	// moveSettles is how long a file that has another name may come back under its own: an editor that keeps a backup
	// renames the file to it, and then writes the file again.
	moveSettles = time.Second
	// retryMin and retryMax bound the doubling wait after a failure to store a manifest or to emit a fact.
	retryMin = 100 * time.Millisecond
	retryMax = 10 * time.Second
	// stallAfter is the time beyond a reread after which a silent driver is unhealthy.
	stallAfter = time.Minute
)

// Options configure a Driver; Path, Node, Store and Sink must be set.
type Options struct {
	// Path is a directory of manifests or one manifest. It need not exist.
	Path string
	// Node is the node's name, in lower case.
	Node string
	// Source is the name of the source's actor. Default messages.FileSource.
	Source string
	// Classes returns the runtime classes that pods may name, with another pointer if one has changed. It is called with
	// each read. May be nil.
	Classes func() *manifest.Classes
	// HasToken is as in manifest.Options. May be nil.
	HasToken func(namespace, account string) bool
	// TakenOver are the static pods of a kubelet that had this node before. May be nil.
	TakenOver *takeover.Static
	// Reread defaults to DefaultReread.
	Reread time.Duration
	// Store stores canonical manifests of pods under their digests; they are durable when Store returns. It must be
	// idempotent, and is retried after an error, with fewer of them. It may walk the sequence several times.
	Store func(ctx context.Context, manifests iter.Seq2[string, []byte]) error
	// Prime receives every stored pod before its fact, so that the fact's readers need not load it. May be nil.
	Prime func(digest string, pod *corev1.Pod)
	// Sink receives the facts in sequence. After an error the same changes, or newer ones, are emitted again.
	Sink  func(context.Context, *journaletv1.ManifestsRead) error
	Clock clock.Clock
	Log   *slog.Logger
}

// Driver reads one source of manifests. Its methods may be called concurrently, Seed only before Run.
type Driver struct {
	opts  Options
	log   *slog.Logger
	clock clock.Clock

	// Only Run uses the fields from here to mu.
	files    *watch.Files
	contents map[string]content // by name, only of regular files that are there now
	sender   feed.Sender
	pending  map[string]bool // names whose content may differ from the recorded one
	// rewritten has the pending names that were removed, and are there again, before the removal is emitted.
	rewritten map[string]bool
	classes   *manifest.Classes
	scanned   bool // a scan has been completed
	moves     moves

	mu        sync.Mutex
	lastAlive time.Time // last step of Run; zero: not running
	pathErr   error     // why the path cannot be read
	sendErr   error     // why a manifest could not be stored or a fact not emitted
	complete  bool      // see Complete
}

// New returns a driver. It reads nothing before Run. It panics if a required field of Options is missing: that is a
// programming error.
func New(opts Options) *Driver {
	if opts.Path == "" || opts.Node == "" || opts.Store == nil || opts.Sink == nil {
		panic("file: Options needs Path, Node, Store and Sink")
	}
	opts.Path = filepath.Clean(opts.Path)
	if opts.Source == "" {
		opts.Source = messages.FileSource
	}
	if opts.Reread <= 0 {
		opts.Reread = DefaultReread
	}
	if opts.Prime == nil {
		opts.Prime = func(string, *corev1.Pod) {}
	}
	if opts.Classes == nil {
		opts.Classes = func() *manifest.Classes { return nil }
	}
	if opts.Clock == nil {
		opts.Clock = clock.Real{}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	d := &Driver{
		opts: opts, log: opts.Log.With("source", opts.Source, "path", opts.Path), clock: opts.Clock,
		contents: map[string]content{}, pending: map[string]bool{}, rewritten: map[string]bool{},
		moves: moves{since: map[string]time.Time{}, settle: moveSettles},
	}
	d.sender = feed.Sender{
		Source: opts.Source, Store: opts.Store, Prime: opts.Prime, Sink: opts.Sink, Log: d.log, Settled: d.clearPending,
	}
	return d
}

// Seed adds the source's state in the journal, so that only differences are emitted.
func (d *Driver) Seed(state *journaletv1.SourceState) {
	d.sender.Seed(state)
	for name := range state.GetFiles() {
		d.pending[name] = true
	}
}

// SeedPending adds a fact of the journal that the source's state does not have yet.
func (d *Driver) SeedPending(fact *journaletv1.ManifestsRead) {
	d.sender.Apply(fact)
	for _, f := range fact.GetChanged() {
		d.pending[f.GetPath()] = true
	}
}

// open begins with the files of a path.
func (d *Driver) open(path *watch.Path) {
	d.files = watch.NewFiles(path, manifest.DefaultMaxBytes, d.clock.Now, reader{d})
}

// Run reads, watches and emits facts until ctx ends, and returns its error. It may be called once.
func (d *Driver) Run(ctx context.Context) error {
	d.open(watch.New(d.opts.Path, d.log))
	defer d.files.Close()
	reread, retry, moved := watch.NewAlarm(d.clock), watch.NewAlarm(d.clock), watch.NewAlarm(d.clock)
	changes := d.files.Gather(d.clock, quietPeriod, maxQuietPeriod)
	defer reread.Clear()
	defer retry.Clear()
	defer moved.Clear()
	defer changes.Clear()

	wait := retryMin
	d.scan()
	for {
		d.markAlive()
		if err := d.handOver(ctx); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			d.log.Warn("cannot store or emit manifests, retrying", "in", wait, "error", err)
			retry.Set(wait)
			wait = min(2*wait, retryMax)
		} else {
			retry.Clear()
			wait = retryMin
		}
		if !reread.Armed() {
			reread.Set(d.opts.Reread)
		}
		if len(d.moves.since) > 0 && !moved.Armed() {
			moved.Set(d.moves.settle)
		}
		for again := true; again; {
			again = false
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-retry.C():
				retry.Rang()
			case <-moved.C():
				moved.Rang()
			case <-reread.C():
				reread.Rang()
				d.scan()
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

// readNotified reads the changed files, and all files if a notification was lost or concerned the directory itself.
func (d *Driver) readNotified(n watch.Changes) {
	d.refreshClasses()
	if n.All {
		d.files.Relist()
		d.scan()
	}
	for name := range n.Names {
		if n.Removed[name] {
			d.files.Forget(name)
		}
		d.files.Refresh(name)
		_, there := d.contents[name]
		if n.Removed[name] && there && len(d.sender.Files[name].GetPods()) > 0 {
			d.rewritten[name] = true
		}
	}
}

func (d *Driver) markAlive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastAlive = d.clock.Now()
}

// Complete reports whether all of the source was read in this run, and what differed was emitted.
func (d *Driver) Complete() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.complete
}

// Healthy returns an error if the path cannot be read, a manifest cannot be stored, a fact cannot be emitted, or Run is
// stuck. A missing path is healthy.
func (d *Driver) Healthy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lastAlive.IsZero() {
		return errors.New("the static pod source has not begun to read; is the agent still starting?")
	}
	if age := d.clock.Now().Sub(d.lastAlive); age > d.opts.Reread+stallAfter {
		return fmt.Errorf("the static pod source has been stuck for %s: it waits for the journal or the disk",
			age.Round(time.Second))
	}
	return errors.Join(d.pathErr, d.sendErr)
}
