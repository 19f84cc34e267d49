package podstatus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/defect"
)

const (
	// Workers is how many requests are under way at most, each for another pod. urgentWorkers of them are for what is
	// urgent alone.
	Workers       = 10
	urgentWorkers = 2
	// gather is how long a change waits that is neither of phase nor of readiness: a quick start is one patch then.
	gather = 200 * time.Millisecond
	// backOffLeast and backOffMost bound the pause after a failure, which doubles.
	backOffLeast = 500 * time.Millisecond
	backOffMost  = 30 * time.Second
	// answerKept is how long the response to a patch is used before the watch has shown it. After a restore of its store
	// the API server's versions are lower than those it gave before.
	answerKept = time.Minute
	// maxMessage bounds the message of an outcome, in bytes.
	maxMessage = 512
)

// Desired is a pod as its actor shows it.
type Desired struct {
	// View has the manifest and the status.
	View *corev1.Pod
	// MayRun: a container of the pod runs, or may start again.
	MayRun bool
	// Unseen: containers of the pod may run that were not observed yet (pod.Actor).
	Unseen bool
	// Static: the API server has it as a mirror pod.
	Static bool
}

// ErrNoPod is returned for a pod that has no actor, or nothing to report yet.
var ErrNoPod = errors.New("no such pod")

// Options configure a Driver. All but Turn, Returned, Synced, Workers, Now, Monotonic, Jitter and Log must be set.
type Options struct {
	// Desired returns a pod by its UID, or ErrNoPod.
	Desired func(ctx context.Context, uid string) (Desired, error)
	// Object returns the newest object of a pod at the API server, nil if there is no such object. Mirror returns the
	// object of a static pod's mirror pod; static is the pod as its actor shows it.
	Object func(uid string) *corev1.Pod
	Mirror func(static *corev1.Pod) *corev1.Pod
	// Listed reports whether Object knows every pod that there was at some time of this run.
	Listed func() bool
	// Patch patches the status of a pod with a strategic merge and returns the pod. Delete deletes a pod with grace period
	// 0 and its UID as a precondition. Both return errors of apimachinery.
	Patch  func(ctx context.Context, namespace, name string, patch []byte) (*corev1.Pod, error)
	Delete func(ctx context.Context, namespace, name string, uid types.UID) error
	// Pods returns the UIDs of all pods of the node: their status has the Node's addresses. Nil: no pods.
	Pods func() []string
	// Inspected reports whether what the runtime had of a pod when the agent started was observed. Nil: always.
	Inspected func(uid string) bool
	// Turn waits for the turn of one request under the client's limit, an urgent one before others, and gives up with an
	// error when giveUp is closed. It returns the context to send it with, and whether it had to wait. Nil: no limit.
	Turn func(ctx context.Context, urgent bool, giveUp <-chan struct{}) (send context.Context, waited bool, err error)
	// Returned returns a channel that is closed when the API server answers again; nil: never.
	Returned func() <-chan struct{}
	// Synced is called with the time from a change of a pod to the response to its patch; it may be nil.
	Synced func(took time.Duration)
	// Deleted records the outcome of a deletion.
	Deleted func(*journaletv1.ApiDeleteFinished)
	// Workers defaults to the constant of this name.
	Workers int
	Now     func() time.Time
	// Monotonic is for intervals: it does not follow when the clock is set. Nil: Now, since Go's times have both.
	Monotonic func() time.Time
	// Jitter returns a number from 0 to n, without n; nil: at random.
	Jitter func(n int64) int64
	Log    *slog.Logger
}

// Driver writes the status of pods and deletes ended pods.
type Driver struct {
	opts  Options
	queue *queue

	mu sync.Mutex
	// deletes are intents without an outcome, by UID.
	deletes map[string]*journaletv1.ApiDeleteRequested
	// answers are the responses to the last patches that the watch has not shown yet, by the UID of the object.
	answers map[types.UID]answer
	// refused is the last refusal that was logged, by UID.
	refused map[string]string
	phases  map[string]journaletv1.PodPhase
	// hostIPs are the addresses of the Node that statuses have, as far as a record has them.
	hostIPs []string
}

type answer struct {
	pod *corev1.Pod
	at  time.Time
}

