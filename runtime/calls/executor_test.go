package calls

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// performed is a call of a fake performer.
type performed struct {
	id, requester string
	req           *journaletv1.CallRequested
	inDoubt       bool
}

// fake performs nothing: it reports its calls and waits for their outcomes from the test.
type fake struct {
	began chan performed
	end   chan *journaletv1.CallFinished
}

func (f *fake) Perform(
	ctx context.Context, id, requester string, req *journaletv1.CallRequested, inDoubt bool,
) *journaletv1.CallFinished {
	f.began <- performed{id, requester, req, inDoubt}
	select {
	case out := <-f.end:
		return out
	case <-ctx.Done():
		return nil
	}
}

type outcome struct {
	about messages.Ref
	event *journaletv1.Event
}

func newExecutor(t *testing.T) (*Executor, *fake, chan outcome, chan string) {
	t.Helper()
	f := &fake{began: make(chan performed, 8), end: make(chan *journaletv1.CallFinished, 8)}
	outcomes, finished := make(chan outcome, 8), make(chan string, 8)
	x := New(Options{
		Performer: f,
		Outcome: func(_ *journaletv1.CallRequested, about messages.Ref, e *journaletv1.Event) {
			outcomes <- outcome{about, e}
		},
		Finished: func(req *journaletv1.CallRequested) { finished <- req.GetPodUid() },
	})
	t.Cleanup(x.Close)
	return x, f, outcomes, finished
}

func step(seq, cause uint64, author messages.Ref, decisions ...*journaletv1.Event) *journaletv1.Record {
	return &journaletv1.Record{
		Seq: seq, Epoch: 1, Actor: author.Proto(),
		Body: &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: cause, Decisions: decisions}},
	}
}

func callRequested(req *journaletv1.CallRequested) *journaletv1.Event {
	return messages.NewEvent(req)
}

func stopRequested(uid string) *journaletv1.Event {
	return callRequested(&journaletv1.CallRequested{
		PodUid: uid, Work: &journaletv1.CallRequested_StopContainer{StopContainer: &journaletv1.StopContainer{
			Container: "main", ContainerId: "c", Grace: durationpb.New(30 * time.Second),
		}},
	})
}

func dispatched(id string, elapsed time.Duration) *journaletv1.Event {
	d := &journaletv1.CallDispatched{IntentId: id}
	if elapsed > 0 {
		d.InDoubt, d.Elapsed = true, durationpb.New(elapsed)
	}
	return messages.NewEvent(d)
}

func dropped(id string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.CallDropped{IntentId: id})
}

func TestCallBeginsAtDispatchAndHasOneOutcome(t *testing.T) {
	x, f, outcomes, finished := newExecutor(t)
	x.Stored(step(2, 1, messages.Pod("a"), stopRequested("a")))
	if len(f.began) != 0 {
		t.Fatal("a call began before its dispatch was stored")
	}
	x.Stored(step(3, 2, messages.Runtime, dispatched("1.1.pod/a.0", 0)))
	p := <-f.began
	if p.id != "1.1.pod/a.0" || p.requester != "pod/a" || p.inDoubt ||
		p.req.GetStopContainer().GetGrace().AsDuration() != 30*time.Second {
		t.Fatalf("performed %+v", p)
	}
	f.end <- &journaletv1.CallFinished{IntentId: p.id, Requester: p.requester}
	if o := <-outcomes; o.about != messages.Pod("a") || o.event.GetCallFinished().GetIntentId() != p.id {
		t.Fatalf("outcome %+v", o)
	}
	if uid := <-finished; uid != "a" {
		t.Fatalf("finished %q", uid)
	}
	// A repeated dispatch, as after a repair, performs no second call.
	x.Stored(step(4, 2, messages.Runtime, dispatched("1.1.pod/a.0", 0)))
	x.Close()
	if len(f.began) != 0 {
		t.Fatal("a call was performed twice")
	}
}

func TestCallOfLastRunGetsRemainingGracePeriod(t *testing.T) {
	x, f, _, _ := newExecutor(t)
	x.Seed(map[string]*journaletv1.Call{"1.1.pod/a.0": {
		IntentId: "1.1.pod/a.0", Requester: "pod/a", Request: stopRequested("a").GetCallRequested(),
	}})
	x.Stored(step(9, 8, messages.Runtime, dispatched("1.1.pod/a.0", 20*time.Second)))
	p := <-f.began
	if !p.inDoubt || p.req.GetStopContainer().GetGrace().AsDuration() != 10*time.Second {
		t.Fatalf("performed %+v", p)
	}
}

