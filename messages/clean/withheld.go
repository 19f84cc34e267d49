package clean

import (
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Mark stands for what Withheld leaves out.
const Mark = "(withheld)"

// said are the fields with what containers and plugins say, by message and field. What hooks print is in messages that
// others are in, too: see hooks.
var said = []string{"ContainerObservation.message", "NamedValue.value", "ProbeResult.message"}

// hookError is the reason of a container that waits since its postStart hook failed.
const hookError = "PostStartHookError"

// Withheld returns a record without what containers and plugins say: termination messages and ends of logs, output of
// probes and hooks, and values of variables and annotations that device plugins set. It is rec itself if it has none of
// them, otherwise a copy, with Mark in their place.
func Withheld(rec *journaletv1.Record) *journaletv1.Record {
	if see := (pass{withhold: true}); see.said(rec) {
		return rec
	}
	rec = proto.CloneOf(rec)
	change := pass{withhold: true, write: true}
	change.said(rec)
	return rec
}

// said walks over the events of a record. It returns false if one of them has something that is said.
func (w *pass) said(rec *journaletv1.Record) bool {
	fine := true
	for _, e := range messages.Events(rec) {
		event, hooks := w.event(e), w.hooks(e)
		fine = event && hooks && fine
	}
	return fine
}

func (w *pass) event(e *journaletv1.Event) bool {
	kind := messages.EventField(e)
	if kind == nil {
		return true
	}
	p := plans()[kind.Message().FullName()]
	return p == nil || w.message(p, e.ProtoReflect().Get(kind).Message())
}

// hooks is for the output of hooks.
func (w *pass) hooks(e *journaletv1.Event) bool {
	fine := true
	leaveOut := func(message *string) {
		if *message == "" || *message == Mark {
			return
		}
		if fine = false; w.write {
			*message = Mark
		}
	}
	if k := e.GetCallFinished(); k.GetError() == journaletv1.CallError_CALL_ERROR_HOOK {
		leaveOut(&k.Message)
	}
	for _, c := range e.GetPodStatusChanged().GetWaiting() {
		if c.GetReason() == hookError {
			leaveOut(&c.Message)
		}
	}
	return fine
}