// New returns a driver that does nothing yet.
func New(o Options) *Driver {
	if o.Workers == 0 {
		o.Workers = Workers
	}
	if o.Inspected == nil {
		o.Inspected = func(string) bool { return true }
	}
	if o.Pods == nil {
		o.Pods = func() []string { return nil }
	}
	if o.Turn == nil {
		o.Turn = func(ctx context.Context, _ bool, _ <-chan struct{}) (context.Context, bool, error) {
			return ctx, false, ctx.Err()
		}
	}
	if o.Returned == nil {
		o.Returned = func() <-chan struct{} { return nil }
	}
	if o.Synced == nil {
		o.Synced = func(time.Duration) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Monotonic == nil {
		o.Monotonic = o.Now
	}
	if o.Jitter == nil {
		o.Jitter = rand.Int64N
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{
		opts: o, queue: newQueue(o.Workers, o.Monotonic), deletes: map[string]*journaletv1.ApiDeleteRequested{},
		answers: map[types.UID]answer{}, refused: map[string]string{}, phases: map[string]journaletv1.PodPhase{},
	}
}

// Seen reports that the watch has shown the object of a pod, or of its mirror pod, or that the object is gone. uid is
// the UID of the pod on the node.
func (d *Driver) Seen(uid string) { d.queue.add(uid, false, gather) }

// Run works until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	slots := make(chan struct{}, d.opts.Workers)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	workers.Go(func() { d.retryOnReturn(ctx) })
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		work, wait := d.Next()
		if work == nil {
			<-slots
			if err := d.await(ctx, wait); err != nil {
				return err
			}
			continue
		}
		workers.Go(func() {
			work(ctx)
			<-slots
		})
	}
}

// retryOnReturn ends all pauses after failures when the API server answers again, until ctx ends.
func (d *Driver) retryOnReturn(ctx context.Context) {
	for {
		select {
		case <-d.opts.Returned():
			d.queue.retry()
		case <-ctx.Done():
			return
		}
	}
}

// await waits for work, or for a time if it is not 0.
func (d *Driver) await(ctx context.Context, wait time.Duration) error {
	var due <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-d.queue.wake:
	case <-due:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Next returns the work that comes first, for one of the workers; without any, how long until some is due, 0 for none.
// Run calls it; a simulation calls it instead of Run.
func (d *Driver) Next() (do func(context.Context), wait time.Duration) {
	w, wait := d.queue.next()
	if w == nil {
		return nil, wait
	}
	return func(ctx context.Context) { d.queue.done(w, d.sync(ctx, w), d.backOff) }, 0
}

// backOff returns the pause after a failure, with up to a tenth more.
func (d *Driver) backOff(failures int) time.Duration {
	pause := min(backOffLeast<<min(failures, 10), backOffMost)
	return pause + time.Duration(d.opts.Jitter(int64(pause/10)))
}

// sync makes the API server's status of one pod equal to its own, or deletes it. It reports whether it is to be called
// again, after a pause. What a request says is computed after its turn has come, so that the newest is sent. Work that
// is not urgent gives way while it waits for its turn: the queue has the urgent work of the pod then. A panic is a
// failure: the status of other pods goes on (ADR 115).
func (d *Driver) sync(ctx context.Context, w *work) (again bool) {
	defer defect.Recover(func(stack string) {
		d.opts.Log.Error("cannot report the status of a pod, retrying", "pod", w.uid, "error", defect.Message, "stack", stack)
		again = true
	})
	var send context.Context
	for {
		request, again := d.request(ctx, w)
		if request == nil {
			return again
		}
		if send != nil {
			return request(send)
		}
		turn, waited, err := d.opts.Turn(ctx, w.urgent, w.hurry)
		if err != nil {
			return false
		}
		send = turn
		if !waited {
			return request(send)
		}
	}
}

// request returns the request that a pod needs, nil for none; again reports whether that is to be asked again after a
// pause.
func (d *Driver) request(ctx context.Context, w *work) (send func(context.Context) bool, again bool) {
	uid := w.uid
	d.mu.Lock()
	intent := d.deletes[uid]
	d.mu.Unlock()
	if intent != nil {
		return func(ctx context.Context) bool { return d.delete(ctx, intent) }, false
	}
	inspected := d.opts.Inspected(uid) // before the pod is read: what was stored by now is in what is read
	pod, err := d.opts.Desired(ctx, uid)
	if errors.Is(err, ErrNoPod) {
		d.forget(uid)
		return nil, false
	}
	if err != nil {
		return nil, ctx.Err() == nil
	}
	if pod.Unseen && !inspected {
		return nil, true // what runs of it would be reported as not ready
	}
	object := d.opts.Object(uid)
	if pod.Static {
		object = d.opts.Mirror(pod.View)
	}
	if object = d.newest(object); object == nil {
		return nil, false // the watch brings it
	}
	to := Merge(Input{
		View: pod.View, Is: &object.Status, MayRun: pod.MayRun, Now: metav1.NewTime(d.opts.Now()),
	})
	patch, err := Patch(object.UID, &object.Status, to)
	if err != nil || patch == nil {
		return nil, false
	}
	return func(ctx context.Context) bool { return d.patch(ctx, w, object, patch) }, false
}

// newest returns the object, or the response to a patch of it that is newer.
func (d *Driver) newest(object *corev1.Pod) *corev1.Pod {
	if object == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.answers[object.UID]
	if !ok {
		return object
	}
	order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, a.pod.ResourceVersion)
	if err != nil || order >= 0 || d.opts.Monotonic().Sub(a.at) > answerKept {
		delete(d.answers, object.UID)
		return object
	}
	return a.pod
}

