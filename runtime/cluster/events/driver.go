package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
)

const (
	// maxQueued bounds the events that wait for the API server, maxRecords the records whose events are not derived yet.
	maxQueued  = 4096
	maxRecords = 20_000
	// contextRecords are read before the cursor: what the events after it refer to.
	contextRecords = 2000
	// unfoldedRecords are the last records, which an agent that was killed may not have handled: it handles a record
	// within moments.
	unfoldedRecords = 100
	// cursorPeriod is how often the cursor is written at most.
	cursorPeriod = time.Second
	// backOffLeast and backOffMost bound the pause after a request without an answer, which doubles.
	backOffLeast = time.Second
	backOffMost  = 30 * time.Second
)

// reasonLost reports events that were lost. It is sent whatever the rules against floods say.
const reasonLost = "EventsLost"

// Options configure a Driver. All but HostIPs, Returned, Cursor, Clock and Log must be set.
type Options struct {
	NodeName, RootDir string
	// HostIPs are the addresses that the agent has found on its machine, or was given; the first one counts.
	HostIPs []string
	// Manifest returns the manifest with a digest.
	Manifest func(digest string) (*corev1.Pod, error)
	// Create creates an event, Patch changes an event by a JSON merge patch. Both return errors of apimachinery.
	Create func(ctx context.Context, e *corev1.Event) error
	Patch  func(ctx context.Context, namespace, name string, patch []byte) error
	// Read reads stored records from..to in order.
	Read func(ctx context.Context, from, to uint64, f func(*journaletv1.Record) error) error
	// Returned returns a channel that is closed when the API server answers again; nil: never.
	Returned func() <-chan struct{}
	// Cursor keeps the last record whose events the API server has; nil: in a file of RootDir.
	Cursor Cursor
	// Last returns the last record before this run. A nil function: no record came before.
	Last  func() uint64
	Clock clock.Clock
	Log   *slog.Logger
}

// Cursor is where the last record is kept whose events the API server has.
type Cursor interface {
	// Load returns it, false if none is known.
	Load() (uint64, bool, error)
	Save(seq uint64) error
}

// Driver sends the events of stored records.
type Driver struct {
	opts    Options
	deriver *deriver
	spam    *correlator

	// last is the last record before this run. These are what the fold of the records up to it has: calls under way, the
	// health of the runtime, the boot.
	last   uint64
	calls  map[string]*journaletv1.CallRequested
	health *journaletv1.RuntimeHealthChanged
	bootID string

	mu      sync.Mutex
	nodeUID types.UID
	// records are stored and not derived, queued is derived and not sent.
	records []*journaletv1.Record
	queued  []*corev1.Event
	seqs    []uint64 // of queued; 0 for no record
	derived uint64   // the last record that is derived
	saved   uint64   // the cursor as it is kept
	lost    int
	emitted int
	stored  chan struct{}
	added   chan struct{}
}

