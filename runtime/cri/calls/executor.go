package calls

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Performer does the work of one intent and returns its outcome, or nil if the context ended before
// the outcome was known: it is then in doubt, and the next run looks.
type Performer interface {
	Perform(ctx context.Context, intentID, requester string, req *journaletv1.CallRequested, inDoubt bool) *journaletv1.CallFinished
}

// Options are what an executor is made of.
type Options struct {
	Performer Performer
	// Outcome records an outcome, as a fact about the actor that asked.
	Outcome func(about messages.Ref, e *journaletv1.Event)
	// Finished hears of every call for a pod that has ended, so that the pod can be looked at.
	Finished func(req *journaletv1.CallRequested)
	// Go runs a call beside others; nil: on a goroutine of its own, which Close waits for.
	Go func(func())
	// Observe hears how long each call took; may be nil.
	Observe func(operation string, took time.Duration, failed bool)
}

// Executor performs calls. How many are under way at once is bounded by the runtime actor's lanes.
type Executor struct {
	opts    Options
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	intents map[string]*intent
	// underWay are the calls under way.
	underWay map[string]*intent
}

type intent struct {
	requester messages.Ref
	req       *journaletv1.CallRequested
	// ctx ends when the call is cut short, is over, or the executor is closed.
	ctx    context.Context
	cancel context.CancelFunc
	// began is when its call was made.
	began time.Time
}

func (x *Executor) newIntent(requester messages.Ref, req *journaletv1.CallRequested) *intent {
	in := &intent{requester: requester, req: req}
	in.ctx, in.cancel = context.WithCancel(x.ctx)
	return in
}

// canCancel tells whether a call may end without its work done: one that mostly waits, and that may be made again.
func (in *intent) canCancel() bool {
	return in.req.GetRunHook() != nil || in.req.GetStopContainer() != nil
}

// New makes an executor that knows no intent.
func New(o Options) *Executor {
	x := &Executor{opts: o, intents: map[string]*intent{}, underWay: map[string]*intent{}}
	x.ctx, x.stop = context.WithCancel(context.Background())
	if x.opts.Go == nil {
		x.opts.Go = x.running.Go
	}
	return x
}

// Seed takes in the calls that the runtime actor has in its books at a start. None is made before
// its dispatch is stored (again).
func (x *Executor) Seed(calls map[string]*journaletv1.Call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, c := range calls {
		if requester, err := messages.ParseRef(c.GetRequester()); err == nil {
			in := x.newIntent(requester, c.GetRequest())
			if c.GetWithdrawn() {
				in.cancel()
			}
			x.intents[id] = in
		}
	}
}

// Stored takes note of a stored record. Effects start here, and only here: what they do is on disk.
func (x *Executor) Stored(rec *journaletv1.Record) {
	author := messages.RefOf(rec.GetActor())
	for i, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_CallRequested:
			id := messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), author, i)
			x.mu.Lock()
			x.intents[id] = x.newIntent(author, k.CallRequested)
			x.mu.Unlock()
		case *journaletv1.Event_CallWithdrawn:
			x.cancel(k.CallWithdrawn.GetIntentId())
		case *journaletv1.Event_CallDropped:
			if in := x.take(k.CallDropped.GetIntentId()); in != nil {
				in.cancel()
			}
		case *journaletv1.Event_CallDispatched:
			if in := x.begin(k.CallDispatched.GetIntentId()); in != nil {
				x.opts.Go(func() { x.perform(in, k.CallDispatched) })
			}
		}
	}
}

func (x *Executor) take(id string) *intent {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.intents[id]
	delete(x.intents, id)
	return in
}

// begin takes an intent for its call to be made.
func (x *Executor) begin(id string) *intent {
	in := x.take(id)
	if in != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		in.began = time.Now()
		x.underWay[id] = in
	}
	return in
}

// Overdue is a call that has been under way for too long.
type Overdue struct {
	Request *journaletv1.CallRequested
	Since   time.Time
}

