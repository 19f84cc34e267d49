package why

import (
	"fmt"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
	"github.com/journalet/journalet/runtime/history/describe"
)

// volumes explains why volumes of the pod are not set up, or hold older contents than desired.
func (s *subject) volumes(a *Answer) {
	setUp := func(c *journaletv1.CallRequested) bool { return c.GetSetUpVolumes() != nil }
	for _, v := range s.actor.VolumeWaits() {
		switch {
		case v.Missing != "":
			s.add(a, s.objectsRead(), "")
			a.because("volume %s waits for an object: %s", v.Name, oneLine(v.Missing))
		case v.Unread:
			s.add(a, s.objectsSet(), "")
			a.because("volume %s waits for the first read of its objects", v.Name)
		case v.Failed:
			s.add(a, s.failedVolume(v.Name), "")
			why := oneLine(v.Record.GetMessage())
			if v.Record.GetPermanent() {
				why += "; it is tried again when one of its objects changes"
			}
			a.because("volume %s cannot be set up: %s", v.Name, why)
			if t, set := s.timer(volumeTimer + v.Name); t != nil {
				a.until(firesAt(t), "next attempt")
				s.add(a, set, fmt.Sprintf("waits %s before the next set-up of volume %s, after %s",
					short(t.GetDuration().AsDuration()), v.Name, describe.Count(int(v.Record.GetFailures()), "failure")))
			}
		}
	}
	s.underWay(a, "", setUp, "its volumes are being prepared")
}

// failedVolume returns the newest failure of a call that set up a volume, nil if it is too far back.
func (s *subject) failedVolume(name string) *Event {
	return s.log.last(s.at+1, 0, func(e *Event) bool {
		f := e.Body.GetCallFinished()
		if f == nil || !kind.Failed(f.GetError()) || f.GetRequester() != messages.Pod(s.uid).String() {
			return false
		}
		for _, v := range s.requestOf(f.GetIntentId(), e.Seq).call().GetSetUpVolumes().GetVolumes() {
			if v.GetName() == name {
				return true
			}
		}
		return false
	})
}

// missing explains a container that waits for what its environment refers to. It reports whether it does.
func (s *subject) missing(a *Answer, name string) bool {
	problem := s.actor.Missing(name)
	if problem == "" {
		return false
	}
	s.add(a, s.objectsRead(), "")
	a.because("container %s waits for an object: %s", name, oneLine(problem))
	return true
}

func (s *subject) objectsRead() *Event {
	return s.log.last(s.at+1, 0, func(e *Event) bool { return e.Body.GetObjectsRead().GetUid() == s.uid })
}

func (s *subject) objectsSet() *Event {
	return s.log.last(s.at+1, 0, func(e *Event) bool {
		return e.Body.GetObjectsSet() != nil && e.Author == messages.Pod(s.uid)
	})
}
