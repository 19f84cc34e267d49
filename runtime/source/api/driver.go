package api

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/source/feed"
)

// retryMin and retryMax bound the doubling wait after a failure to store a manifest or to emit a fact.
const (
	retryMin = 100 * time.Millisecond
	retryMax = 10 * time.Second
)

// maxSendBytes bounds the manifests that are in memory at once to be stored, beside the last of them.
const maxSendBytes = 4 << 20

// Options configure a Driver; ListWatch, Store and Sink must be set.
type Options struct {
	// ListWatch lists and watches the pods whose spec.nodeName is this node.
	ListWatch cache.ListerWatcher
	// NodeName is the name of this node: pods of others are left out. Empty: none is.
	NodeName string
	// Store, Prime and Sink are as in package feed. Prime may be nil.
	Store func(ctx context.Context, manifests iter.Seq2[string, []byte]) error
	Prime func(digest string, pod *corev1.Pod)
	// Newest returns the light manifest that a pod was last primed with, which is shared then; nil if it is not in
	// memory. May be nil.
	Newest func(uid string) *corev1.Pod
	Sink   func(context.Context, *journaletv1.ManifestsRead) error
	// Allocated returns a pod with the CPU and memory that a kubelet had allocated to it, nil where they are what its spec
	// requests. Such a pod is added as the kubelet had admitted it, and its spec follows as an update. May be nil.
	Allocated func(pod *corev1.Pod) *corev1.Pod
	// Changed is called after each change of Pods, a change of status too, on the goroutine of the watch: it must not
	// block, nor call Pods. May be nil. uid is empty after a complete list.
	Changed func(uid types.UID, mirror bool)
	// Whole is called after each list, on the same goroutine, with why it may lack pods and the remedy; nil: it lacks
	// none. May be nil.
	Whole func(error)
	// Refused is called with each update of a pod of this node that is not carried out, and why: it is beyond a bound, or
	// cannot be read. The pod stays as it was. May be nil.
	Refused func(pod *journaletv1.PodRef, why string)
	// Returned returns a channel that is closed when the API server answers again, which ends the wait after a failure.
	// May be nil.
	Returned func() <-chan struct{}
	Clock    clock.Clock
	Log      *slog.Logger
}

// Driver reads the pods of this node from the API server. Seed is called before Run.
type Driver struct {
	opts   Options
	log    *slog.Logger
	clock  clock.Clock
	pods   *Pods
	sender feed.Sender // only Run uses it
	wake   chan struct{}

	mu      sync.Mutex
	dirty   map[types.UID]bool // changed since the last fact
	sendErr error              // why a manifest could not be stored or a fact not emitted
	sent    bool               // see Complete
	// recorded are the digests of the pods that the journal has, before the digests that it had at the start of this
	// run.
	recorded, before map[types.UID]string
	// adding are the recorded pods that the source has not added yet, of a driver with Allocated.
	adding map[types.UID]bool
}

// New returns a driver. It sends nothing before Run. It panics if a required field of Options is missing: that is a
// programming error.
func New(opts Options) *Driver {
	if opts.ListWatch == nil || opts.Store == nil || opts.Sink == nil {
		panic("api: Options needs ListWatch, Store and Sink")
	}
	if opts.Prime == nil {
		opts.Prime = func(string, *corev1.Pod) {}
	}
	if opts.Newest == nil {
		opts.Newest = func(string) *corev1.Pod { return nil }
	}
	if opts.Refused == nil {
		opts.Refused = func(*journaletv1.PodRef, string) {}
	}
	if opts.Whole == nil {
		opts.Whole = func(error) {}
	}
	if opts.Clock == nil {
		opts.Clock = clock.Real{}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	d := &Driver{
		opts: opts, log: opts.Log.With("source", messages.APISource), clock: opts.Clock, wake: make(chan struct{}, 1),
		dirty: map[types.UID]bool{}, recorded: map[types.UID]string{}, adding: map[types.UID]bool{},
	}
	d.pods = newPods(opts.NodeName, d.log, d.changed, opts.Whole)
	d.sender = feed.Sender{
		Source: messages.APISource, Store: opts.Store, Prime: opts.Prime, Sink: opts.Sink, Log: d.log,
	}
	return d
}

// Pods returns the newest objects.
func (d *Driver) Pods() *Pods { return d.pods }

// Store returns what a Reflector writes the pods of this node to. Run has its own Reflector; a simulation models one.
func (d *Driver) Store() cache.ReflectorStore { return store{d.pods} }

// Seed adds the source's state in the journal, so that only differences are emitted.
func (d *Driver) Seed(state *journaletv1.SourceState) {
	d.sender.Seed(state)
	d.record()
	d.before = maps.Clone(d.recorded)
}

// SeedPending adds a fact of the journal that the source's state does not have yet.
func (d *Driver) SeedPending(fact *journaletv1.ManifestsRead) {
	d.sender.Apply(fact)
	d.record()
	d.before = maps.Clone(d.recorded)
}

// record notes the digests that the journal has, for Reduce.
func (d *Driver) record() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.recorded)
	for uid, f := range d.sender.Files {
		for _, p := range f.GetPods() {
			d.recorded[types.UID(uid)] = p.GetDigest()
		}
	}
}

