package simulation

import (
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// onAgentStarted notes the configuration of a run. A source that it leaves out counts as unread when it returns.
func (j *judge) onAgentStarted(seq uint64, c *journaletv1.AgentConfig) {
	j.configs = append(j.configs, configured{seq, c})
	maps.DeleteFunc(j.read, func(source string, _ time.Duration) bool {
		return !slices.Contains(c.GetSources(), source)
	})
}

// orphanConfirmed: a pod of the runtime that no source names is removed after every configured source was read.
func (j *judge) orphanConfirmed(cause uint64, uid string) {
	s := j.sim
	named := s.fromFiles()[uid] != "" && s.directory.changedAt < j.mustKnow(messages.FileSource)
	if slices.Contains(j.configAt(cause).GetSources(), messages.HTTPSource) {
		// An agent that read a wrong body from the URL does not know the pod.
		named = named || s.fromURL()[uid] != "" && s.site.changedAt < j.mustKnow(messages.HTTPSource) && s.site.wrongAt == 0
	}
	if named {
		j.broken(namedStays, uid, "it counts as an orphan")
	}
}

// mustKnow returns an uptime. The agent must know what the source named then before it removes orphans: the time of
// the first complete read, or the beginning of the run until there is one.
func (j *judge) mustKnow(source string) time.Duration {
	if at, ok := j.read[source]; ok {
		return at
	}
	return j.runSince
}
