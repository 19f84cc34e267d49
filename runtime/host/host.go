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
	"github.com/journalet/journalet/runtime/fold"
)

// Journal is the host's view of the journal; *bus.Journal implements it.
type Journal interface {
	// Append appends the parts of a step, all or none, or an outcome. It never blocks. An error means that such a record
	// can never be stored.
	Append(recs ...*journaletv1.Record) error
	// AppendFact appends a new fact from outside. It blocks while too many records are queued.
	AppendFact(ctx context.Context, rec *journaletv1.Record) error
	// Flush returns once all appended records are stored and passed to Stored.
	Flush(ctx context.Context) error
	// CutTo returns the seq of the first record that retention has kept, 1 if it has cut nothing.
	CutTo() uint64
	// Last returns the seq of the last stored record.
	Last() uint64
	// Read calls f for the records from..to in order.
	Read(ctx context.Context, from, to uint64, filter string, f func(rec *journaletv1.Record, size int) error) error
}

// Snapshots is the store of snapshots; *bus.Snapshots implements it.
type Snapshots interface {
	Save(ctx context.Context, barrier uint64, snaps []*journaletv1.Snapshot) error
	Load(ctx context.Context) (barrier uint64, snaps []*journaletv1.Snapshot, err error)
}

// Effects receives every stored record, in order, after the actors. It must return quickly.
type Effects interface {
	Stored(rec *journaletv1.Record)
}

// Options configure a host. All fields but Log are required.
type Options struct {
	Node      string
	Epoch     uint64
	Journal   Journal
	Snapshots Snapshots
	Deciders  fold.Deciders
	// Manifest returns the manifest with a digest.
	Manifest func(ctx context.Context, digest string) (*corev1.Pod, error)
	Effects  Effects
	Now      func() time.Time
	Log      *slog.Logger
}

// ErrNoActor is returned for an actor that does not exist.
var ErrNoActor = errors.New("no such actor")

// Host runs the actors of one node.
type Host struct {
	opts      Options
	createdAt time.Time
	system    *actor.ActorSystem
	root      *actor.PID

	// routing is held while a record goes to the actors, and while snapshots set their barrier.
	routing sync.Mutex
	// routed is the last routed record. It is never within the parts of a step.
	routed  uint64
	parts   fold.Parts
	started *journaletv1.Record
	// sinceSnapshot counts the records routed since the last set of snapshots.
	sinceSnapshot uint64
	snapshotting  atomic.Bool
	// saving is held while a set of snapshots is taken and stored.
	saving sync.Mutex
	// folding is read-locked by folds of the journal, and locked while retention cuts it.
	folding sync.RWMutex
	// refusal is the first outcome that the journal refused.
	refusal atomic.Pointer[error]
	// floor is the last record that is not folded, 0 for none: see checkSnapshots. Set by Recover.
	floor uint64

	// mu guards members; only the router changes it.
	mu      sync.RWMutex
	members map[messages.Ref]*member

	// lifting is held while a quarantine is lifted.
	lifting sync.Mutex
	retries retries
	// repairs are the goroutines that rebuild lagging or failed actors.
	repairs sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
}

// member is a spawned actor.
type member struct {
	box *mailbox

	// since is the start of handling the current record, in nanoseconds after Host.createdAt; 0 between two records.
	since atomic.Int64

	mu    sync.Mutex
	cell  *fold.Cell
	pid   *actor.PID
	ended bool
	// gaveBack is set once it is recorded that the pod holds nothing.
	gaveBack atomic.Bool
}

// setProcess sets the member's process id. It reports whether end was called before.
func (m *member) setProcess(pid *actor.PID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pid = pid
	return m.ended
}

// end closes the mailbox and returns the process to stop, nil if it is not spawned yet.
func (m *member) end() *actor.PID {
	m.box.close()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	return m.pid
}

// process returns the member's process id, nil before it is spawned.
func (m *member) process() *actor.PID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pid
}

func (m *member) current() *fold.Cell {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cell
}

func (m *member) replace(c *fold.Cell) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cell = c
}

