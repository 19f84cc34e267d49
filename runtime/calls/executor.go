package calls

import (
	"context"
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
	Perform(ctx context.Context, intentID, asker string, req *journaletv1.CallRequested, inDoubt bool) *journaletv1.CallFinished
}

// Options are what an executor is made of.
type Options struct {
	Performer Performer
	// Outcome records an outcome, as a fact about the actor that asked.
	Outcome func(about messages.Ref, e *journaletv1.Event)
	// Finished hears of every call that has ended, so that its pod can be looked at.
	Finished func(podUID string)
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
}

type intent struct {
	asker messages.Ref
	req   *journaletv1.CallRequested
}

// New makes an executor that knows no intent.
func New(o Options) *Executor {
	x := &Executor{opts: o, intents: map[string]*intent{}}
	x.ctx, x.stop = context.WithCancel(context.Background())
	return x
}

// Seed takes in the calls that the runtime actor has in its books at a start. None is made before
// its dispatch is stored (again).
func (x *Executor) Seed(calls map[string]*journaletv1.Call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, c := range calls {
		if asker, err := messages.ParseRef(c.GetAsker()); err == nil {
			x.intents[id] = &intent{asker, c.GetRequest()}
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
			x.intents[id] = &intent{author, k.CallRequested}
			x.mu.Unlock()
		case *journaletv1.Event_CallDropped:
			x.take(k.CallDropped.GetIntentId())
		case *journaletv1.Event_CallDispatched:
			if in := x.take(k.CallDispatched.GetIntentId()); in != nil {
				x.running.Go(func() { x.perform(in, k.CallDispatched) })
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

func (x *Executor) perform(in *intent, d *journaletv1.CallDispatched) {
	began := time.Now()
	out := x.opts.Performer.Perform(x.ctx, d.GetIntentId(), in.asker.String(), remaining(in.req, d), d.GetInDoubt())
	if out == nil {
		return
	}
	failed := out.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	if x.opts.Observe != nil {
		x.opts.Observe(Operation(in.req), time.Since(began), failed)
	}
	x.opts.Outcome(in.asker, &journaletv1.Event{Kind: &journaletv1.Event_CallFinished{CallFinished: out}})
	if uid := in.req.GetPodUid(); uid != "" {
		x.opts.Finished(uid)
	}
}

// remaining is the request of a call: a stop that was under way before a restart gets only the grace
// that is left.
func remaining(req *journaletv1.CallRequested, d *journaletv1.CallDispatched) *journaletv1.CallRequested {
	stop := req.GetStopContainer()
	if stop == nil || d.GetElapsed() == nil {
		return req
	}
	left := proto.CloneOf(req)
	left.GetStopContainer().Grace = durationpb.New(max(0, stop.GetGrace().AsDuration()-d.GetElapsed().AsDuration()))
	return left
}

// Operation is the name of a call's work, as metrics name it: the CRI method that it stands for.
func Operation(req *journaletv1.CallRequested) string {
	switch req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		return "run_podsandbox"
	case *journaletv1.CallRequested_StartContainer:
		return "start_container"
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
	}
	return "unknown"
}

// Close gives up every call under way, without an outcome, and waits for them to return.
func (x *Executor) Close() {
	x.stop()
	x.running.Wait()
}