// New returns a driver. Seed it, then run it.
func New(o Options) *Driver {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Returned == nil {
		o.Returned = func() <-chan struct{} { return nil }
	}
	if o.Cursor == nil {
		o.Cursor = cursorIn(filepath.Join(o.RootDir, cursorFile))
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	derived := newDeriver(o.Manifest)
	if len(o.HostIPs) > 0 {
		derived.hostIP = o.HostIPs[0]
	}
	return &Driver{
		opts: o, deriver: derived, spam: newCorrelator(), calls: map[string]*journaletv1.CallRequested{},
		stored: make(chan struct{}, 1), added: make(chan struct{}, 1),
	}
}

// Seed adds a pod of the fold, with its calls under way.
func (d *Driver) Seed(ref *journaletv1.PodRef, calls map[string]*journaletv1.PodCall) {
	if ref != nil {
		d.deriver.pods[ref.GetUid()] = ref
	}
	for id, c := range calls {
		d.calls[id] = c.GetRequest()
	}
}

// SeedNode sets what the fold has of the Node: its UID and the boot. last is the last record of the fold.
func (d *Driver) SeedNode(uid, bootID string, last uint64) {
	d.nodeUID, d.bootID, d.last = types.UID(uid), bootID, last
}

// Stored takes a stored record.
func (d *Driver) Stored(rec *journaletv1.Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := rec.GetFact().GetNodeObserved(); k != nil {
		d.nodeUID = types.UID(k.GetUid())
	}
	if len(d.records) >= maxRecords {
		d.records = d.records[1:]
		d.lost++
	}
	d.records = append(d.records, rec)
	signal(d.stored)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// SeedHealth sets the health of the runtime that the fold has.
func (d *Driver) SeedHealth(h *journaletv1.RuntimeHealthChanged) { d.health = h }

// Emit sends an event of the Node that follows from no record. kind is Normal or Warning.
func (d *Driver) Emit(kind, reason, message string) { d.EmitPod(nil, kind, reason, message) }

// EmitPod sends an event of a pod that follows from no record; nil: of the Node.
func (d *Driver) EmitPod(about *journaletv1.PodRef, kind, reason, message string) {
	d.emit(draft{pod: about, kind: kind, reason: reason, message: message}, nil)
}

// EmitObject sends an event of an object with a namespace that follows from no record.
func (d *Driver) EmitObject(about corev1.ObjectReference, kind, reason, message string) {
	d.emit(draft{kind: kind, reason: reason, message: message}, &about)
}

// emit sends an event that follows from no record. about is what it is about, if the draft does not say it.
func (d *Driver) emit(e draft, about *corev1.ObjectReference) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.emitted++
	e.at, e.index = d.opts.Clock.Now(), d.emitted
	if about != nil {
		e.pod = &journaletv1.PodRef{Namespace: about.Namespace, Name: about.Name, Uid: string(about.UID)}
	}
	out := e.object(d.opts.NodeName, d.node(), nil)
	if about != nil {
		out.InvolvedObject = *about
	}
	d.enqueue(out, 0)
}

// node returns the UID of the Node, its name while it is not known. The lock is held.
func (d *Driver) node() types.UID {
	if d.nodeUID == "" {
		return types.UID(d.opts.NodeName)
	}
	return d.nodeUID
}

// enqueue adds an event, instead of the oldest one if the queue is full. The lock is held.
func (d *Driver) enqueue(e *corev1.Event, seq uint64) {
	if len(d.queued) >= maxQueued {
		d.queued, d.seqs = d.queued[1:], d.seqs[1:]
		d.lost++
	}
	d.queued, d.seqs = append(d.queued, e), append(d.seqs, seq)
	signal(d.added)
}

// Run works until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var sending sync.WaitGroup
	defer sending.Wait()
	defer cancel()
	d.CatchUp(ctx)
	sending.Go(func() { d.send(ctx) })
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.stored:
		}
		d.Derive()
	}
}

// Derive queues the events of what was stored since the last call. Run calls it; a simulation calls CatchUp, Derive,
// Send and Save instead of Run.
func (d *Driver) Derive() {
	d.mu.Lock()
	records := d.records
	d.records = nil
	d.mu.Unlock()
	for _, rec := range records {
		d.derive(rec, 0)
	}
}

// derive queues the events of a record behind the cursor.
func (d *Driver) derive(rec *journaletv1.Record, cursor uint64) {
	drafts := d.deriver.derive(rec)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.derived = max(d.derived, rec.GetSeq())
	if rec.GetSeq() <= cursor {
		return
	}
	for _, e := range drafts {
		d.enqueue(e.object(d.opts.NodeName, d.node(), d.deriver), rec.GetSeq())
	}
}

// CatchUp derives the events of earlier runs that the API server does not have.
func (d *Driver) CatchUp(ctx context.Context) {
	cursor, ok, err := d.opts.Cursor.Load()
	if err != nil {
		d.opts.Log.Warn("cannot read the cursor of events; those of earlier runs are not sent", "dir", d.opts.RootDir,
			"err", err)
	}
	if !ok || cursor > d.last {
		// The first run in a cluster, or another journal. It is kept at once: this run may end before it has sent anything.
		cursor = d.last
		d.keep(cursor)
	}
	from := max(cursor, contextRecords) - contextRecords + 1
	if d.last > maxRecords {
		from = max(from, d.last-maxRecords)
	}
	if cursor < d.last {
		err := d.nameAsBefore(ctx, from)
		if err == nil {
			err = d.healthAsBefore(ctx, from)
		}
		if err == nil {
			err = d.opts.Read(ctx, from, d.last, func(rec *journaletv1.Record) error {
				d.derive(rec, cursor)
				delete(d.calls, rec.GetFact().GetCallFinished().GetIntentId()) // its pod has not folded that yet
				return ctx.Err()
			})
		}
		if err != nil && ctx.Err() == nil {
			d.opts.Log.Warn("cannot read the journal; some events of earlier runs are not sent", "err", err)
		}
	}
	if cursor == d.last {
		d.takeUnfolded(ctx)
	}
	d.saved = cursor
	// Only now: what came after the records does not explain them.
	maps.Copy(d.deriver.calls, d.calls)
	d.deriver.bootID = cmp.Or(d.deriver.bootID, d.bootID)
	d.deriver.health = cmp.Or(d.deriver.health, d.health)
}

