package simulation

import (
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of back-offs, by the kubelet's rule: the first restart is immediate, the second one waits 10 s from the
// end of the run before, then the wait doubles up to its bound. It begins again after a run of more than twice the
// bound, and for another image or other resources. A run that ends with a failed startup or liveness probe is
// followed at once if it and the wait before it took as long.

// firstWait is the delay before the second restart, unless the bound is less.
const firstWait = 10 * time.Second

// backOffTolerance is how much too early a start may come: timestamps are rounded.
const backOffTolerance = 100 * time.Millisecond

// waited: a restart comes no earlier than its back-off allows.
func (j *judge) waited(x *instance) {
	delay, ended := j.leastBackOff(append(j.runsOf(x.uid, x.name), x))
	if waits := j.sim.clock.uptime - ended; delay > 0 && waits < delay-backOffTolerance {
		j.broken(backOffDoubles, x.uid, "%s starts %s after the end of the run before, and its back-off is %s", x.id, waits,
			delay)
	}
}

// leastBackOff returns for how long at least the last of these runs had to wait, and since when. It is 0 where that one
// may have started at once.
func (j *judge) leastBackOff(runs []*instance) (wait, ended time.Duration) {
	var next time.Duration // the delay before the next restart, 0 for an immediate one
	most := j.maxBackOff()
	first := min(firstWait, most)
	for i := range len(runs) - 1 {
		run, after := runs[i], runs[i+1]
		// The last delay was chosen between the end of the run before and the start of this one.
		mayReset := i > 0 && run.endedAt-runs[i-1].endedAt > 2*most
		switch {
		case run.vanished, run.hash != after.hash:
			wait, next = 0, 0 // the agent may not know of this run; another definition starts at once
		case next == 0 && mayFailProbe(run):
			wait = 0 // the first restart after a failed probe begins no back-off
		case next == 0, mayReset, j.changedBetween(run, after):
			wait, next = 0, first
		case mayFailProbe(run) && i > 0 && run.endedAt-runs[i-1].endedAt >= next-backOffTolerance:
			wait, next = 0, min(2*next, most)
		default:
			wait, next = next, min(2*next, most)
		}
		ended = run.endedAt
	}
	return wait, ended
}

// failedStart is a start that failed: when, in uptime, and the image and the resources of the container then.
type failedStart struct {
	at        time.Duration
	image     string
	resources *corev1.ResourceRequirements
}

// changedBetween reports whether a container had another image or other resources than in one run when the next one was
// to start, also if that failed at first.
func (j *judge) changedBetween(run, after *instance) bool {
	before := ownOrPods(run.manifest, run.spec)
	return !equality.Semantic.DeepEqual(before, ownOrPods(after.manifest, after.spec)) ||
		slices.ContainsFunc(j.book.failedStarts[run.uid+" "+run.name], func(f failedStart) bool {
			return f.at >= run.endedAt && f.at <= after.startedAt &&
				(run.spec == nil || f.image != run.spec.Image || !equality.Semantic.DeepEqual(before, f.resources))
		})
}

// mayFailProbe reports whether a run may have ended because a probe failed. One that ends by itself fails its probe,
// too, if the probe comes before the agent sees the end.
func mayFailProbe(run *instance) bool {
	return run.spec != nil && (run.spec.StartupProbe != nil || run.spec.LivenessProbe != nil)
}

// maxBackOff returns the bound that the present run of the agent was started with.
func (j *judge) maxBackOff() time.Duration {
	if len(j.configs) == 0 {
		return j.sim.config.maxBackOff
	}
	return j.configs[len(j.configs)-1].GetMaxContainerBackOff().AsDuration()
}

// runsOf returns the instances of a container that ran since its back-offs can be known, in order.
func (j *judge) runsOf(uid, name string) []*instance {
	return slices.DeleteFunc(j.book.instancesOf(uid, name), func(x *instance) bool {
		return x.startedAt == 0 || x.n <= max(j.book.backOffsFrom, j.book.begun[uid]) || x.alive()
	})
}

// backOffText is the message of a container that waits for its back-off.
var backOffText = regexp.MustCompile(`^back-off (\S+) restarting failed container=`)

// waitReported: what is reported of a wait is a delay that the rule can give, and a container that may start at once
// is not reported to wait.
func (j *judge) waitReported(uid string, s *corev1.ContainerStatus) {
	w := s.State.Waiting
	if w == nil || w.Reason != "CrashLoopBackOff" {
		return
	}
	most, runs := j.maxBackOff(), j.runsOf(uid, s.Name)
	text := backOffText.FindStringSubmatch(w.Message)
	if len(text) == 0 {
		j.broken(backOffReported, uid, "%s waits: %s", s.Name, w.Message)
		return
	}
	delay, err := time.ParseDuration(text[1])
	if err != nil || !j.possibleBackOff(delay) {
		j.broken(backOffReported, uid, "%s is reported to wait for %s, and the bound is %s", s.Name, delay, most)
	}
	if len(runs) == 0 {
		return
	}
	last, failed := runs[len(runs)-1], j.book.failedStarts[uid+" "+s.Name]
	if len(failed) > 0 && failed[len(failed)-1].at >= last.endedAt {
		return
	}
	if last.endedAt-last.startedAt > 2*most && !last.vanished && delayed(runs) {
		j.broken(backOffReported, uid, "%s ran for %s, and waits for its back-off of %s", last.id,
			last.endedAt-last.startedAt, delay)
	}
	if least, _ := j.leastBackOff(append(runs, last)); delay < least {
		j.broken(backOffReported, uid, "%s is reported to wait for %s, and has to wait for %s", last.id, delay, least)
	}
}

// delayed reports whether a delay was chosen between two of these runs. That of a first run may have been chosen before
// the judge can know, long before the run, and a start with another definition chooses none.
func delayed(runs []*instance) bool {
	for i := range len(runs) - 1 {
		if runs[i].hash == runs[i+1].hash && !runs[i].vanished {
			return true
		}
	}
	return false
}

// possibleBackOff reports whether a delay is a first one, doubled any number of times. Each run of the agent may have
// had another bound.
func (j *judge) possibleBackOff(delay time.Duration) bool {
	var bounds, possible []time.Duration
	for _, c := range j.configs {
		bounds = append(bounds, c.GetMaxContainerBackOff().AsDuration())
		possible = append(possible, min(firstWait, c.GetMaxContainerBackOff().AsDuration()))
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	for i := 0; i < len(possible); i++ {
		for _, most := range bounds {
			if next := min(2*possible[i], most); !slices.Contains(possible, next) {
				possible = append(possible, next)
			}
		}
	}
	return slices.Contains(possible, delay)
}

// bookBackOffs books what back-offs depend on.
func (j *judge) bookBackOffs(e *journaletv1.Event) {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		if n := len(j.configs); n > 1 && j.configs[n-2].GetMaxContainerBackOff().AsDuration() !=
			j.configs[n-1].GetMaxContainerBackOff().AsDuration() {
			j.book.backOffsFrom = j.book.count // another bound applies from now on
		}
	case *journaletv1.Event_CallFinished:
		in := j.intents[k.CallFinished.GetIntentId()]
		if in == nil || in.req.GetStartContainer() == nil || k.CallFinished.GetError() == 0 {
			return
		}
		start := in.req.GetStartContainer()
		m, spec := j.sim.specOf(start)
		failed := failedStart{at: j.sim.clock.uptime, resources: ownOrPods(m, spec)}
		if spec != nil {
			failed.image = spec.Image
		}
		key := in.req.GetPodUid() + " " + start.GetContainer()
		j.book.failedStarts[key] = append(j.book.failedStarts[key], failed)
	}
}
