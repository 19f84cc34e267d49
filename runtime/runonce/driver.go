package runonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// every bounds how often the pods of a run of --once are inspected.
	every = 50 * time.Millisecond
	// inspectTimeout bounds one inspection of an actor. One that hangs is inspected again.
	inspectTimeout = time.Second
)

// Actors are the host of the actors, as host.Host documents it.
type Actors interface {
	Inspect(ctx context.Context, ref messages.Ref, f func(actors.Decider)) error
	Backlog() int
	Lagging() int
	Quarantines() map[messages.Ref]*journaletv1.Quarantined
}

// Options configure a Driver; all must be set, but Timeout may be 0, for none.
type Options struct {
	Actors Actors
	// Sources are the names of the sources. Read reports whether each was read once, and whether the states of an earlier
	// run have been compared with the runtime.
	Sources []string
	Read    func() bool
	// Flush waits until what was emitted is stored.
	Flush   func(context.Context) error
	Timeout time.Duration
	Log     *slog.Logger
}

// Driver waits until every pod of every source is done (ADR 043).
type Driver struct {
	o    Options
	wake chan struct{}
	done chan struct{} // closed when Run has ended
	err  error
}

// New returns a driver that Run runs.
func New(o Options) *Driver {
	return &Driver{o: o, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Name implements drivers.Driver.
func (*Driver) Name() string { return "once" }

// Stored has the pods inspected after a record.
func (d *Driver) Stored(*journaletv1.Record) {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run waits until every pod of every source is done, or ctx ends. Err has the result: a run of the agent that ends well
// is no error of a driver.
func (d *Driver) Run(ctx context.Context) error {
	defer close(d.done)
	d.err = d.wait(ctx)
	return nil
}

// Done is closed when Run has ended.
func (d *Driver) Done() <-chan struct{} { return d.done }

// Err returns which pods failed, once Run has ended.
func (d *Driver) Err() error { return d.err }

// podProgress is how far a pod has come.
type podProgress struct {
	name string
	// digest is the digest of the manifest that its source has.
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

// wait waits until every pod of every source is done, and returns which of them failed.
func (d *Driver) wait(ctx context.Context) error {
	if limit := d.o.Timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	failed, progress := []string(nil), map[string]podProgress{}
	for {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return d.result(failed, progress)
			}
			return ctx.Err()
		case <-d.wake:
		case <-time.After(inspectTimeout):
		}
		var read bool
		if failed, progress, read = d.progress(ctx); read && settled(progress) {
			return d.result(failed, progress)
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

// progress returns what the sources refuse and how far their pods have come. read is false until every source was read
// once and the states of an earlier run have been compared with the runtime.
func (d *Driver) progress(ctx context.Context) (failed []string, progress map[string]podProgress, read bool) {
	progress = map[string]podProgress{}
	read = d.o.Read()
	// What the drivers have emitted by now is handled before the actors are inspected: an inspection overtakes records.
	read = d.o.Flush(ctx) == nil && d.o.Actors.Backlog() == 0 && d.o.Actors.Lagging() == 0 && read
	quarantines := d.o.Actors.Quarantines()
	for _, name := range d.o.Sources {
		synced := false
		d.inspect(ctx, messages.Source(name), func(a actors.Decider) {
			if s, ok := a.(*source.Actor); ok && s.Source().GetSyncedReported() {
				f, pods := ofSource(s.Source())
				synced, failed = true, append(failed, f...)
				maps.Copy(progress, pods)
			}
		})
		read = read && synced
	}
	for uid := range progress {
		if q := quarantines[messages.Pod(uid)]; q != nil {
			f := progress[uid]
			f.done, f.failed = true, "its actor is quarantined: "+q.GetMessage()
			progress[uid] = f
			continue
		}
		d.inspect(ctx, messages.Pod(uid), func(a actors.Decider) {
			if p, ok := a.(*pod.Actor); ok && !progress[uid].removed {
				progress[uid] = progressOf(progress[uid], p.Manifest(), p.Pod())
			}
		})
	}
	return failed, progress, read
}

// inspect calls f with an actor's decider. Without an answer, the next round tries again.
func (d *Driver) inspect(ctx context.Context, ref messages.Ref, f func(actors.Decider)) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	if err := d.o.Actors.Inspect(ctx, ref, f); err != nil {
		d.o.Log.Debug("cannot inspect an actor", "actor", ref.String(), "error", err)
	}
}

// ofSource returns what a source refuses, and the pods that it has or removes, by UID.
func ofSource(s *journaletv1.SourceState) (failed []string, pods map[string]podProgress) {
	for _, p := range source.Problems(s) {
		failed = append(failed, p.String())
	}
	pods = map[string]podProgress{}
	for uid, p := range s.GetPods() {
		f := podProgress{name: p.GetPod().GetNamespace() + "/" + p.GetPod().GetName(), digest: p.GetPod().GetDigest(),
			state: "not started"}
		if !p.GetDesired() {
			f.removed, f.state = true, "is being removed"
		}
		pods[uid] = f
	}
	return failed, pods
}

// progressOf returns how far a pod has come. One that restarts for ever is done when it is ready, any other when it has
// ended and nothing of it is under way. Neither counts for an earlier manifest.
func progressOf(f podProgress, manifest *corev1.Pod, s *journaletv1.PodState) podProgress {
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

// settled reports whether every pod is done, or waits for the name of a pod that is done.
func settled(progress map[string]podProgress) bool {
	for _, f := range progress {
		if !f.done && !progress[f.waitsFor].done {
			return false
		}
	}
	return true
}

// result logs the outcome of each pod and returns an error with the failed pods.
func (d *Driver) result(failed []string, progress map[string]podProgress) error {
	uids := slices.SortedFunc(maps.Keys(progress), func(x, y string) int {
		return strings.Compare(progress[x].name, progress[y].name)
	})
	for _, uid := range uids {
		f := progress[uid]
		switch {
		case !f.done && f.waitsFor != "":
			f.failed = "waits for another pod of its name"
		case !f.done:
			f.failed = "is not done within --once-timeout: " + f.state
		}
		if f.failed == "" {
			d.o.Log.Info("pod is done", "pod", f.name, "state", f.state)
			continue
		}
		d.o.Log.Error("pod failed", "pod", f.name, "why", f.failed)
		failed = append(failed, f.name+": "+f.failed)
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d failed:\n  %s", len(failed), strings.Join(failed, "\n  "))
}
