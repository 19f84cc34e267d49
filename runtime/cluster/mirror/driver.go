package mirror

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The pause after a failure, which doubles: a namespace that is missing, or a quota, may stay so for long.
const (
	backOffLeast = 500 * time.Millisecond
	backOffMost  = 2 * time.Minute
	// freeTries are how often the mirror pod of one name is created at once; between further ones is a pause that doubles
	// up to triesMost, until calmFor has passed without one. Another agent of this node's name would replace it in turn,
	// as fast as both can.
	freeTries = 4
	triesMost = time.Minute
	calmFor   = 2 * time.Minute
)

var (
	// ErrNoPod is returned for a pod that is to have no mirror pod.
	ErrNoPod = errors.New("no static pod that is to be shown")
	// ErrUndecided is returned for a pod whose admission is not decided, or that still terminates: what is there stays.
	ErrUndecided = errors.New("the static pod is not admitted yet, or terminates")
)

// Options configure a Driver. All but Queue, Now and Log must be set.
type Options struct {
	NodeName string
	// Static returns a static pod by its UID, ErrNoPod or ErrUndecided.
	Static func(ctx context.Context, uid string) (Static, error)
	// Orphan reports whether a mirror pod of this name that has no static pod is an orphan: all sources are synced, and
	// no problem of a manifest keeps its static pod out.
	Orphan func(ctx context.Context, name types.NamespacedName) bool
	// Object returns a mirror pod of this node by its UID, as the watch has shown it, nil if the watch shows no such
	// pod.
	Object func(uid types.UID) *corev1.Pod
	// Create creates a pod, Delete deletes a pod with grace period 0 and its UID as a precondition. Both return errors
	// of apimachinery.
	Create func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
	Delete func(ctx context.Context, namespace, name string, uid types.UID) error
	// Changed is called when the mirror pod of a static pod is another, or has changed.
	Changed func(uid string)
	// Queue has the names of pods with work to do; nil: one on the machine's clock.
	Queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	Now   func() time.Time
	Log   *slog.Logger
}

// Driver keeps the mirror pods of one node.
type Driver struct {
	opts  Options
	queue workqueue.TypedRateLimitingInterface[name]

	mu   sync.Mutex
	node types.UID
	// statics are the UIDs of static pods that have a name, mirrors the pods of the API server. Of several pods of one
	// name, from two sources, the node admits one.
	statics map[name][]string
	mirrors map[name]*corev1.Pod
	refused map[name]string
	created map[name]tries
}

// tries are the creations of the mirror pod of one name since the last calm.
type tries struct {
	times int
	last  time.Time
}

// pause returns how long the next one waits after the last.
func (t tries) pause() time.Duration {
	if t.times < freeTries {
		return 0
	}
	return min(backOffLeast<<min(t.times-freeTries, 10), triesMost)
}

// name is the namespace and name of a pod.
type name = types.NamespacedName

func nameOf(p *corev1.Pod) name { return name{Namespace: p.Namespace, Name: p.Name} }

// New returns a driver that does nothing yet.
func New(o Options) *Driver {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Queue == nil {
		o.Queue = workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[name](backOffLeast, backOffMost))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Driver{
		opts: o, statics: map[name][]string{}, mirrors: map[name]*corev1.Pod{}, refused: map[name]string{},
		created: map[name]tries{}, queue: o.Queue,
	}
}

// Seed adds a static pod of the fold.
func (d *Driver) Seed(pod *journaletv1.PodRef) { d.add(pod) }

// SeedPending adds a static pod by a record that its actor has not handled: the fold does not have the pod.
func (d *Driver) SeedPending(uid string, rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		if p := e.GetPodUpdated().GetPod(); p.GetUid() == uid && p.GetApi() == nil {
			d.add(p)
		}
	}
}

// SeedNode sets the UID of the Node as last observed, empty for none.
func (d *Driver) SeedNode(uid string) { d.setNode(uid) }