func TestCallOfLastRunThatHasAnOutcomeIsNotPerformed(t *testing.T) {
	x, f, _, _ := newExecutor(t)
	// The outcome is stored, and the runtime actor has not handled it: it dispatches the call in doubt.
	x.Seed(map[string]*journaletv1.Call{"1.1.pod/a.0": {
		IntentId: "1.1.pod/a.0", Requester: "pod/a", Request: stopRequested("a").GetCallRequested(),
	}})
	x.Stored(&journaletv1.Record{
		Seq: 8, Epoch: 1, Actor: messages.Pod("a").Proto(), Body: &journaletv1.Record_Fact{
			Fact: messages.NewEvent(&journaletv1.CallFinished{IntentId: "1.1.pod/a.0", Requester: "pod/a"}),
		},
	})
	x.Stored(step(9, 7, messages.Runtime, dispatched("1.1.pod/a.0", 20*time.Second)))
	x.Close()
	if len(f.began) != 0 {
		t.Fatal("a call was performed twice")
	}
}

func TestDroppedCallIsNotPerformed(t *testing.T) {
	x, f, _, _ := newExecutor(t)
	x.Stored(step(2, 1, messages.Pod("a"), stopRequested("a")))
	x.Stored(step(3, 2, messages.Runtime, dropped("1.1.pod/a.0"), dispatched("1.1.pod/a.0", 0)))
	x.Close()
	if len(f.began) != 0 {
		t.Fatal("a dropped call was performed")
	}
}

func TestCallUnderWayAtStopHasNoOutcome(t *testing.T) {
	x, f, outcomes, _ := newExecutor(t)
	x.Stored(step(2, 1, messages.Pod("a"), stopRequested("a")))
	x.Stored(step(3, 2, messages.Runtime, dispatched("1.1.pod/a.0", 0)))
	<-f.began
	var wait sync.WaitGroup
	wait.Go(x.Close)
	wait.Wait()
	if len(outcomes) != 0 {
		t.Fatal("a canceled call has an outcome")
	}
}

func withdrawn(id string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.CallWithdrawn{IntentId: id})
}

func hookRequested(uid string, timeout time.Duration) *journaletv1.Event {
	return callRequested(&journaletv1.CallRequested{
		PodUid: uid, Work: &journaletv1.CallRequested_RunHook{RunHook: &journaletv1.RunHook{
			Container: "main", ContainerId: "c",
			Kind: journaletv1.HookKind_HOOK_KIND_PRE_STOP, Timeout: durationpb.New(timeout),
		}},
	})
}

func TestWithdrawnHookOrStopIsCanceled(t *testing.T) {
	for name, req := range map[string]*journaletv1.Event{
		"stop": stopRequested("a"), "hook": hookRequested("a", time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			x, f, outcomes, _ := newExecutor(t)
			x.Stored(step(2, 1, messages.Pod("a"), req))
			x.Stored(step(3, 2, messages.Runtime, dispatched("1.1.pod/a.0", 0)))
			<-f.began
			x.Stored(step(4, 3, messages.Pod("a"), withdrawn("1.1.pod/a.0")))
			if o := <-outcomes; o.event.GetCallFinished().GetError() != journaletv1.CallError_CALL_ERROR_WITHDRAWN {
				t.Errorf("outcome %v", o.event)
			}
		})
	}
}

func TestHookWithdrawnBeforeDispatchIsNotRun(t *testing.T) {
	x, f, outcomes, _ := newExecutor(t)
	x.Stored(step(2, 1, messages.Pod("a"), hookRequested("a", time.Minute), withdrawn("1.1.pod/a.0")))
	x.Stored(step(3, 2, messages.Runtime, dispatched("1.1.pod/a.0", 0)))
	// A withdrawn call of the last run, from the state of the runtime actor.
	x.Seed(map[string]*journaletv1.Call{"1.1.pod/b.0": {
		IntentId: "1.1.pod/b.0", Requester: "pod/b", Request: hookRequested("b", time.Minute).GetCallRequested(),
		Withdrawn: true,
	}})
	x.Stored(step(9, 8, messages.Runtime, dispatched("1.1.pod/b.0", time.Second)))
	for range 2 {
		if o := <-outcomes; o.event.GetCallFinished().GetError() != journaletv1.CallError_CALL_ERROR_WITHDRAWN {
			t.Errorf("outcome %v", o.event)
		}
	}
	if len(f.began) != 0 {
		t.Error("a withdrawn hook was run")
	}
}

