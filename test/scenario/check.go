package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// finalState returns the state that a history reaches if nothing more goes wrong: every pod's status without times.
func (g *engine) finalState() (string, error) {
	if err := g.converge(); err != nil {
		return "", err
	}
	if err := g.core.Replay(); err != nil {
		return "", err
	}
	if err := g.unsatisfied(); err != nil {
		return "", err
	}
	return g.summary(), nil
}

// unsatisfied returns everything that is wrong once nothing is left to happen; nil for nothing.
func (g *engine) unsatisfied() error {
	var wrong []string
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	wrong = append(wrong, g.world.violations...)
	if n := len(g.runtime().GetCalls()); n > 0 {
		report("the dispatcher still has %d calls", n)
	}
	if s := g.image(); len(s.GetPulls())+len(s.GetIntents()) > 0 {
		report("the image actor still has pulls: %v", s)
	}
	desired := g.desired(report)
	for _, uid := range g.names.uids {
		a, name := g.pod(uid), g.names.aliasOf(uid)
		switch {
		case desired[uid] == nil && a != nil && g.keptOut(uid):
		case desired[uid] == nil && a != nil:
			report("pod/%s is in no source and still there: %s", name, a.Pod().GetStage())
		case desired[uid] != nil && a == nil:
			report("pod/%s is in a source and has no actor", name)
		case a != nil:
			g.checkPod(a, name, report)
		}
	}
	for _, uid := range g.world.uids() {
		g.checkObjects(uid, desired[uid] != nil, report)
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "\n"))
}

// keptOut reports whether a manifest with a problem has the name of what the world has of a pod.
func (g *engine) keptOut(uid string) bool {
	o := g.world.objectsOf(uid)
	for _, name := range allSources {
		for _, f := range g.source(name).GetFiles() {
			if slices.ContainsFunc(f.GetProblems(), func(p *journaletv1.ManifestProblem) bool {
				return o.name != "" && p.GetPod()+"-"+g.node().GetConfig().GetNodeName() == o.namespace+"/"+o.name
			}) {
				return true
			}
		}
	}
	return false
}

// drained reports whether an operator's drain keeps pods from being admitted.
func (g *engine) drained() bool {
	return g.core.Decider(messages.Node).(*node.Actor).Node().GetDrain() != nil
}

// checkPod reports what is wrong with a desired pod when nothing is left to happen.
func (g *engine) checkPod(a *pod.Actor, name string, report func(string, ...any)) {
	s := a.Pod()
	if len(s.GetCalls()) > 0 {
		report("pod/%s waits for %d calls that never run", name, len(s.GetCalls()))
	}
	if n := len(s.GetTimers().GetSet()); n > 0 {
		report("pod/%s has %d timers that never fire", name, n)
	}
	v := a.View(pod.Node{RuntimeName: "fake"})
	switch s.GetStage() {
	case journaletv1.PodStage_POD_STAGE_TERMINATED:
		if v.Status.Phase != corev1.PodSucceeded && v.Status.Phase != corev1.PodFailed {
			report("pod/%s has terminated with phase %s", name, v.Status.Phase)
		}
	case journaletv1.PodStage_POD_STAGE_RUNNING:
		if v.Status.Phase != corev1.PodRunning && !waitsForResources(v) && !g.world.holds(a.Manifest()) {
			report("pod/%s runs with phase %s", name, v.Status.Phase)
		}
		ended := 0
		for _, c := range slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses) {
			if c.State.Waiting != nil && !waitsForResources(v) && !g.world.holds(a.Manifest()) {
				report("pod/%s: container %s waits forever: %s", name, c.Name, c.State.Waiting.Reason)
			}
			if c.State.Running != nil && !c.Ready && !a.LeftAlone() { // what is left alone is not probed
				report("pod/%s: container %s runs and is not ready", name, c.Name)
			}
		}
		for _, c := range v.Status.ContainerStatuses {
			if c.State.Terminated != nil {
				ended++
			}
		}
		if ended == len(v.Status.ContainerStatuses) {
			report("pod/%s: its main containers have exited, and it keeps running", name)
		}
	case journaletv1.PodStage_POD_STAGE_ADMITTING:
		if g.drained() {
			if v.Status.Reason != node.ReasonDrained {
				report("pod/%s waits while the node is drained, with reason %q", name, v.Status.Reason)
			}
			return
		}
		if g.awaitsPlugin(a) {
			return
		}
		// Within one source, a name has one pod.
		if holder := g.pod(s.GetHolderUid()); holder == nil || holder.Pod().GetSource() == s.GetSource() {
			report("pod/%s waits for a name that is free", name)
		}
	default:
		report("pod/%s is stuck in %s", name, s.GetStage())
	}
}

