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

// Performer does the work of one intent and returns its outcome. It returns nil if ctx ended before the outcome was
// known: the call is then in doubt, and the next run inspects the runtime.
type Performer interface {
	Perform(
		ctx context.Context, intentID, requester string, req *journaletv1.CallRequested, inDoubt bool,
	) *journaletv1.CallFinished
}

// Options configure an Executor. Performer, Outcome and Finished must be set.
type Options struct {
	Performer Performer
	// Outcome records the outcome of a call, as a fact about its requester.
	Outcome func(req *journaletv1.CallRequested, about messages.Ref, e *journaletv1.Event)
	// Finished is called for every finished call of a pod, so that the pod is inspected.
	Finished func(req *journaletv1.CallRequested)
	// Go runs a call concurrently. Default: a goroutine, which Close waits for.
	Go func(func())
	// Observe receives each call with its outcome and its duration; may be nil.
	Observe func(req *journaletv1.CallRequested, out *journaletv1.CallFinished, took time.Duration)
}

// Executor performs calls. The runtime actor's lanes bound how many are under way at once.
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
	// ctx ends when the call is canceled, has ended, or the executor is closed.
	ctx    context.Context
	cancel context.CancelFunc
	// began is when its call began.
	began time.Time
}

func (x *Executor) newIntent(requester messages.Ref, req *journaletv1.CallRequested) *intent {
	in := &intent{requester: requester, req: req}
	in.ctx, in.cancel = context.WithCancel(x.ctx)
	return in
}

// canCancel reports whether a call may end without its work done: stops, hooks, plugins, what sets up volumes of CSI
// drivers and NFS servers, and what reads or prepares claims mostly wait, and may be repeated.
func (in *intent) canCancel() bool {
	return in.req.GetRunHook() != nil || in.req.GetStopContainer() != nil || messages.IsAboutDevices(in.req) ||
		in.req.GetSetUpVolumes().GetCsi() || in.req.GetReadClaims() != nil || in.req.GetPrepareClaims() != nil
}

// New returns an executor without intents.
func New(o Options) *Executor {
	x := &Executor{opts: o, intents: map[string]*intent{}, underWay: map[string]*intent{}}
	x.ctx, x.stop = context.WithCancel(context.Background())
	if x.opts.Go == nil {
		x.opts.Go = x.running.Go
	}
	return x
}

// Seed adds the calls of the runtime actor's state at a start. None begins before its dispatch is stored again.
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

// Stored handles a stored record. Effects start only here, after their intent is on disk. A call that has an outcome
// does not begin again: after two crashes the runtime actor may dispatch it in doubt before it handles that outcome.
func (x *Executor) Stored(rec *journaletv1.Record) {
	if f := rec.GetFact().GetCallFinished(); f != nil {
		x.drop(f.GetIntentId())
	}
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
			x.drop(k.CallDropped.GetIntentId())
		case *journaletv1.Event_CallDispatched:
			if in := x.begin(k.CallDispatched.GetIntentId()); in != nil {
				x.opts.Go(func() { x.perform(in, k.CallDispatched) })
			}
		}
	}
}

// drop forgets a call that has not begun.
func (x *Executor) drop(id string) {
	if in := x.take(id); in != nil {
		in.cancel()
	}
}

func (x *Executor) take(id string) *intent {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.intents[id]
	delete(x.intents, id)
	return in
}

// begin moves an intent to those under way.
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

// due returns how long a call may take by its own request; false if nothing bounds it.
func (in *intent) due() (time.Duration, bool) {
	switch {
	case in.req.GetPullImage() != nil, in.req.GetSetUpVolumes().GetCsi(), in.req.GetCleanPod().GetCsi(),
		messages.IsAboutClaims(in.req):
		return 0, false
	case in.req.GetRunHook() != nil:
		timeout := in.req.GetRunHook().GetTimeout()
		return timeout.AsDuration(), timeout != nil
	case in.req.GetStopContainer() != nil:
		return in.req.GetStopContainer().GetGrace().AsDuration(), true
	}
	return 0, true
}

