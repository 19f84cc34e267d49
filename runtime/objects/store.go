package objects

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// readTimeout bounds how long a driver or a report waits for the first read of an object.
	readTimeout = time.Second
	// retryEvery is the wait after a fact that could not be emitted.
	retryEvery = time.Second
)

// Options configure a Store; RootDir, Backing and Sink must be set.
type Options struct {
	// RootDir is the agent's root directory, which holds the key of digests.
	RootDir string
	// Backing is where the objects of this node come from: files.
	Backing Backing
	// API is where the objects of the API server come from; nil: no API server.
	API Backing
	// Sink receives a pod's objects when one of them has changed, one pod after the other. After an error they are
	// reported again.
	Sink func(context.Context, *journaletv1.ObjectsRead) error
	Log  *slog.Logger
}

// Store watches the objects that pods refer to. Its methods may be called concurrently, Seed and SeedPending only
// before Run.
type Store struct {
	opts   Options
	wake   chan struct{}
	digest digester

	mu      sync.Mutex
	pods    map[string]*pod // by UID
	entries map[Key]*entry
	// stale are the UIDs of pods that may differ from what was reported.
	stale map[string]bool
}

// entry is an object that pods refer to, or that a driver is waiting for.
type entry struct {
	users   int // pods, and drivers that wait
	watched bool
	later   bool // only pods that were given it before
	read    bool // first is closed
	object  Object
	digest  string
	// first is closed with the first read.
	first chan struct{}
	// secrets are the contents of a Secret, a token or a key, as last read and before.
	secrets [2][]string
}

// known reports whether there is something to report of it.
func (e *entry) known() bool { return e.object.State != 0 }

// pod is a pod that refers to objects, or that did.
type pod struct {
	uid, name, namespace string
	// api: it is a pod of the API server.
	api  bool
	refs []*journaletv1.ObjectRef
	// keys are what refs lead to, in their order: a name, or the one object of that name that the pod has (keep).
	keys []Key
	// reported is what the pod's actor was last given.
	reported []*journaletv1.ObjectRead
	// mustReport reports the next read in any case: the references have changed.
	mustReport bool
	// since is when the references were set.
	since time.Time
	// secrets are the contents of Secrets that the pod referred to before.
	secrets []string
}

// New returns a store. It reads nothing before Run.
func New(o Options) *Store {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{
		opts: o, wake: make(chan struct{}, 1), digest: digester{root: o.RootDir, log: o.Log},
		pods: map[string]*pod{}, entries: map[Key]*entry{}, stale: map[string]bool{},
	}
}

// Seed adds what a pod refers to and what it was last given, from its state in the journal.
func (s *Store) Seed(ref *journaletv1.PodRef, refs []*journaletv1.ObjectRef, read []*journaletv1.ObjectRead) {
	uid := ref.GetUid()
	s.set(uid, &journaletv1.ObjectsSet{
		Namespace: ref.GetNamespace(), Refs: refs, Api: ref.GetApi() != nil, PodName: ref.GetName(),
	}, read)
	s.SeedPending(&journaletv1.ObjectsRead{Uid: uid, Objects: read})
}

// SeedPending adds a fact of the journal that the pod has not handled yet.
func (s *Store) SeedPending(r *journaletv1.ObjectsRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[r.GetUid()]
	if p == nil {
		return
	}
	before := map[Key]string{}
	for _, k := range p.keys {
		before[k] = s.fileOf(k)
	}
	p.reported, p.mustReport = r.GetObjects(), false
	s.keepReported(p)
	for _, k := range p.keys {
		if file, has := before[k]; has && file != s.fileOf(k) {
			s.backing(k).WatchLater(k, s.fileOf(k))
		}
	}
}

// Stored handles a stored record.
func (s *Store) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_ObjectsSet:
			s.set(messages.RefOf(rec.GetActor()).ID, k.ObjectsSet, nil)
		case *journaletv1.Event_PodForgotten:
			s.forget(k.PodForgotten.GetUid())
		case *journaletv1.Event_PodFinished:
			s.forget(k.PodFinished.GetUid())
		}
	}
}