func (d *Driver) patch(ctx context.Context, w *work, object *corev1.Pod, patch []byte) (again bool) {
	got, err := d.opts.Patch(ctx, object.Namespace, object.Name, patch)
	switch {
	case err == nil:
		d.answered(w.uid, object.UID, got)
		d.opts.Synced(d.opts.Monotonic().Sub(w.since))
		return false
	case apierrors.IsNotFound(err):
		return false // the watch shows its end
	case ctx.Err() != nil:
		return false
	}
	d.logRefusal(w.uid, object, err)
	return true
}

func (d *Driver) answered(uid string, object types.UID, got *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.refused, uid)
	if got.UID == object {
		// Of all pods at once, their specs would be most of the agent's memory.
		d.answers[object] = answer{&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: got.Namespace, Name: got.Name, UID: got.UID, ResourceVersion: got.ResourceVersion,
			},
			Status: got.Status,
		}, d.opts.Monotonic()}
	}
}

// logRefusal logs a failure once for each message.
func (d *Driver) logRefusal(uid string, object *corev1.Pod, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if text := err.Error(); d.refused[uid] != text {
		d.refused[uid] = text
		d.opts.Log.Warn("cannot report a pod's status; will retry",
			"pod", object.Namespace+"/"+object.Name, "uid", uid, "err", err)
	}
}

// forget drops what is known of a pod that is gone.
func (d *Driver) forget(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.refused, uid)
	delete(d.phases, uid)
	delete(d.answers, types.UID(uid))
}

// delete deletes a pod's object and records the outcome. It repeats requests that get no answer, or that the API server
// has no time for. "No such pod" counts only once the watch does not show the pod either.
func (d *Driver) delete(ctx context.Context, intent *journaletv1.ApiDeleteRequested) (again bool) {
	err := d.opts.Delete(ctx, intent.GetNamespace(), intent.GetName(), types.UID(intent.GetUid()))
	out := &journaletv1.ApiDeleteFinished{Uid: intent.GetUid()}
	var status apierrors.APIStatus
	switch {
	case err == nil:
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		if !d.opts.Listed() || d.opts.Object(intent.GetUid()) != nil {
			// An API server that has just started admits the requests of nodes by a cache that may be empty yet.
			return true
		}
		out.Absent = true
	case !errors.As(err, &status), repeats(err):
		if ctx.Err() == nil {
			d.logRefusal(intent.GetUid(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: intent.GetNamespace(), Name: intent.GetName(),
			}}, fmt.Errorf("delete: %w", err))
		}
		return true
	default:
		out.Message = err.Error()
		out.Message = out.Message[:min(len(out.Message), maxMessage)]
	}
	d.mu.Lock()
	_, waits := d.deletes[intent.GetUid()]
	delete(d.deletes, intent.GetUid())
	d.mu.Unlock()
	if waits {
		d.opts.Deleted(out)
	}
	return false
}

// repeats reports whether the API server may answer otherwise without a change: it has no time, or does not know the
// client at the moment.
func repeats(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnexpectedServerError(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
}
