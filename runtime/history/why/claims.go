package why

import (
	"fmt"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
	"github.com/journalet/journalet/runtime/history/describe"
)

// claims explains why the claims of the pod are not prepared: its sandbox waits for them.
func (s *subject) claims(a *Answer) {
	about := func(c *journaletv1.CallRequested) bool {
		return c.GetReadClaims() != nil || c.GetPrepareClaims() != nil
	}
	if problem := s.actor.ClaimProblem(); problem != "" {
		s.add(a, s.log.last(s.at+1, 0, func(e *Event) bool {
			f := e.Body.GetCallFinished()
			return f != nil && kind.Failed(f.GetError()) && f.GetRequester() == messages.Pod(s.uid).String() &&
				about(s.requestOf(f.GetIntentId(), e.Seq).call())
		}), "")
		a.because("%s", oneLine(problem))
		if t, set := s.timer(claimsTimer); t != nil {
			a.until(firesAt(t), "next attempt")
			s.add(a, set, fmt.Sprintf("waits %s before the next try, after %s", short(t.GetDuration().AsDuration()),
				describe.Count(int(s.actor.Pod().GetClaims().GetFailures()), "failure")))
		}
	}
	s.underWay(a, "", about, "its resource claims are being prepared")
}
