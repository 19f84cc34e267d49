package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Journal is what the host needs of the journal; *bus.Journal is one.
type Journal interface {
	// Append takes a record that must not be refused: a step, an outcome. It never blocks.
	Append(rec *journaletv1.Record)
	// AppendFact takes a new fact from outside; it waits while too much is waiting to be stored.
	AppendFact(ctx context.Context, rec *journaletv1.Record) error
	// Flush returns when everything appended is stored and has been given to Stored.
	Flush(ctx context.Context) error
	// CutTo is the seq of the first record that retention left, 1 if it cut nothing.
	CutTo() uint64
	// Last is the seq of the last record stored.
	Last() uint64
	// Read gives the records from..to in order.
	Read(ctx context.Context, from, to uint64, filter string, f func(rec *journaletv1.Record, size int) error) error
}

// Snapshots is where snapshots are kept; *bus.Snapshots is one.
type Snapshots interface {
	Save(ctx context.Context, barrier uint64, snaps []*journaletv1.Snapshot) error
	Load(ctx context.Context) (barrier uint64, snaps []*journaletv1.Snapshot, err error)
}

// Effects sees every stored record, in order, after the actors were told. It must return quickly.
type Effects interface {
	Stored(rec *journaletv1.Record)
}

// Options are what a host is made of. All fields are required but Log.
type Options struct {
	Node      string
	Epoch     uint64
	Journal   Journal
	Snapshots Snapshots
	Deciders  Deciders
	// Manifest finds the pod that a digest names.
	Manifest func(ctx context.Context, digest string) (*corev1.Pod, error)
	Effects  Effects
	Now      func() time.Time
	Log      *slog.Logger
}

// ErrNoActor is returned for an actor that does not exist.
var ErrNoActor = errors.New("no such actor")

// singletons are the actors that every node has. Other sources than the folder are born by their first reading.
var singletons = []messages.Ref{messages.Runtime, messages.Node, messages.Image, messages.Source(messages.FileSource)}

// Host runs the actors of one node.
type Host struct {
	opts   Options
	made   time.Time
	system *actor.ActorSystem
	root   *actor.PID

	// routing is held while a record is given to the actors, and while snapshots draw their line.
	routing sync.Mutex
	routed  uint64
	started *journaletv1.Record
	// sinceSnapshot counts records routed since the last set of snapshots.
	sinceSnapshot uint64
	snapshotting  atomic.Bool
	// saving is held while a set of snapshots is taken and stored.
	saving sync.Mutex
	// folding is shared by the folds of the journal, and held while its front is cut.
	folding sync.RWMutex
	// floor is the record up to which nothing is folded, 0 for none: see gap. Set by Recover.
	floor uint64

	// mu guards members; only the router changes it.
	mu      sync.RWMutex
	members map[messages.Ref]*member

	// repairs are the goroutines that rebuild actors or let them catch up.
	repairs sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
}

// member is a spawned actor.
type member struct {
	box *mailbox

	// since is when it began to handle a record, in nanoseconds after the host was made; 0 between two.
	since atomic.Int64

	mu    sync.Mutex
	cell  *cell
	pid   *actor.PID
	ended bool
}

// born takes the member's process id; it tells whether the member was ended before it was born.
func (m *member) born(pid *actor.PID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pid = pid
	return m.ended
}

// end stops the member from taking records; it gives the process to be stopped, nil if it is not
// born yet.
func (m *member) end() *actor.PID {
	m.box.close()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	return m.pid
}

// process is the member's process id, nil before it is born.
func (m *member) process() *actor.PID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pid
}

func (m *member) current() *cell {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cell
}

func (m *member) replace(c *cell) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cell = c
}