// set replaces what a pod refers to. It was given read before: that can wait until a driver needs the contents.
func (s *Store) set(uid string, o *journaletv1.ObjectsSet, read []*journaletv1.ObjectRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil {
		if len(o.GetRefs()) == 0 {
			return
		}
		p = &pod{uid: uid}
		s.pods[uid] = p
	}
	if now := s.secretsOf(p); len(now) > 0 {
		p.secrets = now
	}
	before := *p
	p.namespace, p.refs, p.mustReport, p.since = o.GetNamespace(), o.GetRefs(), true, time.Now()
	p.api, p.name, p.keys = o.GetApi(), o.GetPodName(), nil
	if read != nil {
		p.reported = read
	}
	for _, r := range p.refs {
		k := before.keyNow(r, p.keyOf(r))
		p.keys = append(p.keys, k)
		s.acquire(k, slices.ContainsFunc(read, func(o *journaletv1.ObjectRead) bool {
			return o.GetState() == present && references.Equal(o.GetRef(), r)
		}))
	}
	for _, k := range before.keys {
		s.release(k)
	}
	s.stale[uid] = true
	s.signal()
}

// forget drops a pod: its next incarnation refers to nothing yet.
func (s *Store) forget(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil {
		return
	}
	for _, k := range p.keys {
		s.release(k)
	}
	delete(s.pods, uid)
}

// acquire adds a user of an object, which can wait for it or not; s.mu is held.
func (s *Store) acquire(k Key, later bool) *entry {
	e := s.entries[k]
	switch {
	case e == nil:
		e = &entry{watched: true, later: later, first: make(chan struct{})}
		s.entries[k] = e
		if later {
			s.backing(k).WatchLater(k, s.fileOf(k))
		} else {
			s.backing(k).Watch(k, s.fileOf(k))
		}
	case e.later && e.watched && !later:
		e.later = false
		s.backing(k).Watch(k, s.fileOf(k))
	case k.UID == "" && e.object.lasts():
		// A driver still has the object that had the name: by now another one may have it.
		e = s.renew(k, e)
	}
	e.users++
	return e
}

// release removes a user of an object; s.mu is held.
func (s *Store) release(k Key) {
	e := s.entries[k]
	if e.users--; e.users > 0 {
		return
	}
	if e.watched {
		s.backing(k).Unwatch(k)
	}
	delete(s.entries, k)
}

// markRead ends the wait for the first read.
func (e *entry) markRead() {
	if !e.read {
		e.read = true
		close(e.first)
	}
}

// backing returns where an object comes from.
func (s *Store) backing(k Key) Backing {
	switch {
	case !k.API:
		return s.opts.Backing
	case s.opts.API == nil:
		return nowhere{s}
	}
	return s.opts.API
}

// nowhere is where objects of the API server come from on a node that has no kubeconfig any more.
type nowhere struct{ s *Store }

func (n nowhere) Watch(k Key, _ string) {
	e := n.s.entries[k] // its lock is held
	e.object = Object{State: unreadable, Message: "objects of the API server need --kubeconfig"}
	e.markRead()
}

func (n nowhere) WatchLater(k Key, file string) { n.Watch(k, file) }

func (nowhere) Unwatch(Key) {}

func (nowhere) Run(context.Context, func(map[Key]Object)) error { return nil }

func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run reads objects and reports changes until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.opts.Backing.Run(ctx, s.read) })
	if s.opts.API != nil {
		g.Go(func() error { return s.opts.API.Run(ctx, s.read) })
	}
	g.Go(func() error { return s.report(ctx) })
	return g.Wait()
}