// New returns a host. Call Recover, then Start.
func New(o Options) *Host {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Host{opts: o, createdAt: time.Now(), members: map[messages.Ref]*member{}}
	h.retries = retries{pause: retryPause, actors: map[messages.Ref]*retrying{}, wake: make(chan struct{}, 1)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// manifest returns the manifest with a digest. It rarely reads the disk: the drivers cache new manifests.
func (h *Host) manifest(digest string) (*corev1.Pod, error) { return h.opts.Manifest(h.ctx, digest) }

// Fact appends a fact from outside about one actor. It blocks while too many records are queued.
func (h *Host) Fact(ctx context.Context, about messages.Ref, e *journaletv1.Event) error {
	return h.opts.Journal.AppendFact(ctx, fact(h.opts.Now(), about, e))
}

// Outcome appends a fact that must not be rejected: the outcome of an intent, a fired timer, the host's own facts.
func (h *Host) Outcome(about messages.Ref, e *journaletv1.Event) {
	h.OutcomeAt(h.opts.Now(), about, e)
}

// OutcomeAt is Outcome with a time that the driver has read from its clock.
func (h *Host) OutcomeAt(at time.Time, about messages.Ref, e *journaletv1.Event) {
	if err := h.opts.Journal.Append(fact(at, about, e)); err != nil {
		h.refused(about, e, err)
	}
}

// refused keeps an outcome that the journal refused, for the agent's health: state and world differ from then on.
func (h *Host) refused(about messages.Ref, e *journaletv1.Event, err error) {
	err = fmt.Errorf("%s about %s was refused: %w", messages.EventName(e), about, err)
	h.opts.Log.Error("the journal refused an outcome", "err", err)
	h.refusal.CompareAndSwap(nil, &err)
}

// Refused returns the first outcome that the journal refused in this run, nil if there was none. A restart inspects
// the world again.
func (h *Host) Refused() error {
	if err := h.refusal.Load(); err != nil {
		return *err
	}
	return nil
}

func fact(at time.Time, about messages.Ref, e *journaletv1.Event) *journaletv1.Record {
	return &journaletv1.Record{
		Time: timestamppb.New(at), Actor: about.Proto(), Body: &journaletv1.Record_Fact{Fact: e},
	}
}

// Stored delivers stored records to the actors concerned, then to the drivers. It is called from one goroutine, in
// order.
func (h *Host) Stored(recs []*journaletv1.Record) {
	h.routing.Lock()
	defer h.routing.Unlock()
	for _, rec := range recs {
		if rec = h.parts.Join(rec); rec == nil {
			continue
		}
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
				h.opts.Log.Warn("cannot take snapshots; will retry", "err", err)
			}
		})
	}
}

func (h *Host) route(rec *journaletv1.Record) {
	if rec.GetFact().GetAgentStarted() != nil {
		h.started = rec
	}
	for ref, d := range fold.Route(rec, h.allRefs) {
		m := h.member(ref)
		if m == nil {
			if !fold.Creates(ref, d) {
				continue
			}
			if m = h.create(ref, sourceOf(d)); m == nil {
				continue
			}
		}
		d.Resolve(h.manifest)
		h.post(ref, m, d)
		if m.current().Quarantined != nil && (bringsManifest(d) || showsGone(d)) {
			h.retry(ref)
		}
	}
	for _, e := range rec.GetStep().GetDecisions() {
		if k := e.GetPodForgotten(); k != nil {
			h.forget(messages.Pod(k.GetUid()))
		}
	}
}

func (h *Host) post(ref messages.Ref, m *member, d *fold.Delivery) {
	if m.box.put(d) {
		return
	}
	h.opts.Log.Warn("an actor lags behind and catches up from the journal", "actor", ref.String(), "seq", d.Rec.GetSeq())
	h.repairs.Go(func() { h.catchUp(ref, m, d) })
}

func (h *Host) allRefs() []messages.Ref {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Collect(maps.Keys(h.members))
}