// Stored handles a stored record.
func (d *Driver) Stored(rec *journaletv1.Record) {
	if k := rec.GetFact().GetNodeObserved(); k != nil {
		d.setNode(k.GetUid())
		return
	}
	for _, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_PodUpdated:
			if k.PodUpdated.GetPod().GetApi() == nil {
				d.add(k.PodUpdated.GetPod())
			}
		case *journaletv1.Event_AdmissionDecided:
			d.mark(k.AdmissionDecided.GetUid())
		case *journaletv1.Event_PodStatusChanged, *journaletv1.Event_PodTerminated, *journaletv1.Event_PodFinished:
			d.mark(messages.RefOf(rec.GetActor()).ID)
		case *journaletv1.Event_PodForgotten:
			d.drop(k.PodForgotten.GetUid())
		case *journaletv1.Event_SourceSynced, *journaletv1.Event_PodsKeptOut:
			d.markAll()
		case *journaletv1.Event_OrphanConfirmed:
			d.markOrphan(k.OrphanConfirmed.GetUid())
		}
	}
}

// markOrphan marks the name of a mirror pod whose static pod is an orphan.
func (d *Driver) markOrphan(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n, mirror := range d.mirrors {
		if Of(mirror) == uid {
			d.queue.Add(n)
		}
	}
}

// add names a static pod. It has one name: the next manifest under its UID may have another.
func (d *Driver) add(pod *journaletv1.PodRef) {
	n := name{Namespace: pod.GetNamespace(), Name: pod.GetName()}
	d.drop(pod.GetUid())
	d.mu.Lock()
	d.statics[n] = append(d.statics[n], pod.GetUid())
	d.mu.Unlock()
	d.queue.Add(n)
}

// mark marks the name of a static pod.
func (d *Driver) mark(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n, uids := range d.statics {
		if slices.Contains(uids, uid) {
			d.queue.Add(n)
		}
	}
}

// drop drops a static pod that has finished.
func (d *Driver) drop(uid string) {
	d.mark(uid)
	d.mu.Lock()
	defer d.mu.Unlock()
	for n, uids := range d.statics {
		if !slices.Contains(uids, uid) {
			continue
		}
		delete(d.refused, n)
		if d.statics[n] = slices.DeleteFunc(uids, func(x string) bool { return x == uid }); len(d.statics[n]) == 0 {
			delete(d.statics, n)
			delete(d.created, n)
		}
	}
}

func (d *Driver) markAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range d.statics {
		d.queue.Add(n)
	}
	for n := range d.mirrors {
		d.queue.Add(n)
	}
}

func (d *Driver) setNode(uid string) {
	d.mu.Lock()
	d.node = types.UID(uid)
	d.mu.Unlock()
	d.markAll()
}

// Seen reports that the watch has shown a mirror pod of this node, or its end.
func (d *Driver) Seen(uid types.UID) { d.queue.Add(name{Name: string(uid)}) }

// Listed reports that the watch has a complete list. A mirror pod that it lacks is gone, even if the watch has never
// shown it. It does not block.
func (d *Driver) Listed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, had := range d.mirrors {
		d.Seen(had.UID)
	}
}

// observe takes over a mirror pod from the watch. Keys without a namespace are UIDs of mirror pods.
func (d *Driver) observe(uid types.UID) {
	pod := d.opts.Object(uid)
	d.mu.Lock()
	var n name
	if pod != nil {
		n = nameOf(pod)
		d.mirrors[n] = pod
	} else {
		for at, had := range d.mirrors {
			if had.UID == uid {
				n = at
				delete(d.mirrors, at)
			}
		}
	}
	d.mu.Unlock()
	if pod != nil {
		d.opts.Changed(Of(pod))
	}
	if n.Name != "" {
		d.queue.Add(n)
	}
}

// gone drops a mirror pod that was deleted.
func (d *Driver) gone(pod *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if had := d.mirrors[nameOf(pod)]; had != nil && had.UID == pod.UID {
		delete(d.mirrors, nameOf(pod))
	}
}

