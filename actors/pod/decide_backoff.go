package pod

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// The timers of set-up, tear-down and starts. In the name of a container's timer the container's name follows.
const (
	sandboxTimer  = "sandbox"
	tearDownTimer = "tear down"
	startTimer    = "start "
	backOffTimer  = "back-off "
)

const (
	// firstBackOff is the delay before the second restart; it doubles from there.
	// kubelet: containerBackOffPeriod, 10 s.
	firstBackOff = 10 * time.Second
	// defaultMaxBackOff bounds it. kubelet: MaxContainerBackOff, 300 s.
	defaultMaxBackOff = 300 * time.Second
	// maxAbsentDelay bounds the wait for an image that is never pulled. kubelet: its next sync, 10 s; here each start is
	// recorded.
	maxAbsentDelay = time.Minute
	// firstSetUpDelay and maxSetUpDelay bound the wait after a failed sandbox or removal call. The kubelet tries
	// again at its next sync, 10 s or more later; a transient failure is over sooner than that.
	firstSetUpDelay = time.Second
	maxSetUpDelay   = 30 * time.Second
	// sandboxPause is the least time between the creation of a sandbox where no container has run and the creation of
	// the next. Otherwise a node where sandboxes do not last would create new ones without end. kubelet: its next sync,
	// 10 s.
	sandboxPause = 10 * time.Second
)

// maxBackOff returns the longest back-off of a container.
func (d *step) maxBackOff() time.Duration {
	if m := d.state.GetMaxBackOff().AsDuration(); m > 0 {
		return m
	}
	return defaultMaxBackOff
}

// backOff returns how long a container that ended has to wait. If it has waited long enough, it returns the back-off
// that its next start begins, nil for a first start.
//
// The rules are the kubelet's. The first restart is immediate, the second one waits 10 s from the end of the run
// before, then the wait doubles. The back-off begins again for a container that ran for twice the longest delay, and
// for one with another image or other resources. One that was stopped because a probe failed starts at once if its run
// and the wait before it took as long as the delay: the kubelet stops and starts it in one sync, and counts from the
// end of the instance before. So the first such restart begins no back-off.
func (d *step) backOff(c *corev1.Container, r *journaletv1.ContainerRecord) (
	begins *journaletv1.BackOffStarted, wait time.Duration,
) {
	cur := r.GetCurrent()
	if !exited(cur) || notRun(r) || r.GetRestartRequested() || r.GetReplacing() && cur.GetHash() != ContainerHash(c) {
		return nil, 0
	}
	if stepped := r.GetBackOff().GetUpdatedAt(); d.triedBefore(c, r) && stepped != nil &&
		r.GetBackOff().GetKey() == backOffKey(c) && !stepped.AsTime().Before(cur.GetFinishedAt().AsTime()) {
		// This start was tried before and found no image: it has waited, and its step was taken and not undone since. With
		// other resources it is another start. The step of a start before was taken before this instance ended: another
		// container of the pod had the image pulled.
		return nil, 0
	}
	first := min(firstBackOff, d.maxBackOff())
	next := &journaletv1.BackOffStarted{Container: c.Name, Key: backOffKey(c), Delay: durationpb.New(first)}
	b, ended := r.GetBackOff(), cur.GetFinishedAt().AsTime()
	waited := b != nil && b.GetUpdatedAt() == nil
	if stoppedByProbe(r) {
		if r.GetLast() == nil {
			return nil, 0
		}
		waited = waited || ended.Sub(r.GetLast().GetFinishedAt().AsTime()) >= b.GetDelay().AsDuration()
	}
	if b == nil || b.GetKey() != next.Key || !waited && ended.Sub(b.GetUpdatedAt().AsTime()) > 2*d.maxBackOff() {
		return next, 0
	}
	if wait := d.left(cur.GetFinishedAt(), b.GetDelay().AsDuration()); wait > 0 && !waited {
		return nil, wait
	}
	next.Delay = durationpb.New(min(2*b.GetDelay().AsDuration(), d.maxBackOff()))
	return next, 0
}

// stoppedByProbe reports whether the newest instance was stopped because its startup or liveness probe failed.
func stoppedByProbe(r *journaletv1.ContainerRecord) bool {
	p := probesOf(r)
	return r.GetStoppedAsUnhealthy() && (failedProbe(p.GetStartup()) || failedProbe(p.GetLiveness()))
}

// sandboxWait returns what is left until the next sandbox may be created.
func (d *step) sandboxWait() time.Duration {
	if failed := d.left(d.state.GetSandboxFailedAt(), setUpDelay(d.state.GetSandboxFailures())); failed > 0 {
		return failed
	}
	before := d.newestSandbox()
	if before == "" || d.fired(sandboxTimer) || d.ranIn(before) {
		return 0
	}
	return d.left(d.state.GetSandboxCreatedAt(), sandboxPause)
}

// ranIn reports whether the newest instance of a container was created in a sandbox.
func (a *Actor) ranIn(sandbox string) bool {
	for _, name := range slices.Sorted(maps.Keys(a.state.Containers)) {
		if a.state.Containers[name].GetCurrent().GetSandboxId() == sandbox {
			return true
		}
	}
	return false
}

// left returns what is left of a delay counted from a moment. A clock that was set back never makes it longer than the
// delay itself.
func (d *step) left(from *timestamppb.Timestamp, delay time.Duration) time.Duration {
	if from == nil || delay == 0 {
		return 0
	}
	return min(from.AsTime().Add(delay).Sub(d.now), delay)
}

// setUpDelay returns the wait after so many failures in a row of a call that sets up or takes down a pod.
func setUpDelay(failures uint32) time.Duration {
	return doubled(failures, firstSetUpDelay, maxSetUpDelay)
}

// maxStartDelay returns the longest wait after a failed start. Of an image that is never pulled somebody loads it: the
// next start looks for it.
func (d *step) maxStartDelay(r *journaletv1.ContainerRecord) time.Duration {
	if r.GetStartError().GetReason() == reasonNeverPull {
		return min(maxAbsentDelay, d.maxBackOff())
	}
	return d.maxBackOff()
}

// startDelay returns the wait after so many failed starts in a row.
func startDelay(failures uint32, most time.Duration) time.Duration {
	return doubled(failures, min(firstBackOff, most), most)
}

func doubled(failures uint32, first, most time.Duration) time.Duration {
	if failures == 0 {
		return 0
	}
	delay := first
	for i := uint32(1); i < failures && delay < most; i++ {
		delay *= 2
	}
	return min(delay, most)
}

// backOffKey returns what a back-off belongs to, as in the kubelet: the image and the resources.
func backOffKey(c *corev1.Container) string {
	h := fnv.New32a()
	_ = json.NewEncoder(h).Encode(c.Resources)
	return c.Image + "@" + strconv.FormatUint(uint64(h.Sum32()), 16)
}
