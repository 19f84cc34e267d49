package actors

import "time"

// GraceWithoutObject is the grace period of containers whose pod no source has any more: a pod that was force-deleted
// at the API server, also while the agent was down, or an orphan. Nobody waits for these containers to end, and another
// pod may run in their place. A container still has the minimum of a stop, 2 s. kubelet: 1 s for a pod that only the
// runtime has.
const GraceWithoutObject = time.Second

// MinimumGrace is the least time that a container has to end by itself, and its preStop hook beyond its own time.
// kubelet: minimumGracePeriodInSeconds, 2.
const MinimumGrace = 2 * time.Second