// Mirror returns the mirror pod of a static pod as the watch has shown it, nil if this incarnation has no mirror pod.
func (d *Driver) Mirror(static *corev1.Pod) *corev1.Pod {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.mirrors[nameOf(static)]; m != nil && showsIncarnation(m, static) {
		return m
	}
	return nil
}

// Run works until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, d.queue.ShutDown)
	defer stop()
	for {
		n, down := d.queue.Get()
		if down {
			return ctx.Err()
		}
		if d.Sync(ctx, n) {
			d.queue.AddRateLimited(n)
		} else {
			d.queue.Forget(n)
		}
		d.queue.Done(n)
	}
}

// Sync creates, replaces or deletes the mirror pod of one name. It reports whether it is to be called again, after a
// pause.
func (d *Driver) Sync(ctx context.Context, n name) (again bool) {
	if n.Namespace == "" {
		d.observe(types.UID(n.Name))
		return false
	}
	d.mu.Lock()
	node, uids, is := d.node, slices.Clone(d.statics[n]), d.mirrors[n]
	d.mu.Unlock()
	desired, undecided, err := d.desired(ctx, uids)
	if err != nil {
		return ctx.Err() == nil
	}
	if len(undecided) > 0 && (is == nil || slices.Contains(undecided, Of(is))) {
		return false
	}
	// The mirror pod of a pod that is gone goes, however long the next one of its name waits for its admission.
	if is != nil && desired == nil && !d.opts.Orphan(ctx, n) {
		// The node may see what its sources have read only after the record is stored: nothing else would mark the name
		// again.
		return ctx.Err() == nil
	}
	if desired != nil && (is == nil || !desired.shows(is)) {
		if wait := d.wait(n); wait > 0 {
			d.queue.AddAfter(n, wait)
			return false
		}
	}
	if is != nil && (desired == nil || !desired.shows(is)) {
		err := d.opts.Delete(ctx, n.Namespace, n.Name, is.UID)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return d.failed(ctx, n, "cannot delete a mirror pod; will retry", err)
		}
		d.gone(is)
		is = nil
	}
	if desired == nil || is != nil || node == "" {
		return false
	}
	got, err := d.opts.Create(ctx, desired.build(d.opts.NodeName, node))
	if err != nil {
		return d.failed(ctx, n, "cannot show a static pod at the API server; it runs all the same", err)
	}
	d.mu.Lock()
	d.mirrors[n] = got
	delete(d.refused, n)
	t, now := d.created[n], d.opts.Now()
	if now.Sub(t.last) >= calmFor {
		t.times = 0
	}
	d.created[n] = tries{t.times + 1, now}
	d.mu.Unlock()
	d.opts.Changed(string(desired.Pod.UID))
	return false
}

// wait returns how long the mirror pod of a name is not to be created yet.
func (d *Driver) wait(n name) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.created[n]
	return t.last.Add(t.pause()).Sub(d.opts.Now())
}

// desired returns the pod that is to have a mirror pod; nil: none of these pods. Then undecided are the UIDs of the
// pods that may still get a mirror pod.
func (d *Driver) desired(ctx context.Context, uids []string) (one *Static, undecided []string, err error) {
	for _, uid := range slices.Backward(uids) {
		switch s, err := d.opts.Static(ctx, uid); {
		case err == nil:
			return &s, nil, nil
		case errors.Is(err, ErrUndecided):
			undecided = append(undecided, uid)
		case !errors.Is(err, ErrNoPod):
			return nil, nil, err
		}
	}
	return nil, undecided, nil
}

// failed logs a failure once for each message.
func (d *Driver) failed(ctx context.Context, n name, what string, err error) (again bool) {
	if ctx.Err() != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if text := err.Error(); d.refused[n] != text {
		d.refused[n] = text
		d.opts.Log.Warn(what, "pod", n.String(), "err", err)
	}
	return true
}
