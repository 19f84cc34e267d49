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

// onSynced notes when a source was read completely first. The disk may have stalled between the read and its
// record, and the agent cannot know what changed in the source meanwhile.
func (j *judge) onSynced(seq, cause uint64, source string) {
	at, ok := j.readAt[j.sim.journal.stored[cause-1].GetFact().GetManifestsRead()]
	if !ok {
		at = j.sim.journal.storedAt[seq-1]
	}
	j.read[source] = at
}

// orphanConfirmed: a pod of the runtime that no source names is removed after every configured source was read.
func (j *judge) orphanConfirmed(cause uint64, uid string) {
	s := j.sim
	named := s.fromFiles()[uid] != "" && s.directory.changedAt < j.mustKnow(messages.FileSource)
	if slices.Contains(j.configAt(cause).GetSources(), messages.HTTPSource) {
		named = named || s.fromURL()[uid] != "" && s.site.changedAt < j.mustKnow(messages.HTTPSource) && !j.mayNotKnow(uid)
	}
	if slices.Contains(j.configAt(cause).GetSources(), messages.APISource) {
		at, known := s.api.boundAt(uid)
		named = named || known && at < j.mustKnow(messages.APISource)
	}
	if j.nameTaken(uid) {
		return // no source could have it admitted
	}
	if named || j.keptOutFor(uid) {
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

// readsWithin bounds how long a source takes to record what it was served: it reads every 20 s, and the disk may stall.
const readsWithin = 2 * time.Minute

// mayNotKnow reports whether the agent may not know that the URL names a pod: it read a wrong body, and nothing else
// since. Once a record names the pod it knows.
func (j *judge) mayNotKnow(uid string) bool {
	s := j.sim.site
	if s.wrongAt == 0 || j.namedByURL(uid) {
		return false
	}
	return s.rightAt <= s.wrongAt || j.sim.clock.uptime-max(s.rightAt, j.runSince) < readsWithin
}

// bookRead notes what a read of the directory or of the URL found.
func (j *judge) bookRead(ref messages.Ref, k *journaletv1.ManifestsRead) {
	switch ref {
	case messages.Source(messages.FileSource):
		j.names.read(k)
	case messages.Source(messages.HTTPSource):
		for _, f := range k.GetChanged() {
			j.urlFiles[f.GetPath()] = f
		}
	}
}

// namedByURL reports whether the recorded reads of the URL name a pod.
func (j *judge) namedByURL(uid string) bool {
	for _, f := range j.urlFiles {
		if slices.ContainsFunc(f.GetPods(), func(p *journaletv1.PodRef) bool { return p.GetUid() == uid }) {
			return true
		}
	}
	return false
}
