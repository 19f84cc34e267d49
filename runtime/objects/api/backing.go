package api

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/objects"
)

const (
	present    = journaletv1.ObjectState_OBJECT_STATE_PRESENT
	missing    = journaletv1.ObjectState_OBJECT_STATE_MISSING
	unreadable = journaletv1.ObjectState_OBJECT_STATE_UNREADABLE

	certificate = journaletv1.ObjectKind_OBJECT_KIND_POD_CERTIFICATE

	// idleAfter is for how long an object is followed after the last pod that refers to it: the next pod of the
	// namespace often comes soon.
	idleAfter = time.Minute
	// laterAfter is how long after the start, and laterEvery how often, what a pod that runs already has is requested.
	// The kubelet, which requests them with the pods' first syncs, is bounded by its 50 requests a second.
	laterAfter = 3 * time.Second
	laterEvery = 50 * time.Millisecond
)

// Kept keeps contents on disk for a start without the API server (runtime/objects/offlinecopy).
type Kept interface {
	// Save keeps an object that is present, until the given time if that is not zero.
	Save(objects.Key, *objects.Object, time.Time)
	// Load returns what is kept of an object.
	Load(objects.Key) (objects.Object, bool)
	// Remove removes what is kept of an object.
	Remove(objects.Key)
	// Sweep removes what is kept of all other objects.
	Sweep(still map[objects.Key]bool)
}

// Options configure a Backing; Client must be set.
type Options struct {
	Client *client.Client
	// Kept may be nil.
	Kept Kept
	// LaterAfter is how long after the start tokens and certificates of running pods are requested. Default: 3 s.
	LaterAfter time.Duration
	// NodeName is the name of this node. Pod returns the manifest of a pod, whole; nil: no pod has a certificate.
	NodeName string
	Pod      func(ctx context.Context, uid string) (*corev1.Pod, error)
	// Event emits a warning about a pod; it may be nil.
	Event func(pod *journaletv1.PodRef, reason, message string)
	// Clock is what renewals of certificates follow; nil: the machine's.
	Clock clock.Clock
	// Wall returns the time of the wall clock, which may be set; nil: the machine's.
	Wall func() time.Time
	Log  *slog.Logger
}

// Backing follows objects of the API server. It implements objects.Backing.
type Backing struct {
	opts    Options
	wake    chan struct{}
	running sync.WaitGroup
	trust   trust
	issuing certificates

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before
	entries map[objects.Key]*entry
	// dirty are the objects to report.
	dirty map[objects.Key]bool
	// away: the last request had no answer. back is closed when the next one has.
	away bool
	back chan struct{}
}

// entry is an object that is followed.
type entry struct {
	key     objects.Key
	watched bool
	later   bool               // nothing waits for it yet
	cancel  context.CancelFunc // nil before it is followed
	idle    *time.Timer        // ends an entry that is not watched
	now     *objects.Object    // nil before the first read
}

var _ objects.Backing = (*Backing)(nil)

// New returns a backing. It requests nothing before Run.
func New(o Options) *Backing {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Wall == nil {
		o.Wall = func() time.Time { return time.Now().Round(0) }
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	o.LaterAfter = cmp.Or(o.LaterAfter, laterAfter)
	return &Backing{
		opts: o, wake: make(chan struct{}, 1), entries: map[objects.Key]*entry{}, dirty: map[objects.Key]bool{},
		back: make(chan struct{}), trust: trust{signers: map[string]*signer{}, most: maxSignerBytes, again: findAgain},
		issuing: newCertificates(),
	}
}

// Watch implements objects.Backing.
func (b *Backing) Watch(k objects.Key, _ string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := b.entries[k]; {
	case e == nil:
	case e.watched: // by WatchLater
		e.later = false
		if b.ctx != nil && e.cancel == nil && e.now == nil {
			b.start(e)
		}
		return
	default: // it is idle
		e.watched = true
		e.idle.Stop()
		if e.now != nil {
			b.report(k)
		}
		return
	}
	e := &entry{key: k, watched: true}
	b.entries[k] = e
	if b.ctx != nil {
		b.start(e)
	}
}

// WatchLater implements objects.Backing. Only tokens and certificates wait: each is a request of its own, and a node
// that starts again has one for every pod, while new pods wait for theirs.
func (b *Backing) WatchLater(k objects.Key, file string) {
	b.mu.Lock()
	later := b.ctx == nil && (k.Kind == journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN || k.Kind == certificate)
	if later && b.entries[k] == nil {
		b.entries[k] = &entry{key: k, watched: true, later: true}
	}
	b.mu.Unlock()
	if !later {
		b.Watch(k, file)
	}
}

// Unwatch implements objects.Backing.
func (b *Backing) Unwatch(k objects.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[k]
	if e == nil {
		return
	}
	e.watched = false
	delete(b.dirty, k)
	// A token is of one pod, and a new object may have the name of an immutable one.
	if k.Pod != (objects.PodID{}) || k.UID != "" || e.now == nil || e.now.Immutable {
		b.end(e)
		return
	}
	b.idle(e)
}

// idle ends an object that nobody watches after a while; b.mu is held.
func (b *Backing) idle(e *entry) {
	e.idle = time.AfterFunc(idleAfter, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.entries[e.key] == e && !e.watched {
			b.end(e)
		}
	})
}

