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
)

const (
	// Workers is how many requests are under way at most, each for another pod.
	Workers = 10
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
	// Static: the API server has it as a mirror pod.
	Static bool
}

// ErrNoPod is returned for a pod without an actor, or of which nothing is to be reported yet.
var ErrNoPod = errors.New("no such pod")

// Options configure a Driver. All but Workers, Now and Log must be set.
type Options struct {
	// Desired returns a pod by its UID, or ErrNoPod.
	Desired func(ctx context.Context, uid string) (Desired, error)
	// Object returns the newest object of a pod at the API server, nil if there is none. Mirror returns that of the mirror
	// pod of a static pod.
	Object, Mirror func(uid string) *corev1.Pod
	// Patch patches the status of a pod with a strategic merge and returns the pod. Delete deletes a pod with grace period
	// 0 and its UID as a precondition. Errors are those of apimachinery.
	Patch  func(ctx context.Context, namespace, name string, patch []byte) (*corev1.Pod, error)
	Delete func(ctx context.Context, namespace, name string, uid types.UID) error
	// Deleted records the outcome of a deletion.
	Deleted func(*journaletv1.ApiDeleteFinished)
	// Workers defaults to the constant of this name.
	Workers int
	Now     func() time.Time
	Log     *slog.Logger
}

// Driver writes the status of pods and deletes those that have ended.
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
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{
		opts: o, queue: newQueue(o.Now), deletes: map[string]*journaletv1.ApiDeleteRequested{},
		answers: map[types.UID]answer{}, refused: map[string]string{}, phases: map[string]journaletv1.PodPhase{},
	}
}

// Seen reports that the watch has shown the object of a pod, or of its mirror pod, or that it is gone. uid is that of
// the pod on the node.
func (d *Driver) Seen(uid string) { d.queue.add(uid, false, gather) }

// Run works until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	slots := make(chan struct{}, d.opts.Workers)
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		uid, wait := d.queue.next()
		if uid == "" {
			<-slots
			if err := d.await(ctx, wait); err != nil {
				return err
			}
			continue
		}
		workers.Go(func() {
			d.queue.done(uid, d.Sync(ctx, uid), backOff)
			<-slots
		})
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

// backOff returns the pause after a failure, with up to a tenth more.
func backOff(failures int) time.Duration {
	pause := min(backOffLeast<<min(failures, 10), backOffMost)
	return pause + time.Duration(rand.Int64N(int64(pause/10)))
}

// Sync makes the API server's status of one pod equal to its own, or deletes it. It reports whether it is to be called
// again, after a pause.
func (d *Driver) Sync(ctx context.Context, uid string) (again bool) {
	d.mu.Lock()
	intent := d.deletes[uid]
	d.mu.Unlock()
	if intent != nil {
		return d.delete(ctx, intent)
	}
	pod, err := d.opts.Desired(ctx, uid)
	if errors.Is(err, ErrNoPod) {
		d.forget(uid)
		return false
	}
	if err != nil {
		return ctx.Err() == nil
	}
	is := d.opts.Object
	if pod.Static {
		is = d.opts.Mirror
	}
	object := d.newest(is(uid))
	if object == nil {
		return false // the watch brings it
	}
	return d.patch(ctx, uid, pod, object)
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
	if err != nil || order >= 0 || d.opts.Now().Sub(a.at) > answerKept {
		delete(d.answers, object.UID)
		return object
	}
	return a.pod
}

func (d *Driver) patch(ctx context.Context, uid string, pod Desired, object *corev1.Pod) (again bool) {
	to := Merge(Input{
		View: pod.View, Is: &object.Status, MayRun: pod.MayRun, Now: metav1.NewTime(d.opts.Now()),
	})
	patch, err := Patch(object.UID, &object.Status, to)
	if err != nil || patch == nil {
		return false
	}
	got, err := d.opts.Patch(ctx, object.Namespace, object.Name, patch)
	switch {
	case err == nil:
		d.answered(uid, object.UID, got)
		return false
	case apierrors.IsNotFound(err):
		return false // the watch shows its end
	case ctx.Err() != nil:
		return false
	}
	d.logRefusal(uid, object, err)
	return true
}

func (d *Driver) answered(uid string, object types.UID, got *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.refused, uid)
	if got.UID == object {
		d.answers[object] = answer{got, d.opts.Now()}
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

// delete deletes a pod's object and records the outcome. Requests without an answer, and those that the API server has
// no time for, are repeated.
func (d *Driver) delete(ctx context.Context, intent *journaletv1.ApiDeleteRequested) (again bool) {
	err := d.opts.Delete(ctx, intent.GetNamespace(), intent.GetName(), types.UID(intent.GetUid()))
	out := &journaletv1.ApiDeleteFinished{Uid: intent.GetUid()}
	var status apierrors.APIStatus
	switch {
	case err == nil:
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
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
	delete(d.deletes, intent.GetUid())
	d.mu.Unlock()
	d.opts.Deleted(out)
	return false
}

// repeats reports whether the API server may answer otherwise without a change: it has no time, or does not know the
// client at the moment.
func repeats(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnexpectedServerError(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
}