// Overdue is a call that has been under way for longer than a threshold.
type Overdue struct {
	Request *journaletv1.CallRequested
	Since   time.Time
}

// Overdue returns the calls that have been under way for longer than threshold, the oldest first. A stop and a hook get
// their grace period or timeout on top. It omits pulls, whose duration depends on a registry, calls of CSI drivers and
// for claims, and hooks without a timeout, which may take as long as their container.
func (x *Executor) Overdue(threshold time.Duration) []Overdue {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []Overdue
	for _, in := range x.underWay {
		if due, bounded := in.due(); bounded && time.Since(in.began) > due+threshold {
			all = append(all, Overdue{in.req, in.began})
		}
	}
	slices.SortFunc(all, func(a, b Overdue) int { return a.Since.Compare(b.Since) })
	return all
}

// cancel cancels a withdrawn call, if that is allowed. A call that has not begun will end at once.
func (x *Executor) cancel(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, intents := range []map[string]*intent{x.intents, x.underWay} {
		if in := intents[id]; in != nil && in.canCancel() {
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
	if x.opts.Observe != nil {
		x.opts.Observe(in.req, out, time.Since(began))
	}
	x.opts.Outcome(in.req, in.requester, messages.NewEvent(out))
	if in.req.GetPodUid() != "" {
		x.opts.Finished(in.req)
	}
}

// outcome performs a call and returns its outcome; nil if the executor closes before the outcome is known.
func (x *Executor) outcome(in *intent, d *journaletv1.CallDispatched) *journaletv1.CallFinished {
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.underWay, d.GetIntentId())
		in.cancel()
	}()
	var out *journaletv1.CallFinished
	if in.ctx.Err() == nil {
		requester := in.requester.String()
		out = x.opts.Performer.Perform(in.ctx, d.GetIntentId(), requester, remaining(in.req, d), d.GetInDoubt())
	}
	if out == nil && x.ctx.Err() == nil {
		return &journaletv1.CallFinished{
			IntentId: d.GetIntentId(), Requester: in.requester.String(), Error: journaletv1.CallError_CALL_ERROR_WITHDRAWN,
			Message: "canceled: the requester withdrew it",
		}
	}
	return out
}

// remaining returns the request of a call. A stop or a hook that was under way before a restart of the agent gets the
// rest of its grace period or timeout.
func remaining(req *journaletv1.CallRequested, d *journaletv1.CallDispatched) *journaletv1.CallRequested {
	if d.GetElapsed() == nil {
		return req
	}
	left := func(total *durationpb.Duration) *durationpb.Duration {
		return durationpb.New(max(0, total.AsDuration()-d.GetElapsed().AsDuration()))
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

// Operation returns the name of a call's work in metrics, after its CRI method.
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
	case *journaletv1.CallRequested_UpdateSandbox:
		return "update_podsandbox"
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
	case *journaletv1.CallRequested_RemoveImage:
		return "remove_image"
	case *journaletv1.CallRequested_UpdateRuntimeConfig:
		return "update_runtime_config"
	case *journaletv1.CallRequested_SetUpVolumes:
		return "set_up_volumes"
	case *journaletv1.CallRequested_CleanPod:
		return "clean_pod"
	case *journaletv1.CallRequested_RunHook:
		return "run_hook"
	case *journaletv1.CallRequested_AllocateDevices:
		return "allocate_devices"
	case *journaletv1.CallRequested_PreStartContainer:
		return "pre_start_container"
	case *journaletv1.CallRequested_ReadClaims:
		return "read_claims"
	case *journaletv1.CallRequested_PrepareClaims:
		return "prepare_claims"
	case *journaletv1.CallRequested_UnprepareClaims:
		return "unprepare_claims"
	}
	return "unknown"
}

// Close cancels every call under way, without an outcome, and waits for them to return.
func (x *Executor) Close() {
	x.stop()
	x.running.Wait()
}