// read takes what the backing has read.
func (s *Store) read(all map[Key]Object) {
	digests := map[Key]string{}
	for k, o := range all {
		if o.hasContents() {
			digests[k] = s.digest.digestOf(&o)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, o := range all {
		e := s.entries[k]
		if e == nil || !e.watched {
			continue
		}
		s.take(k, e, o, digests[k])
	}
	for uid, p := range s.pods {
		if slices.ContainsFunc(p.keys, func(k Key) bool { _, has := all[k]; return has }) {
			s.stale[uid] = true
		}
	}
	s.signal()
}

// take takes what was read of an object; s.mu is held.
func (s *Store) take(k Key, e *entry, o Object, digest string) {
	e.markRead()
	if k.UID != "" {
		s.takeOne(k, e, o, digest)
		return
	}
	e.set(k, o, digest)
	if o.lasts() {
		s.keep(k, e)
	}
}

// set replaces the contents of an entry.
func (e *entry) set(k Key, o Object, digest string) {
	if digest != e.digest && o.hasContents() {
		e.secrets = [2][]string{secretValues(k, &o), e.secrets[0]}
	}
	e.object, e.digest = o, digest
}

// report emits facts until ctx ends.
func (s *Store) report(ctx context.Context) error {
	for {
		var again <-chan time.Time
		if wait := s.reportAll(ctx); wait > 0 {
			again = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
		case <-s.wake:
		}
	}
}

// reportAll reports each stale pod whose objects differ from what was reported. It returns after which time to do so
// again; 0: with the next change.
func (s *Store) reportAll(ctx context.Context) (again time.Duration) {
	s.mu.Lock()
	uids := slices.Sorted(maps.Keys(s.stale))
	clear(s.stale)
	s.mu.Unlock()
	retry := func(uid string, after time.Duration) {
		s.mu.Lock()
		s.stale[uid] = true
		s.mu.Unlock()
		if again == 0 || after < again {
			again = after
		}
	}
	for _, uid := range uids {
		p, since, fact, wait := s.changed(uid)
		if wait > 0 {
			retry(uid, wait)
		}
		if fact == nil {
			continue
		}
		if err := s.opts.Sink(ctx, fact); err != nil {
			retry(uid, retryEvery)
			continue
		}
		s.mu.Lock()
		p.reported = fact.GetObjects()
		p.mustReport = p.mustReport && !p.since.Equal(since)
		s.mu.Unlock()
	}
	return again
}

// changed returns the fact that a pod's actor lacks, nil if none, and since when the pod has its references. wait is
// for how long the first read of an object may still take.
func (s *Store) changed(uid string) (
	p *pod, since time.Time, fact *journaletv1.ObjectsRead, wait time.Duration,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p = s.pods[uid]; p == nil || len(p.refs) == 0 {
		return nil, since, nil, 0
	}
	fact = &journaletv1.ObjectsRead{Uid: uid}
	for i, r := range p.refs {
		k := p.keys[i]
		switch e, before := s.entries[k], p.before(r); {
		case k.UID != "" && !e.object.hasContents() && before != nil:
			// The pod keeps what it was given, whatever has the name by now.
			fact.Objects = append(fact.Objects, before)
		case e.known():
			now := e.fact(k, r)
			if k.Kind == certificate && now.GetDigest() == "" {
				// A key is kept nowhere but in the pod's volume, which still has it and its certificates.
				now.Digest = before.GetDigest()
			}
			fact.Objects = append(fact.Objects, now)
		case before != nil:
			// The API server may be away, or the name be read again. What the pod was given stays.
			fact.Objects = append(fact.Objects, before)
		}
	}
	if len(fact.GetObjects()) < len(p.refs) {
		if wait = time.Until(p.since.Add(readTimeout)); wait > 0 {
			return nil, since, nil, wait
		}
	}
	same := slices.EqualFunc(fact.GetObjects(), p.reported, func(a, b *journaletv1.ObjectRead) bool {
		return proto.Equal(a, b)
	})
	if len(fact.GetObjects()) == 0 || same && !p.mustReport {
		return nil, since, nil, 0
	}
	return p, p.since, fact, 0
}

// before returns what was last reported of an object, nil if nothing was.
func (p *pod) before(r *journaletv1.ObjectRef) *journaletv1.ObjectRead {
	for _, o := range p.reported {
		if references.Equal(o.GetRef(), r) {
			return o
		}
	}
	return nil
}

// fact returns an object as a fact has it.
func (e *entry) fact(k Key, r *journaletv1.ObjectRef) *journaletv1.ObjectRead {
	out := &journaletv1.ObjectRead{
		Ref: r, State: e.object.State, Version: e.object.Version, Digest: e.digest, Message: e.object.Message,
		Immutable: e.object.lasts(), Uid: k.UID, File: e.object.File,
	}
	if out.GetState() == missing && out.GetMessage() == "" {
		out.Message = k.Missing()
	}
	return out
}