// start follows an object; b.mu is held.
func (b *Backing) start(e *entry) {
	ctx, cancel := context.WithCancel(b.ctx)
	e.cancel = cancel
	b.running.Go(func() { b.follow(ctx, e) })
}

// end forgets an object; b.mu is held.
func (b *Backing) end(e *entry) {
	delete(b.entries, e.key)
	if e.cancel != nil {
		e.cancel()
	}
	if kept := b.opts.Kept; kept != nil && b.ctx != nil && b.ctx.Err() == nil {
		kept.Remove(e.key)
	}
}

// Run implements objects.Backing.
func (b *Backing) Run(ctx context.Context, read func(map[objects.Key]objects.Object)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer b.running.Wait()
	defer cancel()
	b.begin(ctx)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.wake:
		}
		if batch := b.batch(); len(batch) > 0 {
			read(batch)
		}
	}
}

// begin follows what is watched already: the objects of pods that the journal has.
func (b *Backing) begin(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ctx = ctx
	still := map[objects.Key]bool{}
	var later []*entry
	for k, e := range b.entries {
		still[k] = true
		if e.later {
			later = append(later, e)
		} else {
			b.start(e)
		}
	}
	if len(later) > 0 {
		b.running.Go(func() { b.startLater(ctx, later) })
	}
	if b.opts.Kept != nil {
		b.opts.Kept.Sweep(still)
	}
}

// startLater follows what nothing waits for, in an order of its own, so that a node's pods do not all request at once.
func (b *Backing) startLater(ctx context.Context, all []*entry) {
	slices.SortFunc(all, func(x, y *entry) int {
		return cmp.Or(cmp.Compare(x.key.Pod.UID, y.key.Pod.UID), cmp.Compare(x.key.Selector, y.key.Selector))
	})
	for wait := b.opts.LaterAfter; len(all) > 0; wait, all = laterEvery, all[1:] {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		b.mu.Lock()
		if e := all[0]; b.entries[e.key] == e && e.cancel == nil {
			b.start(e)
		}
		b.mu.Unlock()
	}
}

// batch returns what is to be reported.
func (b *Backing) batch() map[objects.Key]objects.Object {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := map[objects.Key]objects.Object{}
	for k := range b.dirty {
		if e := b.entries[k]; e != nil && e.watched && e.now != nil {
			batch[k] = *e.now
		}
	}
	clear(b.dirty)
	return batch
}

// report wakes Run; b.mu is held.
func (b *Backing) report(k objects.Key) {
	b.dirty[k] = true
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// set takes what was read of an object. until is when it ends to be valid; zero: never.
func (b *Backing) set(e *entry, o objects.Object, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries[e.key] != e {
		return
	}
	e.now = &o
	b.report(e.key)
	if o.State == present && o.Immutable && e.key.UID == "" {
		b.keep(e.key, o)
		return
	}
	if kept := b.opts.Kept; kept != nil && e.key.Kind != certificate {
		switch o.State {
		case present:
			kept.Save(e.key, &o, until)
		case missing:
			kept.Remove(e.key)
		}
	}
}

// replace is set for an object that may be as it was.
func (b *Backing) replace(e *entry, o objects.Object) {
	b.mu.Lock()
	had := e.now
	b.mu.Unlock()
	if had == nil || had.State != o.State || had.Message != o.Message || !bytes.Equal(had.Data, o.Data) {
		b.set(e, o, time.Time{})
	}
}

// read reports whether an object was read. It counts as read, too, if the read found that it does not exist.
func (b *Backing) read(e *entry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.now != nil && !e.now.Away
}

// unanswered takes that a request for an object had no answer. What was read stays; otherwise what is kept of it
// counts, if anything is.
func (b *Backing) unanswered(e *entry, why string) {
	var o objects.Object
	kept := false
	if !b.read(e) && b.opts.Kept != nil {
		o, kept = b.opts.Kept.Load(e.key)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = true
	if b.entries[e.key] != e || e.now != nil {
		return
	}
	if !kept {
		o = objects.Object{Away: true, Message: "the API server does not answer: " + why}
	} else {
		b.opts.Log.Info("the API server does not answer; what was kept of an object is used", "kind",
			e.key.Kind.String(), "namespace", e.key.Namespace, "name", e.key.Name)
	}
	e.now = &o
	b.report(e.key)
}

// answered takes that the API server answers. Those that wait try again now.
func (b *Backing) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		b.away = false
		close(b.back)
		b.back = make(chan struct{})
	}
}

// wait waits before another try, not longer than until the API server answers again.
func (b *Backing) wait(ctx context.Context, d time.Duration) {
	b.mu.Lock()
	back := b.back
	b.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-back:
	}
}
