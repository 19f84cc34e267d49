package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
)

const (
	// DefaultReread is how often all files are looked at, notified or not (kubelet fileCheckFrequency: 20 s).
	DefaultReread = 20 * time.Second
	// quietPeriod is how long a folder must be quiet before what was notified is read: an editor makes several changes, and
	// a copy truncates a file before it writes it.
	quietPeriod = 10 * time.Millisecond
	// maxQuietPeriod bounds that wait where it is never quiet.
	maxQuietPeriod = 200 * time.Millisecond
	// retryMin and retryMax bound the doubling wait after a manifest could not be stored or a fact not handed over.
	retryMin = 100 * time.Millisecond
	retryMax = 10 * time.Second
	// stallAfter is how long beyond a reread the driver may be silent and still count as healthy.
	stallAfter = time.Minute
)

// Options configure a Driver; Path, Node, Store and Sink must be set.
type Options struct {
	// Path is a folder of manifests or one manifest. It need not exist.
	Path string
	// Node is the node's name, in lower case.
	Node string
	// Source is the name of the source's actor. Default messages.FileSource.
	Source string
	// Classes gives the runtime classes that pods may name: another pointer once one of them has changed. May be nil. It is
	// asked with each reading.
	Classes func() *manifest.RuntimeClasses
	// Reread defaults to DefaultReread.
	Reread time.Duration
	// Store keeps a pod's canonical manifest under its digest; it is durable when Store returns. Storing again what is
	// stored must be harmless. After an error it is tried again.
	Store func(ctx context.Context, digest string, canonical []byte) error
	// Prime hears of every stored pod before the fact that names it, to spare the reader of the fact a load. May be nil.
	Prime func(digest string, pod *corev1.Pod)
	// Sink takes the facts, one after the other. After an error the same changes, or newer ones, come again.
	Sink  func(context.Context, *journaletv1.ManifestsRead) error
	Clock cri.Clock
	Log   *slog.Logger
}

// Driver reads one source of manifests. Its methods may be called concurrently, Seed only before Run.
type Driver struct {
	opts  Options
	log   *slog.Logger
	clock cri.Clock

	// Run's alone from here to mu.
	watch     *watch
	files     map[string]*file // by name: what stands in the folder now
	recorded  feed.Recorded
	pending   map[string]bool // names whose result may differ from what was told
	dir       stamp           // of the folder when it was last listed
	classes   *manifest.RuntimeClasses
	listed    bool            // files is the listing that folder belongs to
	warned    map[string]bool // names that were logged as not usable
	tooMany   bool            // more files than maxFiles were said
	scanned   bool            // a whole reading has been made
	firstRead bool            // this run's first reading has not been told as a whole

	mu        sync.Mutex
	lastAlive time.Time // last turn of Run; zero: not running
	pathErr   error     // why the path cannot be read
	sendErr   error     // why something could not be stored or handed over
}

// New makes a driver; nothing is read before Run. It panics if a field of Options that must be set is not: that is a
// mistake of the program.
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
		opts.Classes = func() *manifest.RuntimeClasses { return nil }
	}
	if opts.Clock == nil {
		opts.Clock = cri.RealClock{}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{
		opts: opts, log: opts.Log.With("source", opts.Source, "path", opts.Path), clock: opts.Clock,
		files: map[string]*file{}, pending: map[string]bool{},
		warned: map[string]bool{}, firstRead: true,
	}
}

// Seed gives the source's state as the journal has it, so that only what differs from it is handed over.
func (d *Driver) Seed(state *journaletv1.SourceState) {
	d.recorded.Seed(state)
	for name := range state.GetFiles() {
		d.pending[name] = true
	}
}

// SeedPending adds a fact that the journal holds and the source's state does not have yet.
func (d *Driver) SeedPending(fact *journaletv1.ManifestsRead) {
	d.recorded.Apply(fact)
	for _, f := range fact.GetChanged() {
		d.pending[f.GetPath()] = true
	}
}

// Run reads, watches and hands over until ctx ends, whose error it returns. It may be called once.
func (d *Driver) Run(ctx context.Context) error {
	d.watch = newWatch(d.opts.Path, d.log)
	defer d.watch.close()
	reread, quiet, retry := newAlarm(d.clock), newAlarm(d.clock), newAlarm(d.clock)
	defer reread.clear()
	defer quiet.clear()
	defer retry.clear()

	var noticed changes
	var since time.Time // of the first notification not yet read
	wait := retryMin
	d.scan()
	for {
		d.markAlive()
		if err := d.handOver(ctx); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			d.log.Warn("manifests not handed over, trying again", "in", wait, "error", err)
			retry.set(wait)
			wait = min(2*wait, retryMax)
		} else {
			retry.clear()
			wait = retryMin
		}
		if !reread.armed {
			reread.set(d.opts.Reread)
		}
		for again := true; again; {
			again = false
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-retry.c:
				retry.armed = false
			case <-reread.c:
				reread.armed = false
				d.scan()
			case <-quiet.c:
				quiet.armed = false
				d.readNotified(&noticed)
			case e, open := <-d.watch.events():
				again = true
				if d.watch.addEvent(e, open, &noticed) {
					since = d.holdOff(quiet, since)
				}
			case err, open := <-d.watch.errors():
				again = true
				if d.watch.addError(err, open, &noticed) {
					since = d.holdOff(quiet, since)
				}
			}
		}
	}
}

// holdOff waits for quiet a little longer, unless it has waited long enough. It returns since when it waits.
func (d *Driver) holdOff(quiet *alarm, since time.Time) time.Time {
	now := d.clock.Now()
	if !quiet.armed {
		since = now
	}
	if !quiet.armed || now.Sub(since) < maxQuietPeriod {
		quiet.set(quietPeriod)
	}
	return since
}

// readNotified reads what notifications named, and everything if one was lost or concerned the folder itself.
func (d *Driver) readNotified(n *changes) {
	d.refreshClasses()
	if n.all {
		d.listed = false
		d.scan()
	}
	for name := range n.names {
		d.refresh(name, true)
	}
	*n = changes{}
}

func (d *Driver) markAlive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastAlive = d.clock.Now()
}

// Healthy returns why the source is not served as it should be: the path cannot be read, something cannot be stored or
// handed over, or Run stands still. A missing path is healthy.
func (d *Driver) Healthy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lastAlive.IsZero() {
		return errors.New("the static pod source has not begun to read; is the agent still starting?")
	}
	if age := d.clock.Now().Sub(d.lastAlive); age > d.opts.Reread+stallAfter {
		return fmt.Errorf("the static pod source has stood still for %s: what it waits for is the journal or the disk", age.Round(time.Second))
	}
	return errors.Join(d.pathErr, d.sendErr)
}

// alarm is one timer whose expiry is read from a channel.
type alarm struct {
	clock cri.Clock
	c     chan struct{}
	stop  func() bool
	armed bool
}

func newAlarm(c cri.Clock) *alarm { return &alarm{clock: c, c: make(chan struct{}, 1)} }

func (a *alarm) set(d time.Duration) {
	a.clear()
	// A channel of its own for every setting: an expiry that clear came too late for goes nowhere.
	c := make(chan struct{}, 1)
	a.c, a.armed = c, true
	a.stop = a.clock.AfterFunc(d, func() { c <- struct{}{} })
}

func (a *alarm) clear() {
	if a.armed {
		a.stop()
		a.armed = false
		a.c = make(chan struct{}, 1)
	}
}
