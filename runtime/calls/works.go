package calls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/runtime/redact"
)

// Outcome is what a work has to say of its call: Works fills in what all calls have.
type Outcome = journaletv1.CallFinished

// ErrOfAnother means that the work of a call is another worker's.
var ErrOfAnother = errors.New("the work of the call is another worker's")

// Worker does the works of some kinds of calls.
type Worker interface {
	// Do does the work of a call, or returns ErrOfAnother. Any other error is a *Failure, or leaves the call in doubt if
	// ctx has ended, or is a failure that may pass. The outcome may be nil.
	Do(ctx context.Context, c *Call, req *journaletv1.CallRequested) (*Outcome, error)
}

// WorksOptions configure Works. Manifest must be set.
type WorksOptions struct {
	// Manifest returns the pod with this manifest digest.
	Manifest func(ctx context.Context, digest string) (*corev1.Pod, error)
	// Redact takes credentials of a pod out of a text that repeats them, also what a manifest or an object holds that
	// the call has not read. Nil: only what the call has read is taken out.
	Redact func(uid, text string) string
	// Clock defaults to clock.Real, Log to none.
	Clock clock.Clock
	Log   *slog.Logger
}

// Works performs calls by their workers. Its methods may be called concurrently.
type Works struct {
	opts    WorksOptions
	workers []Worker
}

// NewWorks returns the works of these workers.
func NewWorks(o WorksOptions, workers ...Worker) *Works {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	return &Works{opts: o, workers: workers}
}

// Call is one call under way.
type Call struct {
	// Intent is the id of its intent, UID its pod's.
	Intent, UID string
	// InDoubt: its work may be done already.
	InDoubt bool
	Log     *slog.Logger

	works *Works
	pod   *corev1.Pod // the last manifest that the call has read; nil before
	// contents are what the call has put into a container's variables of objects and files, and credentials of a pull.
	contents []string
}

// Call returns a call of a pod, as Perform begins it.
func (w *Works) Call(intent, uid string, inDoubt bool) *Call {
	return &Call{Intent: intent, UID: uid, InDoubt: inDoubt, Log: w.opts.Log.With("intent", intent, "pod", uid), works: w}
}

// Perform implements Performer. With inDoubt the work may be done already. It returns nil only if ctx ends before the
// outcome is known: the intent is then in doubt for the next run.
func (w *Works) Perform(
	ctx context.Context, intentID, requester string, req *journaletv1.CallRequested, inDoubt bool,
) *journaletv1.CallFinished {
	c := w.Call(intentID, req.GetPodUid(), inDoubt)
	began := w.opts.Clock.Now()
	out, err := w.do(ctx, c, req)
	if err != nil && ctx.Err() != nil && !IsFailure(err) {
		c.Log.Info("call left in doubt: the agent stops", "error", err)
		return nil
	}
	if out == nil {
		out = &Outcome{}
	}
	out.IntentId, out.Requester = intentID, requester
	if err != nil {
		f := FailureOf(err)
		out.Error, out.Retryable, out.MissingVolumeImage = f.Code, f.Retryable, f.MissingImage
		if f.Gone != nil {
			out.Volumes = f.Gone
		}
		out.FailedStart, out.NameHolderUid = f.FailedStart, f.NameHolder
		// The whole text first: a value that the bound has cut would not be found. The log has no bound of its own.
		out.Message = clean.Text(c.Redact(f.Message), MaxMessageBytes)
	}
	c.bound(out)
	took := w.opts.Clock.Now().Sub(began)
	if err != nil {
		c.Log.Warn("call failed", "code", out.GetError(), "error", out.GetMessage(), "took", took)
	} else {
		c.Log.Debug("call done", "took", took)
	}
	return out
}

// do does a work. A worker that panics has failed: calls of other pods go on, and this one may be repeated (ADR 115).
func (w *Works) do(ctx context.Context, c *Call, req *journaletv1.CallRequested) (out *Outcome, err error) {
	defer defect.Recover(func(stack string) {
		out, err = nil, Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, Operation(req)+": "+defect.Message)
		c.Log.Error("a call cannot be performed", "error", err, "stack", stack)
	})
	for _, x := range w.workers {
		if out, err := x.Do(ctx, c, req); !errors.Is(err, ErrOfAnother) {
			return out, err
		}
	}
	return nil, Fail(journaletv1.CallError_CALL_ERROR_INVALID_RESPONSE,
		"this version does not know the work of the intent; upgrade the agent")
}

// maxVolumeMessageBytes bounds the message of one volume, and maxVolumeMessages the messages of all volumes of a call:
// they are in one record of 1 MiB, and a pod may have a thousand volumes.
const (
	maxVolumeMessageBytes = 1 << 10
	maxVolumeMessages     = 256 << 10
)

// bound has the outcomes of volumes and claims as they may be recorded. The whole text of each is redacted: in a text
// that a bound has cut, a value would not be found.
func (c *Call) bound(out *Outcome) {
	most := min(maxVolumeMessageBytes, maxVolumeMessages/max(1, len(out.GetVolumes())))
	for _, o := range out.GetVolumes() {
		o.Message = plain.Cut(c.Redact(o.GetMessage()), most)
	}
	for _, o := range out.GetClaimOutcomes() {
		o.Message = c.Redact(o.GetMessage())
	}
}

// Redact takes credentials out of an error: what the manifest that the call has read holds, what it hides, and what
// WorksOptions.Redact knows of the pod.
func (c *Call) Redact(text string) string {
	if c.pod != nil || len(c.contents) > 0 {
		text = redact.Text(text, c.pod, c.contents...)
	}
	if c.UID != "" && c.works.opts.Redact != nil {
		return c.works.opts.Redact(c.UID, text)
	}
	return redact.URLs(text)
}

// Hide has Redact take these values out of texts, and none that were hidden before.
func (c *Call) Hide(values []string) { c.contents = values }

// ReadAs reads the pods of another pod's manifests as a call of that pod would, and redacts by them.
func (c *Call) ReadAs(uid string, read func(*Call) error) error {
	other := *c
	other.UID = uid
	err := read(&other)
	c.pod = other.pod
	return err
}

// Manifest reads the pod of an intent. It refuses a manifest of another pod, which would start the wrong containers.
func (c *Call) Manifest(ctx context.Context, digest string) (*corev1.Pod, error) {
	pod, err := c.works.opts.Manifest(ctx, digest)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, fmt.Sprintf("read the manifest %s: %v", digest, err))
	}
	if string(pod.UID) != c.UID {
		return nil, Fail(journaletv1.CallError_CALL_ERROR_CONFIG,
			fmt.Sprintf("the manifest %s is of pod %s, not of %s", digest, pod.UID, c.UID))
	}
	c.pod = pod
	return pod, nil
}

// PodIntent is an intent whose objects are configured by a pod's manifest.
type PodIntent interface {
	GetDigest() string
	GetAllocatedDigest() string
}

// AllocatedPod returns the pod of an intent, with the CPU and memory of the allocated manifest if there is one.
func (c *Call) AllocatedPod(ctx context.Context, req PodIntent) (*corev1.Pod, error) {
	pod, err := c.Manifest(ctx, req.GetDigest())
	if err != nil || req.GetAllocatedDigest() == "" {
		return pod, err
	}
	from, err := c.Manifest(ctx, req.GetAllocatedDigest())
	if err != nil {
		return nil, err
	}
	return resources.Allocated(pod, from), nil
}