func (h *Host) member(ref messages.Ref) *member {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.members[ref]
}

// create creates the actor of a new pod or source.
func (h *Host) create(ref messages.Ref, source string) *member {
	c := &fold.Cell{Ref: ref, Decider: h.opts.Deciders(ref)}
	if c.Decider == nil {
		return nil
	}
	c.FoldStart(h.started)
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

// Refs returns the actors of one kind, sorted by id.
func (h *Host) Refs(kind journaletv1.ActorKind) []messages.Ref {
	var refs []messages.Ref
	for _, ref := range h.allRefs() {
		if ref.Kind == kind {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b messages.Ref) int { return strings.Compare(a.ID, b.ID) })
	return refs
}

// Quarantines returns the quarantined actors.
func (h *Host) Quarantines() map[messages.Ref]*journaletv1.Quarantined {
	all := map[messages.Ref]*journaletv1.Quarantined{}
	for _, ref := range h.allRefs() {
		if m := h.member(ref); m != nil {
			if q := m.current().Quarantined; q != nil {
				all[ref] = q
			}
		}
	}
	return all
}

// Hanging returns the actors that have handled one record for longer than a time, and since when. A decision takes
// microseconds.
func (h *Host) Hanging(longer time.Duration) map[messages.Ref]time.Time {
	all, now := map[messages.Ref]time.Time{}, time.Now()
	for _, ref := range h.allRefs() {
		if m := h.member(ref); m != nil {
			since := time.Duration(m.since.Load())
			if took := now.Sub(h.createdAt) - since; since != 0 && took > longer {
				all[ref] = now.Add(-took)
			}
		}
	}
	return all
}

// Lagging counts the actors that catch up from the journal.
func (h *Host) Lagging() int {
	n := 0
	for _, ref := range h.allRefs() {
		if m := h.member(ref); m != nil && m.box.behind() {
			n++
		}
	}
	return n
}

// Backlog returns how many records wait in the fullest mailbox, at most the size of one plus a few.
func (h *Host) Backlog() int {
	most := 0
	for _, ref := range h.allRefs() {
		if m := h.member(ref); m != nil {
			most = max(most, m.box.UserMessageCount())
		}
	}
	return most
}

// Inspect calls f with an actor's decider, on the actor's goroutine between two records. f must only read and must copy
// what it keeps. After an error f has not run and will not run.
func (h *Host) Inspect(ctx context.Context, ref messages.Ref, f func(actors.Decider)) error {
	return h.inspect(ctx, ref, &inspection{inspect: f})
}

// InspectCurrent is Inspect after all records that were routed before the call: what a driver learned from Stored, f
// sees.
func (h *Host) InspectCurrent(ctx context.Context, ref messages.Ref, f func(actors.Decider)) error {
	return h.inspect(ctx, ref, &inspection{inspect: f, current: true})
}

func (h *Host) inspect(ctx context.Context, ref messages.Ref, in *inspection) error {
	m := h.member(ref)
	if m == nil {
		return fmt.Errorf("%s: %w", ref, ErrNoActor)
	}
	in.done = make(chan error, 1)
	m.box.PostUserMessage(in)
	select {
	case err := <-in.done:
		return err
	case <-ctx.Done():
		if in.claimed.CompareAndSwap(false, true) {
			return fmt.Errorf("inspect %s: %w", ref, ctx.Err())
		}
		return <-in.done
	}
}

// inspection is one call of Inspect or InspectCurrent.
type inspection struct {
	inspect func(actors.Decider)
	// current means that it waits for the records queued before it; after is the last of them.
	current bool
	after   uint64
	done    chan error
	// claimed is set by the actor when it runs, or by the caller when it gives up, whichever is first.
	claimed atomic.Bool
}

// run calls inspect unless the caller has given up.
func (i *inspection) run(d actors.Decider) {
	if i.claimed.CompareAndSwap(false, true) {
		i.inspect(d)
		i.done <- nil
	}
}

func (i *inspection) reject() {
	i.done <- errors.New("the actor is stopped or has too many inspections queued")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
