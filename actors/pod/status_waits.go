package pod

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Wait is one thing that a pod waits for before it is admitted, or, when it ends or has ended, before it is gone.
type Wait struct {
	// Call is the call under way, IntentID its id; nil where no call is waited for.
	Call     *journaletv1.CallRequested
	IntentID string
	// For names what else is waited for.
	For   string
	Since time.Time
}

// Waits tells what a pod that is not admitted yet, that ends, or that no source has named waits for, the oldest first; nothing for
// another. A pod that ends and waits for nothing is about to hear of what it waited for: a look at the runtime that is under way.
func (a *Actor) Waits() []Wait {
	s := a.state
	if s.GetStage() == unknown && s.GetOrphanFoundAt() != nil {
		return []Wait{{
			For: "the first whole reading of every configured source: what none names is cleared away then", Since: s.GetOrphanFoundAt().AsTime(),
		}}
	}
	if t := s.GetTimers().GetSet()[orphanTimer]; s.GetStage() == unknown && t != nil {
		return []Wait{{
			For:   "a source to name it: what none has named " + t.GetDuration().AsDuration().String() + " later is cleared away once every configured source has been read",
			Since: t.GetSetAt().AsTime(),
		}}
	}
	if s.GetStage() == admitting && s.GetAdmissionRequested() {
		// The node has answered, or does so in a moment: it lets a pod in, turns it away, or tells of one of these two.
		what := "the end of pods of lower priority, which make room for it"
		if s.GetHolderUid() != "" {
			what = "the end of pod " + s.GetHolderUid() + ", which has its name"
		}
		return []Wait{{For: what, Since: s.GetCreatedAt().AsTime()}}
	}
	if s.GetStage() < terminating || s.GetStage() == finished {
		return nil
	}
	var all []Wait
	for _, id := range slices.Sorted(maps.Keys(s.Calls)) {
		c := s.Calls[id]
		all = append(all, Wait{Call: c.GetRequest(), IntentID: id, Since: c.GetRequestedAt().AsTime()})
	}
	d := &step{actor: a}
	for _, name := range slices.Sorted(maps.Keys(s.Containers)) {
		cur := s.Containers[name].GetCurrent()
		if s.GetStage() != terminating || !alive(cur) || d.stopping(cur.GetId()) != "" || d.hook(cur.GetId(), preStopHook) != "" {
			continue
		}
		what := "the stop of container " + name
		switch {
		case d.wasStopped(cur):
			what = "a look that shows how container " + name + " ended"
		case d.waitsForOthers(name):
			what = "the turn of sidecar " + name + ", after all that started after it"
		}
		all = append(all, Wait{For: what, Since: s.GetTerminatingAt().AsTime()})
	}
	if t := s.GetTimers().GetSet()[tearDownTimer]; t != nil {
		all = append(all, Wait{For: "the next try after a stop or a removal that failed", Since: t.GetSetAt().AsTime()})
	}
	slices.SortStableFunc(all, func(x, y Wait) int { return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.For, y.For)) })
	return all
}