// takeUnfolded has the fold's health be what the last records say, where no record is read to derive events: the end of
// an agent may leave a change that no actor has handled, and that none of the records to come repeats.
func (d *Driver) takeUnfolded(ctx context.Context) {
	if d.last == 0 {
		return
	}
	newest, err := d.newestHealth(ctx, max(d.last, unfoldedRecords)-unfoldedRecords+1, d.last)
	if err != nil && ctx.Err() == nil {
		d.opts.Log.Warn("cannot read the journal; events may not know that the network is not ready", "err", err)
	}
	d.health = cmp.Or(newest, d.health)
}

// send sends what is queued until ctx ends.
func (d *Driver) send(ctx context.Context) {
	defer d.Save()
	var due <-chan time.Time
	for ctx.Err() == nil {
		if d.Send(ctx) {
			continue
		}
		if d.cursor() != d.saved && due == nil {
			due = time.After(cursorPeriod)
		}
		select {
		case <-ctx.Done():
		case <-d.added:
		case <-due:
			due = nil
			d.Save()
		}
	}
}

// Send sends the oldest event that waits, until the API server has answered. It returns false if none waits, or if ctx
// ended before. Only one caller at a time may call it, CatchUp and Save.
func (d *Driver) Send(ctx context.Context) bool {
	e := d.next()
	if e == nil || !d.deliver(ctx, e) {
		return false
	}
	d.done(e)
	return true
}

// Save keeps the cursor, if it is another than that which is kept.
func (d *Driver) Save() {
	seq := d.cursor()
	if seq != d.saved {
		d.keep(seq)
	}
}

func (d *Driver) keep(seq uint64) {
	if err := d.opts.Cursor.Save(seq); err != nil {
		d.opts.Log.Warn("cannot write the cursor of events; a restart may send some again", "dir", d.opts.RootDir,
			"err", err)
	}
	d.saved = seq
}

// next returns the oldest event that waits, nil if none does.
func (d *Driver) next() *corev1.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost > 0 && len(d.queued) < maxQueued {
		d.opts.Log.Error("events were lost: too many waited for the API server", "events", d.lost)
		d.emitted++
		e := draft{kind: corev1.EventTypeWarning, reason: reasonLost, at: d.opts.Clock.Now(), index: d.emitted}
		e.message = fmt.Sprintf(
			"%d events of this node were lost while the API server was away; the journal has what they were about", d.lost)
		d.lost = 0
		d.enqueue(e.object(d.opts.NodeName, d.node(), nil), 0)
	}
	if len(d.queued) == 0 {
		return nil
	}
	return d.queued[0]
}

// done drops an event that was sent, unless the queue has dropped it meanwhile.
func (d *Driver) done(e *corev1.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queued) > 0 && d.queued[0] == e {
		d.queued, d.seqs = d.queued[1:], d.seqs[1:]
	}
}

// cursor returns the last record all of whose events were sent.
func (d *Driver) cursor() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, seq := range d.seqs {
		if seq > 0 {
			return seq - 1
		}
	}
	return max(d.derived, d.last)
}

// deliver sends one event until the API server has answered. It reports whether it did before ctx ended.
func (d *Driver) deliver(ctx context.Context, e *corev1.Event) bool {
	o, ok := d.spam.correlate(e.DeepCopy())
	if !ok && e.Reason != reasonLost {
		return true
	}
	for pause := backOffLeast; ; pause = min(2*pause, backOffMost) {
		err := d.request(ctx, o)
		switch {
		case err == nil:
			d.spam.sent(o)
			return true
		case ctx.Err() != nil:
			return false
		case !repeats(err):
			d.opts.Log.Debug("the API server refuses an event", "reason", e.Reason, "object", e.InvolvedObject.Name, "err", err)
			return true
		}
		if !d.pause(ctx, pause) {
			return false
		}
	}
}

// pause waits after a failure: for the time, or until the API server answers again, but not less than backOffLeast. It
// reports whether ctx has not ended.
func (d *Driver) pause(ctx context.Context, most time.Duration) bool {
	if _, virtual := d.opts.Clock.(clock.Virtual); virtual {
		return clock.Wait(ctx, d.opts.Clock, most) == nil
	}
	returned, least := d.opts.Returned(), time.After(backOffLeast)
	select {
	case <-ctx.Done():
		return false
	case <-returned:
	case <-time.After(most):
	}
	select {
	case <-ctx.Done():
		return false
	case <-least:
		return true
	}
}

// request sends one event once. One that is there already is sent.
func (d *Driver) request(ctx context.Context, o outcome) error {
	if o.patch != nil {
		err := d.opts.Patch(ctx, o.event.Namespace, o.event.Name, o.patch)
		if !apierrors.IsNotFound(err) {
			return err
		}
		// The API server keeps events for an hour.
	}
	err := d.opts.Create(ctx, o.event)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// repeats reports whether a request may succeed later: it had no answer, or the API server had no time, or did not know
// the client.
func repeats(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == 0 || code >= 500 || code == 429 || code == 401
}
