package dispatch

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The runtime's configuration is the pod CIDR. The node decides which one it is, and requests the first call. A runtime
// may have it in memory only, so it gets it again with each start of the agent, which may have missed a restart of the
// runtime, and whenever the runtime was away and returns. A call that failed is repeated (ADR 096).

// configTimer is set after a failed call until it is repeated.
const configTimer = "runtime configuration"

// A failed call is repeated after this time, doubling to the longest one. kubelet: with each status of the Node, 10 s.
const (
	firstConfigPause = time.Second
	maxConfigPause   = 5 * time.Minute
)

// evolveConfig folds what the runtime's configuration is, and whether the runtime is to get it. It is called before the
// event changes what is known of the runtime's health.
func (a *Actor) evolveConfig(e actors.Event, fired string) {
	s := a.state
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_CallRequested:
		if work := k.CallRequested.GetUpdateRuntimeConfig(); work != nil {
			next := &journaletv1.RuntimeConfigState{Desired: work, IntentId: e.ID}
			if e.Author == messages.Runtime {
				next.BackOff = s.GetConfig().GetBackOff()
			}
			s.Config = next
		}
	case *journaletv1.Event_CallFinished:
		c := s.Config
		if c == nil || c.GetIntentId() != k.CallFinished.GetIntentId() {
			return // not of this kind, or of a configuration that another one has replaced
		}
		c.IntentId = ""
		if k.CallFinished.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
			c.BackOff = nil
			return
		}
		c.BackOff = durationpb.New(min(max(firstConfigPause, 2*c.GetBackOff().AsDuration()), maxConfigPause))
	case *journaletv1.Event_AgentStarted:
		a.configDue()
	case *journaletv1.Event_RuntimeHealthChanged:
		if returned(s.GetHealth(), k.RuntimeHealthChanged) {
			a.configDue()
		}
	case *journaletv1.Event_TimerFired:
		if c := s.Config; c != nil && fired == configTimer {
			c.Due = c.GetIntentId() == "" && c.GetBackOff() != nil
		}
	}
}

// returned reports whether a runtime is ready after it was not, or is another one.
func returned(was, now *journaletv1.RuntimeHealthChanged) bool {
	return was != nil && now.GetRuntimeReady() && (!was.GetRuntimeReady() ||
		was.GetRuntimeName() != now.GetRuntimeName() || was.GetRuntimeVersion() != now.GetRuntimeVersion())
}

// configDue folds that the runtime is to get its configuration again, at once. A call that is queued or under way does
// that: a call under way lasts until the runtime has answered.
func (a *Actor) configDue() {
	if c := a.state.Config; c != nil {
		c.Due, c.BackOff = c.GetIntentId() == "", nil
	}
}

// decideConfig requests the call that is due, or sets the timer for it.
func (a *Actor) decideConfig(emit actors.Emit) {
	c := a.state.GetConfig()
	switch {
	case c.GetIntentId() != "":
	case c.GetDue() && a.state.GetHealth().GetRuntimeReady():
		if cleared := actors.ClearTimer(a.state.GetTimers(), configTimer); cleared != nil {
			emit(cleared)
		}
		emit(messages.NewEvent(messages.NewCall(proto.CloneOf(c.GetDesired()))))
	case c.GetBackOff() != nil && !c.GetDue():
		if set := actors.SetTimer(a.state.GetTimers(), configTimer, c.GetBackOff().AsDuration()); set != nil {
			emit(set)
		}
	}
}

// isConfig reports whether a call hands over the runtime's configuration.
func isConfig(req *journaletv1.CallRequested) bool { return req.GetUpdateRuntimeConfig() != nil }

// configUnderWay reports whether a call hands over the runtime's configuration now: a newer one may not overtake it.
func (a *Actor) configUnderWay() bool {
	for _, c := range a.underWay() {
		if isConfig(c.GetRequest()) {
			return true
		}
	}
	return false
}
