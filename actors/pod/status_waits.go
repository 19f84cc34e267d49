package pod

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Wait is one thing that a pod waits for before it is admitted, or before it is gone.
type Wait struct {
	// Call is the call under way, IntentID its id; nil where no call is waited for.
	Call     *journaletv1.CallRequested
	IntentID string
	// For names what else is waited for.
	For   string
	Since time.Time
}

// Waits returns what the pod waits for, the oldest first, if it is not admitted yet, is an orphan, terminates or is
// cleaned up. It returns nothing for any other pod. A terminating pod without a wait is about to receive what it waited
// for: an inspection is under way.
func (a *Actor) Waits() []Wait {
	s := a.state
	if s.GetStage() == unknown && s.GetOrphanFoundAt() != nil {
		return []Wait{{
			For: "every configured source to be synced, and to have no problem with a manifest of its name: then a pod " +
				"that none of them names is removed",
			Since: s.GetOrphanFoundAt().AsTime(),
		}}
	}
	if t := s.GetTimers().GetSet()[orphanTimer]; s.GetStage() == unknown && t != nil {
		return []Wait{{
			For: "a source to name it within " + t.GetDuration().AsDuration().String() +
				": else it is removed once every configured source is synced",
			Since: t.GetSetAt().AsTime(),
		}}
	}
	if s.GetStage() == admitting && s.GetAdmissionRequested() {
		// The node has decided, or does so in a moment: it admits or rejects the pod, or reports one of these two waits.
		what := "the end of its victims, pods of lower priority"
		switch {
		case s.GetReason() != "":
			what = s.GetMessage()
		case s.GetHolderUid() != "":
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
		if s.GetStage() != terminating || !alive(cur) || d.stopping(cur.GetId()) != "" ||
			d.hook(cur.GetId(), preStopHook) != "" {
			continue
		}
		what := "the stop of container " + name
		switch {
		case d.wasStopped(cur):
			what = "an inspection that shows how container " + name + " ended"
		case d.sidecarWaits(name):
			what = "the containers that started after sidecar " + name + ", which ends after them"
		}
		all = append(all, Wait{For: what, Since: s.GetTerminatingAt().AsTime()})
	}
	busy := a.busyVolumes()
	if t := s.GetTimers().GetSet()[tearDownTimer]; t != nil && len(busy) == 0 {
		all = append(all, Wait{For: "the retry of a stop or a removal that failed", Since: t.GetSetAt().AsTime()})
	}
	all = append(all, busy...)
	if c := s.GetClaims(); s.GetStage() == terminating && c.GetMessage() != "" {
		all = append(all, Wait{
			For: "claims, which cannot be unprepared: " + c.GetMessage(), Since: c.GetFailedAt().AsTime(),
		})
	}
	slices.SortStableFunc(all, func(x, y Wait) int { return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.For, y.For)) })
	return all
}
