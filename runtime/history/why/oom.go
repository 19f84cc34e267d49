package why

import (
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/describe"
)

// oomKill returns the last kill for lack of memory in an instance of a container that has ended, nil for none. It may
// be recorded before its end is observed, or after.
func (s *subject) oomKill(c *journaletv1.ContainerObservation, ended *Event) *Event {
	if ended == nil || c.GetId() == "" {
		return nil
	}
	from := s.log.low // no more is read for it
	if started := s.startedEvent(c.GetId(), ended.Seq); started != nil {
		from = started.Seq
	}
	return s.log.last(s.at+1, from, func(e *Event) bool {
		return e.Body.GetOomKillObserved().GetContainerId() == c.GetId()
	})
}

// oomWords returns a kill for lack of memory behind what it explains.
func oomWords(kill *Event) string {
	if kill == nil {
		return ""
	}
	return "; " + describe.OomKill(kill.Body.GetOomKillObserved())
}
