package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// onceEvery bounds how often the pods of a run of --once are inspected.
	onceEvery = 50 * time.Millisecond
	// onceTimeout bounds one inspection of an actor. One that hangs is inspected again.
	onceTimeout = time.Second
)

// once is what a run of --once waits for (ADR 043).
type once struct {
	wake chan struct{}
	// err is the result; it is read after the drivers have ended.
	err error
}

func (o *once) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// fate is how far a pod has come.
type fate struct {
	name string
	// digest is that of the manifest that its source has.
	digest string
	// done: it has ended for good, or runs and is ready. failed is why it counts as failed.
	done   bool
	failed string
	// removed: it is no pod of its source any more, and is done when its source has forgotten it.
	removed bool
	// waitsFor is the UID of the pod whose name it waits for.
	waitsFor string
	// state is what it does now, for a run that ends before it is done.
	state string
}

// untilOnce waits until every pod of every source is done, and returns which of them failed.
func (a *agent) untilOnce(ctx context.Context) error {
	if limit := a.cfg.OnceTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	failed, fates := []string(nil), map[string]fate{}
	for {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return a.onceResult(failed, fates)
			}
			return ctx.Err()
		case <-a.once.wake:
		case <-time.After(onceTimeout):
		}
		var read bool
		if failed, fates, read = a.fates(ctx); read && settled(fates) {
			return a.onceResult(failed, fates)
		}
		select {
		case <-ctx.Done():
		case <-time.After(onceEvery):
		}
	}
}

// fates returns what the sources refuse and how far their pods have come. read is false until every source was read
// once and the states of an earlier run have been compared with the runtime.
func (a *agent) fates(ctx context.Context) (failed []string, fates map[string]fate, read bool) {
	fates = map[string]fate{}
	read = a.pleg.Current() && a.files.Complete() && (a.url == nil || a.url.Complete())
	// What the drivers have emitted by now is handled before the actors are inspected: an inspection overtakes records.
	read = a.bus.Journal().Flush(ctx) == nil && a.host.Backlog() == 0 && a.host.Lagging() == 0 && read
	quarantines := a.host.Quarantines()
	for _, name := range a.sources() {
		synced := false
		a.inspectOnce(ctx, messages.Source(name), func(d actors.Decider) {
			if s, ok := d.(*source.Actor); ok && s.Source().GetSyncedReported() {
				f, pods := ofSource(s.Source())
				synced, failed = true, append(failed, f...)
				maps.Copy(fates, pods)
			}
		})
		read = read && synced
	}
	for uid := range fates {
		if q := quarantines[messages.Pod(uid)]; q != nil {
			f := fates[uid]
			f.done, f.failed = true, "its actor is quarantined: "+q.GetMessage()
			fates[uid] = f
			continue
		}
		a.inspectOnce(ctx, messages.Pod(uid), func(d actors.Decider) {
			if p, ok := d.(*pod.Actor); ok && !fates[uid].removed {
				fates[uid] = fateOf(fates[uid], p.Manifest(), p.Pod())
			}
		})
	}
	return failed, fates, read
}

// inspectOnce calls f with an actor's decider. Without an answer, the next round tries again.
func (a *agent) inspectOnce(ctx context.Context, ref messages.Ref, f func(actors.Decider)) {
	ctx, cancel := context.WithTimeout(ctx, onceTimeout)
	defer cancel()
	if err := a.host.Inspect(ctx, ref, f); err != nil {
		a.log.Debug("cannot inspect an actor", "actor", ref.String(), "error", err)
	}
}

// ofSource returns what a source refuses, and the pods that it has or removes, by UID.
func ofSource(s *journaletv1.SourceState) (failed []string, pods map[string]fate) {
	for _, p := range source.Problems(s) {
		failed = append(failed, p.String())
	}
	pods = map[string]fate{}
	for uid, p := range s.GetPods() {
		f := fate{name: p.GetPod().GetNamespace() + "/" + p.GetPod().GetName(), digest: p.GetPod().GetDigest(),
			state: "not started"}
		if !p.GetDesired() {
			f.removed, f.state = true, "is being removed"
		}
		pods[uid] = f
	}
	return failed, pods
}

// fateOf returns how far a pod has come. One that restarts for ever is done when it is ready, any other when it has
// ended and nothing of it is under way. Neither counts for an earlier manifest.
func fateOf(f fate, manifest *corev1.Pod, s *journaletv1.PodState) fate {
	f.waitsFor = s.GetHolderUid()
	phase := strings.TrimPrefix(s.GetPhase().String(), "POD_PHASE_")
	f.state = phase[:1] + strings.ToLower(phase[1:])
	var waits []string
	for _, c := range slices.Sorted(maps.Keys(s.GetContainers())) {
		if w := s.GetContainers()[c].GetWaiting(); w.GetReason() != "" {
			waits = append(waits, c+" "+w.GetReason())
		}
	}
	if len(waits) > 0 {
		f.state += ", " + strings.Join(waits, ", ")
	}
	switch {
	case s.GetRemoved() || s.GetPod().GetDigest() != f.digest:
	case s.GetStage() == journaletv1.PodStage_POD_STAGE_TERMINATED && len(s.GetCalls()) == 0:
		f.done = true
		if s.GetPhase() != journaletv1.PodPhase_POD_PHASE_SUCCEEDED {
			f.failed = strings.TrimSpace(f.state + " " + s.GetReason() + " " + s.GetMessage())
		}
	case s.GetStage() == journaletv1.PodStage_POD_STAGE_RUNNING && manifest != nil:
		f.done = manifest.Spec.RestartPolicy == corev1.RestartPolicyAlways &&
			s.GetConditions()[string(corev1.PodReady)].GetStatus()
	}
	return f
}

// settled reports whether every pod is done, or waits for the name of one that is.
func settled(fates map[string]fate) bool {
	for _, f := range fates {
		if !f.done && !fates[f.waitsFor].done {
			return false
		}
	}
	return true
}

// onceResult logs the outcome of each pod and returns an error with those that failed.
func (a *agent) onceResult(failed []string, fates map[string]fate) error {
	uids := slices.SortedFunc(maps.Keys(fates), func(x, y string) int {
		return strings.Compare(fates[x].name, fates[y].name)
	})
	for _, uid := range uids {
		f := fates[uid]
		switch {
		case !f.done && f.waitsFor != "":
			f.failed = "waits for another pod of its name"
		case !f.done:
			f.failed = "is not done within --once-timeout: " + f.state
		}
		if f.failed == "" {
			a.log.Info("pod is done", "pod", f.name, "state", f.state)
			continue
		}
		a.log.Error("pod failed", "pod", f.name, "why", f.failed)
		failed = append(failed, f.name+": "+f.failed)
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d failed:\n  %s", len(failed), strings.Join(failed, "\n  "))
}
