package simulation

import (
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// onAgentStarted takes note of what a run is configured with. A source that it leaves out is as new when it comes back.
func (j *judge) onAgentStarted(seq uint64, c *journaletv1.AgentConfig) {
	j.configs = append(j.configs, configured{seq, c})
	maps.DeleteFunc(j.read, func(source string, _ time.Duration) bool {
		return !slices.Contains(c.GetSources(), source)
	})
}

// orphanConfirmed: what the agent finds and no source names is cleared away when every source that is configured has been read.
func (j *judge) orphanConfirmed(cause uint64, uid string) {
	s := j.sim
	named := s.fromFiles()[uid] != "" && s.directory.changedAt < j.mustKnow(messages.FileSource)
	if slices.Contains(j.configAt(cause).GetSources(), messages.HTTPSource) {
		// Who has read something else from the URL knows nothing of it.
		named = named || s.fromURL()[uid] != "" && s.site.changedAt < j.mustKnow(messages.HTTPSource) && s.site.wrongAt == 0
	}
	if named {
		j.broken(namedStays, uid, "it is taken for nobody's")
	}
}

// mustKnow is the moment of which the agent must know what a source said then before it clears away what that does not name: when it was
// read first as a whole, and, as long as it was not, the beginning of the run.
func (j *judge) mustKnow(source string) time.Duration {
	if at, ok := j.read[source]; ok {
		return at
	}
	return j.runSince
}