// checkObjects compares a pod's objects in the runtime with its desired state.
func (g *engine) checkObjects(uid string, desired bool, report func(string, ...any)) {
	o, name := g.world.objectsOf(uid), g.names.aliasOf(uid)
	if !desired && len(o.sandboxes)+len(o.containers) > 0 && !g.keptOut(uid) {
		report("pod/%s left %d sandboxes and %d containers on the node", name, len(o.sandboxes), len(o.containers))
	}
	ready := 0
	for _, x := range o.sandboxes {
		if x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY {
			ready++
		}
	}
	if ready > 1 {
		report("pod/%s has %d ready sandboxes", name, ready)
	}
	a := g.pod(uid)
	g.checkVolumesAtRest(uid, desired && a.Pod().GetStage() == journaletv1.PodStage_POD_STAGE_RUNNING, report)
	if !desired || a == nil {
		return
	}
	over := a.Pod().GetStage() == journaletv1.PodStage_POD_STAGE_TERMINATED
	if over && ready > 0 {
		report("pod/%s has ended and keeps a ready sandbox", name)
	}
	for _, x := range o.sandboxes {
		g.checkPodResources(a, x, report)
	}
	dead := map[string]int{}
	for _, c := range o.containers {
		if alive(c) && (over || a.Manifest() == nil) {
			report("pod/%s has ended and container %s runs", name, c.GetId())
		}
		if !alive(c) {
			dead[c.GetName()]++
		}
		g.checkResources(a, c, report)
		g.checkPlacement(a, c, report)
	}
	for _, c := range slices.Sorted(maps.Keys(dead)) {
		// The newest dead instance is kept, and beside a dead current instance the one before it.
		if dead[c] > 2 {
			report("pod/%s keeps %d dead instances of %s", name, dead[c], c)
		}
	}
}

// summary returns every pod's status without times.
func (g *engine) summary() string {
	var out []string
	for _, uid := range g.names.uids {
		if a := g.pod(uid); a != nil {
			out = append(out, g.names.aliasOf(uid)+" "+statusLine(a.View(pod.Node{RuntimeName: "fake"})))
		}
	}
	return strings.Join(out, "\n")
}

func statusLine(p *corev1.Pod) string {
	text := string(p.Status.Phase)
	if p.Status.Reason != "" {
		text += " (" + p.Status.Reason + ")"
	}
	for _, c := range p.Status.Conditions {
		text += fmt.Sprintf(" %s=%s", c.Type, c.Status)
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
		p.Status.EphemeralContainerStatuses) {
		text += " " + c.Name + "=" + shortState(c)
	}
	return text
}

func shortState(c corev1.ContainerStatus) string {
	text := "running"
	switch {
	case c.State.Waiting != nil:
		text = c.State.Waiting.Reason
	case c.State.Terminated != nil:
		text = fmt.Sprintf("exit-%d", c.State.Terminated.ExitCode)
	}
	return fmt.Sprintf("%s/%d", text, c.RestartCount)
}