// Overdue are the calls that have been under way for longer than a time, the oldest first. Those that take as long as a
// container's program or a registry does are left out: stops, hooks and pulls.
func (x *Executor) Overdue(longer time.Duration) []Overdue {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []Overdue
	for _, in := range x.underWay {
		if !in.canCancel() && in.req.GetPullImage() == nil && time.Since(in.began) > longer {
			all = append(all, Overdue{in.req, in.began})
		}
	}
	slices.SortFunc(all, func(a, b Overdue) int { return a.Since.Compare(b.Since) })
	return all
}

// cancel ends a call that was withdrawn, if it is one that may be cut short; one that has not begun yet will not do so.
func (x *Executor) cancel(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, known := range []map[string]*intent{x.intents, x.underWay} {
		if in := known[id]; in != nil && in.canCancel() {
			in.cancel()
		}
	}
}

func (x *Executor) perform(in *intent, d *journaletv1.CallDispatched) {
	began := time.Now()
	out := x.outcome(in, d)
	if out == nil {
		return
	}
	failed := out.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	if x.opts.Observe != nil {
		x.opts.Observe(Operation(in.req), time.Since(began), failed)
	}
	x.opts.Outcome(in.requester, &journaletv1.Event{Kind: &journaletv1.Event_CallFinished{CallFinished: out}})
	if in.req.GetPodUid() != "" {
		x.opts.Finished(in.req)
	}
}

// outcome performs a call. It is nil when the executor ends before the outcome is known.
func (x *Executor) outcome(in *intent, d *journaletv1.CallDispatched) *journaletv1.CallFinished {
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.underWay, d.GetIntentId())
		in.cancel()
	}()
	var out *journaletv1.CallFinished
	if in.ctx.Err() == nil {
		out = x.opts.Performer.Perform(in.ctx, d.GetIntentId(), in.requester.String(), remaining(in.req, d), d.GetInDoubt())
	}
	if out == nil && x.ctx.Err() == nil {
		return &journaletv1.CallFinished{
			IntentId: d.GetIntentId(), Requester: in.requester.String(), Error: journaletv1.CallError_CALL_ERROR_WITHDRAWN,
			Message: "cut short: who asked took it back",
		}
	}
	return out
}

// remaining is the request of a call: a stop or a hook that was under way before a restart gets only the time that is
// left of its own.
func remaining(req *journaletv1.CallRequested, d *journaletv1.CallDispatched) *journaletv1.CallRequested {
	if d.GetElapsed() == nil {
		return req
	}
	left := func(of *durationpb.Duration) *durationpb.Duration {
		return durationpb.New(max(0, of.AsDuration()-d.GetElapsed().AsDuration()))
	}
	switch {
	case req.GetStopContainer() != nil:
		req = proto.CloneOf(req)
		req.GetStopContainer().Grace = left(req.GetStopContainer().GetGrace())
	case req.GetRunHook().GetTimeout() != nil:
		req = proto.CloneOf(req)
		req.GetRunHook().Timeout = left(req.GetRunHook().GetTimeout())
	}
	return req
}

// Operation is the name of a call's work, as metrics name it: the CRI method that it stands for.
func Operation(req *journaletv1.CallRequested) string {
	switch w := req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		return "run_podsandbox"
	case *journaletv1.CallRequested_StartContainer:
		if w.StartContainer.GetPart() == journaletv1.StartPart_START_PART_CREATE {
			return "create_container"
		}
		return "start_container"
	case *journaletv1.CallRequested_UpdateContainer:
		return "update_container"
	case *journaletv1.CallRequested_StopContainer:
		return "stop_container"
	case *journaletv1.CallRequested_RemoveContainer:
		return "remove_container"
	case *journaletv1.CallRequested_StopSandbox:
		return "stop_podsandbox"
	case *journaletv1.CallRequested_RemoveSandbox:
		return "remove_podsandbox"
	case *journaletv1.CallRequested_PullImage:
		return "pull_image"
	case *journaletv1.CallRequested_SetUpVolumes:
		return "set_up_volumes"
	case *journaletv1.CallRequested_CleanPod:
		return "clean_pod"
	case *journaletv1.CallRequested_RunHook:
		return "run_hook"
	}
	return "unknown"
}

// Close gives up every call under way, without an outcome, and waits for them to return.
func (x *Executor) Close() {
	x.stop()
	x.running.Wait()
}
