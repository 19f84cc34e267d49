package simulation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of what is reported of containers: exit codes, reasons, times and restart counts.

// reports judges the status that a pod shows after a record.
func (j *judge) reports(uid string, v *corev1.Pod, rec *journaletv1.Record) {
	cause, sum, most := rec.GetStep().GetCause(), 0, 0
	for _, s := range slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses) {
		for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if t != nil {
				j.exitReported(uid, s.Name, t)
			}
		}
		if x := j.newest(uid, s.Name); x != nil && !j.unrecorded(x) && strings.HasSuffix(s.ContainerID, "://"+x.id) {
			j.readyReported(x, &s, cause)
		}
		from, to := j.restarts(uid, s.Name, cause)
		sum, most = sum+from, most+to
		if n := int(s.RestartCount); n < from || n > to {
			j.broken(countsTrue, uid, "%s: %d restarts are reported, and it had between %d and %d", s.Name, n, from, to)
		}
		j.waitReported(uid, &s)
		j.refusedAgain(uid, v, &s)
	}
	for _, e := range rec.GetStep().GetDecisions() {
		if c := e.GetPodStatusChanged(); c != nil && (int(c.GetRestarts()) < sum || int(c.GetRestarts()) > most) {
			j.broken(countsTrue, uid, "%d restarts of its containers are reported, and they had between %d and %d",
				c.GetRestarts(), sum, most)
		}
	}
}

// The status of an instance if nobody knows how it ended.
const (
	unknownReason = "ContainerStatusUnknown"
	unknownCode   = 137
)

// exitReported: an instance that is reported as ended has ended, with this code, reason and time. How an instance ended
// may be unknown if the runtime lost it, or if it never ran.
func (j *judge) exitReported(uid, name string, t *corev1.ContainerStateTerminated) {
	_, id, _ := strings.Cut(t.ContainerID, "://")
	x := j.book.byID[id]
	switch unknown := t.Reason == unknownReason && t.ExitCode == unknownCode; {
	case x == nil:
		j.presumed(uid, name, t)
	case unknown && (x.vanished || x.startLost || x.startedAt == 0):
	case x.alive() || x.state == created:
		j.broken(exitsReported, uid, "%s is reported as ended with %d, and is %s", id, t.ExitCode, x.state)
	case t.ExitCode != x.code || t.Reason != x.reason:
		j.broken(exitsReported, uid, "%s ended with %d %s, and is reported with %d %s", id, x.code, x.reason, t.ExitCode,
			t.Reason)
	case !j.hasSaid(x, t.Message):
		j.broken(exitsReported, uid, "%s ended with the message %q, and is reported with %q", id, x.lastWords(),
			t.Message)
	case !t.FinishedAt.Time.Equal(x.finished):
		j.broken(exitsReported, uid, "%s ended at %s, and is reported to have ended at %s", id, x.finished, t.FinishedAt)
	}
}

// hasSaid reports whether an instance has ended with a message. A long message is shortened together with the messages
// of the pod's other containers. If a removal had begun when the agent was killed, and the journal is lost, the files
// are gone and the message is, too.
func (j *judge) hasSaid(x *instance, message string) bool {
	words := x.lastWords()
	gone := j.sim.world.files.instances[x.uid][instanceFile{x.name, x.attempt}] == nil
	return message == words || len(words) > shortMessage || gone && message == x.refusal && j.unrecorded(x)
}

// shortMessage is what each of 80 containers may say. kubelet: 12 KiB a pod.
const shortMessage = 12 << 10 / 80

// presumed: an end of no instance is reported only of an init container whose instance nothing shows any more, after
// the journal was lost.
func (j *judge) presumed(uid, name string, t *corev1.ContainerStateTerminated) {
	if j.history(uid).apiPod && t.Reason == unknownReason && t.ExitCode == unknownCode {
		return // the API server is to have an end of each container
	}
	unrecorded := func(x *instance) bool { return j.intents[x.intent] == nil }
	if t.ExitCode != 0 || !slices.ContainsFunc(j.book.ofPod[uid], unrecorded) {
		j.broken(exitsReported, uid, "%s is reported as ended with %d %s, and no such instance was created", name, t.ExitCode,
			t.Reason)
	}
}

// restarts returns the bounds of a container's restart count by a record. Each instance that ran and was shown counts;
// an instance that never ran, or that the runtime lost, may count.
func (j *judge) restarts(uid, name string, cause uint64) (from, to int) {
	b := j.book
	for _, x := range b.ofPod[uid] {
		if x.name != name || x.n <= b.countsSince[uid] {
			continue
		}
		to++
		if x.n > b.countsFrom[uid] && x.startedAt > 0 && !x.vanished && x.shownBy > 0 && x.shownBy <= cause {
			from++
		}
	}
	return max(from-1, 0), max(to-1, 0)
}

// startsTried is how many starts in a row may run nothing before a container of restartPolicy Never has failed.
const startsTried = 6

// refusedAgain: a start that ran no process did not happen. A pod does not fail for one, unless its command cannot be
// executed or there were too many in a row.
func (j *judge) refusedAgain(uid string, v *corev1.Pod, s *corev1.ContainerStatus) {
	x := j.newest(uid, s.Name)
	if s.State.Terminated == nil || x == nil || x.refusal != refusedMount || x.vanished || x.startLost ||
		j.unrecorded(x) || !strings.HasSuffix(s.ContainerID, "://"+x.id) || !neverRestarts(x.manifest, x.spec) {
		return
	}
	if v.Status.Phase != corev1.PodFailed || v.Status.Reason != "" || j.book.ending[uid] {
		return // something else ended the pod, or may end it
	}
	for i := range x.manifest.Spec.InitContainers {
		if c := &x.manifest.Spec.InitContainers[i]; !isSidecar(c) {
			if init := j.newest(uid, c.Name); init != nil && (init.vanished || init.code != 0) {
				return // the init container has failed, or nobody knows how it ended, and neither is tried again
			}
		}
	}
	row := 0
	for _, other := range j.book.instancesOf(uid, s.Name) {
		if row++; other.startedAt > 0 {
			row = 0
		}
	}
	if row < startsTried {
		j.broken(notRunIsTried, uid, "%s has failed, and its start %d ran nothing: %s", s.Name, row, x.refusal)
	}
}