// desired returns the pods that the sources have, by UID. A pod that waits for its UID must wait for another source.
func (g *engine) desired(report func(format string, args ...any)) map[string]*journaletv1.SourcePod {
	all := map[string]*journaletv1.SourcePod{}
	waiting := map[string]string{}
	for _, name := range allSources {
		for uid, p := range g.source(name).GetPods() {
			switch {
			case p.GetStage() == journaletv1.SourcePodStage_SOURCE_POD_STAGE_REQUESTING_UID:
				waiting[uid] = name
			case all[uid] != nil:
				report("two sources have added pod/%s", g.names.aliasOf(uid))
			default:
				all[uid] = p
			}
		}
	}
	for uid, name := range waiting {
		if all[uid] == nil {
			report("pod/%s waits for its UID, which only source/%s requested", g.names.aliasOf(uid), name)
		}
	}
	return all
}

// restorable stores and restores every state, as a snapshot does, and compares the two.
func (g *engine) restorable() error {
	refs := []messages.Ref{messages.Runtime, messages.Node, messages.Image}
	for _, name := range allSources {
		if g.source(name) != nil {
			refs = append(refs, messages.Source(name))
		}
	}
	for _, uid := range g.names.uids {
		if g.pod(uid) != nil {
			refs = append(refs, messages.Pod(uid))
		}
	}
	for _, ref := range refs {
		live, again := g.core.Decider(ref), fold.AllDeciders(ref)
		stored, err := proto.Marshal(live.State())
		if err == nil {
			err = again.Restore(stored)
		}
		if err == nil && !proto.Equal(live.State(), again.State()) {
			err = errors.New("the restored state differs")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", g.names.ref(ref), err)
		}
		for _, digest := range again.Digests() {
			if _, err := g.names.manifest(digest); err != nil {
				return fmt.Errorf("%s: %s: %w", g.names.ref(ref), digest, err)
			}
		}
	}
	return nil
}

// repeatObservations repeats an observation that was the last fact, and sends each pod an older one late: neither may
// change anything.
func (g *engine) repeatObservations() error {
	for _, uid := range g.world.uids() {
		last := g.world.observed[uid]
		if last == nil || g.pod(uid) == nil || g.pod(uid).Pod().GetObserved() != last {
			continue
		}
		earlier := last.GetObservedAt().AsTime().Add(-time.Nanosecond)
		late := &journaletv1.PodObserved{Uid: uid, ObservedAt: timestamppb.New(earlier)}
		for what, o := range map[string]*journaletv1.PodObserved{"repeated": last, "late": late} {
			if what == "repeated" && !g.justObserved(last) {
				continue
			}
			f, err := g.fork(len(g.core.Records()), g.world, nil, false)
			if err != nil {
				return err
			}
			// No time passes, so that nothing else becomes due.
			before := len(f.core.Records())
			f.now = lastTime(f.core.Records(), messages.Pod(uid))
			if err := f.put(messages.Pod(uid), messages.NewEvent(o)); err != nil {
				return err
			}
			if after := f.core.Records()[before+1:]; len(after) > 0 {
				decisions := strings.Join(g.names.lines(after[0]), "; ")
				return fmt.Errorf("a %s observation of pod/%s led to decisions: %s", what, g.names.aliasOf(uid), decisions)
			}
		}
	}
	return nil
}

// justObserved reports whether an observation is the last fact of the journal.
func (g *engine) justObserved(o *journaletv1.PodObserved) bool {
	records := g.core.Records()
	for i := len(records) - 1; i >= 0; i-- {
		if fact := records[i].GetFact(); fact != nil {
			return fact.GetPodObserved() == o
		}
	}
	return false
}

// lastTime returns the time of an actor's last record.
func lastTime(records []*journaletv1.Record, about messages.Ref) time.Time {
	for i := len(records) - 1; i >= 0; i-- {
		if messages.RefOf(records[i].GetActor()) == about {
			return records[i].GetTime().AsTime()
		}
	}
	return begin
}