// New makes a host that has recovered nothing yet.
func New(o Options) *Host {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Host{opts: o, made: time.Now(), members: map[messages.Ref]*member{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// manifest finds what a digest names. It may read the disk; the router uses it for the rare manifest
// that its driver has not just handed over.
func (h *Host) manifest(digest string) (*corev1.Pod, error) { return h.opts.Manifest(h.ctx, digest) }

// Fact appends something learnt from outside, about one actor. It waits while the journal is behind.
func (h *Host) Fact(ctx context.Context, about messages.Ref, e *journaletv1.Event) error {
	return h.opts.Journal.AppendFact(ctx, fact(h.opts.Now(), about, e))
}

// Outcome appends a fact that must never be refused: what became of an intent, a timer, the host's
// own words.
func (h *Host) Outcome(about messages.Ref, e *journaletv1.Event) {
	h.OutcomeAt(h.opts.Now(), about, e)
}

// OutcomeAt is Outcome for one that is to have a time that its driver has read off the clock.
func (h *Host) OutcomeAt(at time.Time, about messages.Ref, e *journaletv1.Event) {
	h.opts.Journal.Append(fact(at, about, e))
}

func fact(at time.Time, about messages.Ref, e *journaletv1.Event) *journaletv1.Record {
	return &journaletv1.Record{
		Time: timestamppb.New(at), Actor: about.Proto(), Body: &journaletv1.Record_Fact{Fact: e},
	}
}

// Stored takes records that are stored: it gives them to the actors concerned, then to the drivers.
// It is called from one goroutine, in order.
func (h *Host) Stored(recs []*journaletv1.Record) {
	h.routing.Lock()
	defer h.routing.Unlock()
	for _, rec := range recs {
		h.route(rec)
		h.routed = rec.GetSeq()
		h.opts.Effects.Stored(rec)
	}
	h.sinceSnapshot += uint64(len(recs))
	if h.sinceSnapshot >= snapshotEvery && h.snapshotting.CompareAndSwap(false, true) {
		h.sinceSnapshot = 0
		h.repairs.Go(func() {
			defer h.snapshotting.Store(false)
			if err := h.Snapshot(h.ctx); err != nil {
				h.opts.Log.Warn("snapshots were not taken; the next ones will be", "err", err)
			}
		})
	}
}

func (h *Host) route(rec *journaletv1.Record) {
	if rec.GetFact().GetAgentStarted() != nil {
		h.started = rec
	}
	for ref, d := range route(rec, h.everybody) {
		m := h.member(ref)
		if m == nil {
			if !bearing(ref, d) {
				continue
			}
			if m = h.bear(ref, sourceOf(d)); m == nil {
				continue
			}
		}
		resolveWith(d, h.manifest)
		h.post(ref, m, d)
	}
	for _, e := range rec.GetStep().GetDecisions() {
		if k := e.GetPodForgotten(); k != nil {
			h.forget(messages.Pod(k.GetUid()))
		}
	}
}

func (h *Host) post(ref messages.Ref, m *member, d *delivery) {
	if m.box.put(d) {
		return
	}
	h.opts.Log.Warn("an actor lags behind the journal and catches up from it", "actor", ref.String(), "seq", d.rec.GetSeq())
	h.repairs.Go(func() { h.catchUp(ref, m, d.rec.GetSeq()) })
}

func (h *Host) everybody() []messages.Ref {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Collect(maps.Keys(h.members))
}

func (h *Host) member(ref messages.Ref) *member {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.members[ref]
}

// bear makes the actor of a pod or a source that was not there.
func (h *Host) bear(ref messages.Ref, source string) *member {
	c := &cell{ref: ref, decider: h.opts.Deciders(ref)}
	if c.decider == nil {
		return nil
	}
	c.hearStart(h.started)
	return h.spawn(c, source)
}

// forget ends an actor.
func (h *Host) forget(ref messages.Ref) {
	m := h.member(ref)
	if m == nil {
		return
	}
	h.mu.Lock()
	delete(h.members, ref)
	h.mu.Unlock()
	if pid := m.end(); pid != nil {
		h.system.Root.Stop(pid)
	}
}

// Refs lists the actors of one kind, by id.
func (h *Host) Refs(kind journaletv1.ActorKind) []messages.Ref {
	var refs []messages.Ref
	for _, ref := range h.everybody() {
		if ref.Kind == kind {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b messages.Ref) int { return strings.Compare(a.ID, b.ID) })
	return refs
}

// Quarantines lists the actors that are out of service.
func (h *Host) Quarantines() map[messages.Ref]*journaletv1.Quarantined {
	all := map[messages.Ref]*journaletv1.Quarantined{}
	for _, ref := range h.everybody() {
		if m := h.member(ref); m != nil {
			if q := m.current().quarantined; q != nil {
				all[ref] = q
			}
		}
	}
	return all
}

// Hanging are the actors that have been at one record for longer than a time, and since when. A decision takes microseconds.
func (h *Host) Hanging(longer time.Duration) map[messages.Ref]time.Time {
	all, now := map[messages.Ref]time.Time{}, time.Now()
	for _, ref := range h.everybody() {
		if m := h.member(ref); m != nil {
			since := time.Duration(m.since.Load())
			if took := now.Sub(h.made) - since; since != 0 && took > longer {
				all[ref] = now.Add(-took)
			}
		}
	}
	return all
}

// Lagging counts the actors that catch up from the journal.
func (h *Host) Lagging() int {
	n := 0
	for _, ref := range h.everybody() {
		if m := h.member(ref); m != nil && m.box.behind() {
			n++
		}
	}
	return n
}

// Inspect runs f with an actor's decider, on the actor's own turn, between two records. f must only
// read, and keep nothing that it does not copy. After an error f has not run and will not.
func (h *Host) Inspect(ctx context.Context, ref messages.Ref, f func(actors.Decider)) error {
	m := h.member(ref)
	if m == nil {
		return fmt.Errorf("%s: %w", ref, ErrNoActor)
	}
	q := &question{ask: f, answered: make(chan error, 1)}
	m.box.PostUserMessage(q)
	select {
	case err := <-q.answered:
		return err
	case <-ctx.Done():
		if q.taken.CompareAndSwap(false, true) {
			return fmt.Errorf("ask %s: %w", ref, ctx.Err())
		}
		return <-q.answered
	}
}

// question is an Inspect on its way.
type question struct {
	ask      func(actors.Decider)
	answered chan error
	// taken is set by who ends the question first: the actor that answers, or the requester that gives up.
	taken atomic.Bool
}

// answer runs the question, unless the requester has given up.
func (q *question) answer(d actors.Decider) {
	if q.taken.CompareAndSwap(false, true) {
		q.ask(d)
		q.answered <- nil
	}
}

func (q *question) refuse() {
	q.answered <- errors.New("the actor is stopped or has too many questions waiting")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