func TestWithdrawnStartContinues(t *testing.T) {
	x, f, outcomes, _ := newExecutor(t)
	start := callRequested(&journaletv1.CallRequested{
		PodUid: "a", Work: &journaletv1.CallRequested_StartContainer{
			StartContainer: &journaletv1.StartContainer{Container: "main"},
		},
	})
	x.Stored(step(2, 1, messages.Pod("a"), start))
	x.Stored(step(3, 2, messages.Runtime, dispatched("1.1.pod/a.0", 0)))
	p := <-f.began
	x.Stored(step(4, 3, messages.Pod("a"), withdrawn("1.1.pod/a.0")))
	f.end <- &journaletv1.CallFinished{IntentId: p.id, Requester: p.requester, ContainerId: "c"}
	if o := <-outcomes; o.event.GetCallFinished().GetContainerId() != "c" {
		t.Errorf("outcome %v", o.event)
	}
}

func TestHookOfLastRunGetsRemainingTimeout(t *testing.T) {
	x, f, _, _ := newExecutor(t)
	x.Seed(map[string]*journaletv1.Call{"1.1.pod/a.0": {
		IntentId: "1.1.pod/a.0", Requester: "pod/a", Request: hookRequested("a", time.Minute).GetCallRequested(),
	}})
	x.Stored(step(9, 8, messages.Runtime, dispatched("1.1.pod/a.0", 20*time.Second)))
	if p := <-f.began; !p.inDoubt || p.req.GetRunHook().GetTimeout().AsDuration() != 40*time.Second {
		t.Fatalf("performed %+v", p)
	}
}

// A stop and a hook with a timeout are overdue after it; a pull, and a hook without one, never.
func TestSlowCallIsOverdueUntilItsOutcome(t *testing.T) {
	x, f, outcomes, _ := newExecutor(t)
	p := messages.Pod("u1")
	x.Stored(step(2, 1, p,
		callRequested(&journaletv1.CallRequested{PodUid: "u1", Work: &journaletv1.CallRequested_SetUpVolumes{
			SetUpVolumes: &journaletv1.SetUpVolumes{}}}),
		callRequested(&journaletv1.CallRequested{PodUid: "u1", Work: &journaletv1.CallRequested_PullImage{
			PullImage: &journaletv1.PullImage{}}}),
		stopRequested("u1"),
		callRequested(&journaletv1.CallRequested{PodUid: "u1", Work: &journaletv1.CallRequested_StopContainer{
			StopContainer: &journaletv1.StopContainer{Grace: durationpb.New(time.Nanosecond)}}}),
		callRequested(&journaletv1.CallRequested{PodUid: "u1", Work: &journaletv1.CallRequested_RunHook{
			RunHook: &journaletv1.RunHook{}}}),
		callRequested(&journaletv1.CallRequested{PodUid: "u1", Work: &journaletv1.CallRequested_RunHook{
			RunHook: &journaletv1.RunHook{Timeout: durationpb.New(time.Nanosecond)}}}),
	))
	const calls = 6
	if all := x.Overdue(0); len(all) > 0 {
		t.Errorf("before its dispatch: %v", all)
	}
	for i := range calls {
		x.Stored(step(uint64(3+i), 2, messages.Runtime,
			messages.NewEvent(&journaletv1.CallDispatched{IntentId: messages.DecisionID(1, 1, p, i)})))
		<-f.began
	}
	var overdue []string
	for _, c := range x.Overdue(0) {
		if overdue = append(overdue, Operation(c.Request)); c.Since.IsZero() {
			t.Errorf("%v is under way since never", c.Request)
		}
	}
	if want := []string{"set_up_volumes", "stop_container", "run_hook"}; !slices.Equal(overdue, want) {
		t.Errorf("overdue: %v, want %v", overdue, want)
	}
	if all := x.Overdue(time.Hour); len(all) > 0 {
		t.Errorf("with a threshold of an hour: %v", all)
	}
	for range calls {
		f.end <- &journaletv1.CallFinished{}
		<-outcomes
	}
	if all := x.Overdue(0); len(all) > 0 {
		t.Errorf("after its outcome: %v", all)
	}
}
