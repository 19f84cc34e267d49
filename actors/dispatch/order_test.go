package dispatch

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// requestHooks has pods request hooks, one of each container, and returns how many of each pod's are under way.
func requestHooks(t *testing.T, a *Actor, pod string, hooks int) {
	t.Helper()
	for i := range hooks {
		req := messages.NewCall(&journaletv1.RunHook{Container: fmt.Sprintf("c%d", i)})
		req.PodUid = pod
		ok(t, a.Evolve(actors.Event{ID: fmt.Sprintf("%s.%d", pod, i), Body: messages.NewEvent(req)}))
	}
	ok(t, actors.Decide(a, actors.Input{}, func(d *journaletv1.Event) error { return a.Evolve(actors.Event{Body: d}) }))
}

func TestEndlessHooksOfOnePodHoldUpNoOther(t *testing.T) {
	a := New()
	ready := &journaletv1.RuntimeHealthChanged{RuntimeReady: true, NetworkReady: true}
	ok(t, a.Evolve(actors.Event{Body: messages.NewEvent(ready)}))
	requestHooks(t, a, "endless", 2*maxHookCalls)
	for i := range 20 {
		requestHooks(t, a, fmt.Sprintf("other-%d", i), 2*ownHookCalls)
	}
	hooks := a.Runtime().GetHooks()
	if hooks["endless"] != maxHookCalls {
		t.Errorf("%d hooks of the pod with endless hooks are under way, want %d", hooks["endless"], maxHookCalls)
	}
	for i := range 20 {
		if n := hooks[fmt.Sprintf("other-%d", i)]; n != ownHookCalls {
			t.Errorf("%d hooks of another pod are under way, want its own %d", n, ownHookCalls)
		}
	}
	for _, c := range a.underWay() {
		done := &journaletv1.CallFinished{IntentId: c.GetIntentId()}
		ok(t, a.Evolve(actors.Event{Body: messages.NewEvent(done)}))
	}
	requestHooks(t, a, "other-0", 0)
	if n := len(a.Runtime().GetHooks()); n != 21 {
		t.Errorf("%d pods run hooks after the first ones ended, want all 21: their other hooks were queued", n)
	}
}

// Crashing containers can request more starts than the runtime can serve. A pod that is added then still starts.
func TestSandboxIsNotStarvedByRestarts(t *testing.T) {
	a := New()
	ready := &journaletv1.RuntimeHealthChanged{RuntimeReady: true, NetworkReady: true}
	ok(t, a.Evolve(actors.Event{Body: messages.NewEvent(ready)}))
	limit := &journaletv1.AgentStarted{Config: &journaletv1.AgentConfig{StartConcurrency: 2, StopConcurrency: 2}}
	ok(t, a.Evolve(actors.Event{Body: messages.NewEvent(limit)}))
	calls := 0
	request := func(pod string, work proto.Message) {
		calls++
		req := messages.NewCall(work)
		req.PodUid = pod
		ok(t, a.Evolve(actors.Event{ID: fmt.Sprint(calls), Body: messages.NewEvent(req)}))
	}
	// finish ends the oldest call under way, lets the others follow, and returns what was dispatched.
	finish := func() (all string) {
		if under := a.underWay(); len(under) > 0 {
			ended := messages.NewEvent(&journaletv1.CallFinished{IntentId: under[0].GetIntentId()})
			ok(t, a.Evolve(actors.Event{Body: ended}))
		}
		ok(t, actors.Decide(a, actors.Input{}, func(d *journaletv1.Event) error {
			req := a.Runtime().GetCalls()[d.GetCallDispatched().GetIntentId()].GetRequest()
			all += " " + req.GetPodUid()
			return a.Evolve(actors.Event{Body: d})
		}))
		return all
	}
	restart := func(pod string) { request(pod, &journaletv1.StartContainer{Container: "main", Attempt: 7}) }
	for _, pod := range []string{"a", "b", "c"} {
		restart(pod)
	}
	request("new", &journaletv1.RunSandbox{})
	restart("d")
	restart("e")
	request("begun", &journaletv1.StartContainer{Container: "main"})
	request("newer", &journaletv1.RunSandbox{})
	for i, want := range []string{" a b", " c", " new", " d", " e", " begun", " newer"} {
		if got := finish(); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