func (d *Driver) changed(uid types.UID, mirror, onlyStatus bool) {
	if !mirror && !onlyStatus {
		d.markDirty(uid)
	}
	if d.opts.Changed != nil {
		d.opts.Changed(uid, mirror)
	}
}

// markDirty has the entry of a pod emitted with the next fact, if it is another one by then.
func (d *Driver) markDirty(uid types.UID) {
	d.mu.Lock()
	d.dirty[uid] = true
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run watches and emits facts until ctx ends, and returns its error. It may be called once. The Reflector streams the
// list where the server can, and else lists and watches; it waits 0.8 s, doubling to 5 s, after a failure.
func (d *Driver) Run(ctx context.Context) error {
	log := logr.FromSlogHandler(d.log.Handler())
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		client.Follow(logr.NewContext(ctx, log), d.opts.ListWatch, &corev1.Pod{}, store{d.pods}, client.Following{
			Reflector: cache.ReflectorOptions{Logger: &log, Name: "pods"}, Probe: true, Returned: d.opts.Returned,
		})
	})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.wake:
		}
		wait := retryMin
		for err := d.HandOver(ctx); err != nil; err = d.HandOver(ctx) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			d.log.Warn("cannot store or emit pods, retrying", "in", wait, "error", err)
			if err := clock.Wait(ctx, d.clock, wait); err != nil {
				return err
			}
			wait = min(2*wait, retryMax)
		}
	}
}

// HandOver emits what has changed since the last fact. What changes meanwhile is emitted with the next one, so a burst
// becomes few facts. Before a list it does nothing; on the ground of an incomplete one it removes nothing. Run calls
// it; a simulation calls it instead of Run.
func (d *Driver) HandOver(ctx context.Context) error {
	if !d.pods.Listed() {
		return nil
	}
	complete := d.pods.Incomplete() == nil
	d.mu.Lock()
	changed := d.dirty
	d.dirty = map[types.UID]bool{}
	first := complete && !d.sent
	d.mu.Unlock()
	if first {
		for uid := range d.sender.Files {
			changed[types.UID(uid)] = true // gone, unless the list has it
		}
	}
	delete(changed, "")
	err := d.send(ctx, slices.Sorted(maps.Keys(changed)), complete)
	d.record()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sendErr, d.sent = err, d.sent || complete && err == nil
	if err != nil {
		maps.Copy(d.dirty, changed)
	}
	return err
}

// send emits the entries of pods, as many at once as need maxSendBytes of memory.
func (d *Driver) send(ctx context.Context, uids []types.UID, complete bool) error {
	var files []feed.File
	var failed error
	size := 0
	for _, uid := range uids {
		f := d.entryOf(uid)
		for _, p := range f.Pods {
			size += len(p.Canonical)
		}
		if files = append(files, f); size > maxSendBytes {
			failed = errors.Join(failed, d.sender.Send(ctx, files, false))
			files, size = nil, 0
		}
	}
	return errors.Join(failed, d.sender.Send(ctx, files, complete && failed == nil))
}

// Complete reports whether a complete list of this run has been emitted.
func (d *Driver) Complete() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent
}

// errNoList is why the driver has no pods yet. It is no reason to restart the agent.
var errNoList = errors.New("the API server has not listed the pods of this node yet")

// Ready returns an error as long as no list of this run has been emitted, and while the last one was incomplete.
func (d *Driver) Ready() error {
	if err := d.Whole(); err != nil {
		return err
	}
	if !d.Complete() {
		return errNoList
	}
	return nil
}

// Whole returns an error while the last list was incomplete.
func (d *Driver) Whole() error { return d.pods.Incomplete() }

// Healthy returns an error if a manifest cannot be stored or a fact cannot be emitted. An API server that does not
// answer is healthy, because a restart of the agent does not fix it.
func (d *Driver) Healthy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sendErr
}
