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

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/host"
)

// end is where a history comes to if nothing more goes wrong: every pod's status without times.
func (g *engine) end() (string, error) {
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

// unsatisfied tells what is not as it should be once everything has come to rest.
func (g *engine) unsatisfied() error {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	wrong = append(wrong, g.world.sins...)
	if n := len(g.runtime().GetCalls()); n > 0 {
		say("%d calls are left in the runtime actor's books", n)
	}
	if s := g.image(); len(s.GetPulls())+len(s.GetIntents()) > 0 {
		say("the image actor keeps pulls: %v", s)
	}
	wanted := g.wanted(say)
	for _, uid := range g.names.uids {
		a, name := g.pod(uid), g.names.of(uid)
		switch {
		case wanted[uid] == nil && a != nil:
			say("pod/%s is wanted by nobody and still there: %s", name, a.Pod().GetStage())
		case wanted[uid] != nil && a == nil:
			say("pod/%s is wanted and has no actor", name)
		case a != nil:
			g.judge(a, name, say)
		}
	}
	for _, uid := range g.world.uids() {
		g.judgeWorld(uid, wanted[uid] != nil, say)
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "\n"))
}

// judge tells what is wrong with a wanted pod that has come to rest.
func (g *engine) judge(a *pod.Actor, name string, say func(string, ...any)) {
	s := a.Pod()
	if len(s.GetCalls()) > 0 {
		say("pod/%s waits for %d calls that nobody makes", name, len(s.GetCalls()))
	}
	if n := len(s.GetTimers().GetSet()); n > 0 {
		say("pod/%s has %d timers that nobody fires", name, n)
	}
	v := a.View(pod.Node{RuntimeName: "fake"})
	switch s.GetStage() {
	case journaletv1.PodStage_POD_STAGE_TERMINATED:
		if v.Status.Phase != corev1.PodSucceeded && v.Status.Phase != corev1.PodFailed {
			say("pod/%s has terminated with phase %s", name, v.Status.Phase)
		}
	case journaletv1.PodStage_POD_STAGE_RUNNING:
		if v.Status.Phase != corev1.PodRunning && !waitsForShare(v) {
			say("pod/%s runs with phase %s", name, v.Status.Phase)
		}
		ended := 0
		for _, c := range slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses) {
			if c.State.Waiting != nil && !waitsForShare(v) {
				say("pod/%s: container %s waits for nothing: %s", name, c.Name, c.State.Waiting.Reason)
			}
			if c.State.Running != nil && !c.Ready {
				say("pod/%s: container %s runs and is not ready", name, c.Name)
			}
		}
		for _, c := range v.Status.ContainerStatuses {
			if c.State.Terminated != nil {
				ended++
			}
		}
		if ended == len(v.Status.ContainerStatuses) {
			say("pod/%s: its main containers have ended, and it goes on", name)
		}
	case journaletv1.PodStage_POD_STAGE_ADMITTING:
		// Within one source there is one pod of a name.
		if holder := g.pod(s.GetHolderUid()); holder == nil || holder.Pod().GetSource() == s.GetSource() {
			say("pod/%s waits for a name that it could have", name)
		}
	default:
		say("pod/%s is stuck in %s", name, s.GetStage())
	}
}

// judgeWorld compares what is on the node with what should be.
func (g *engine) judgeWorld(uid string, wanted bool, say func(string, ...any)) {
	o, name := g.world.of(uid), g.names.of(uid)
	if !wanted && len(o.sandboxes)+len(o.containers) > 0 {
		say("pod/%s left %d sandboxes and %d containers on the node", name, len(o.sandboxes), len(o.containers))
	}
	ready := 0
	for _, x := range o.sandboxes {
		if x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY {
			ready++
		}
	}
	if ready > 1 {
		say("pod/%s has %d ready sandboxes", name, ready)
	}
	a := g.pod(uid)
	if !wanted || a == nil {
		return
	}
	over := a.Pod().GetStage() == journaletv1.PodStage_POD_STAGE_TERMINATED
	if over && ready > 0 {
		say("pod/%s has ended and keeps a ready sandbox", name)
	}
	dead := map[string]int{}
	for _, c := range o.containers {
		if alive(c) && (over || a.Manifest() == nil) {
			say("pod/%s has ended and container %s runs", name, c.GetId())
		}
		if !alive(c) {
			dead[c.GetName()]++
		}
		g.judgeSize(a, c, say)
	}
	for _, c := range slices.Sorted(maps.Keys(dead)) {
		// The newest dead instance is kept, and beside a dead current one the one before it.
		if dead[c] > 2 {
			say("pod/%s keeps %d dead instances of %s", name, dead[c], c)
		}
	}
}

// summary is every pod's status without times.
func (g *engine) summary() string {
	var out []string
	for _, uid := range g.names.uids {
		if a := g.pod(uid); a != nil {
			out = append(out, g.names.of(uid)+" "+statusLine(a.View(pod.Node{RuntimeName: "fake"})))
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
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
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

// wanted are the pods that the sources have, by UID. One that waits for its UID must wait for another source.
func (g *engine) wanted(say func(format string, args ...any)) map[string]*journaletv1.SourcePod {
	all := map[string]*journaletv1.SourcePod{}
	asks := map[string]string{}
	for _, name := range allSources {
		for uid, p := range g.source(name).GetPods() {
			switch {
			case p.GetStage() == journaletv1.SourcePodStage_SOURCE_POD_STAGE_REQUESTING_UID:
				asks[uid] = name
			case all[uid] != nil:
				say("pod/%s is of two sources at once", g.names.of(uid))
			default:
				all[uid] = p
			}
		}
	}
	for uid, name := range asks {
		if all[uid] == nil {
			say("pod/%s waits for its UID, which nobody but source/%s wants", g.names.of(uid), name)
		}
	}
	return all
}

// restorable takes every state through its stored form, as a snapshot does.
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
		live, again := g.core.Decider(ref), host.AllDeciders(ref)
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

// repeats tells the observation that was the last thing to happen again, and every pod's older ones late: neither may
// change anything.
func (g *engine) repeats() error {
	for _, uid := range g.world.uids() {
		told := g.world.told[uid]
		if told == nil || g.pod(uid) == nil || g.pod(uid).Pod().GetObserved() != told {
			continue
		}
		late := &journaletv1.PodObserved{Uid: uid, ObservedAt: timestamppb.New(told.GetObservedAt().AsTime().Add(-time.Nanosecond))}
		for what, o := range map[string]*journaletv1.PodObserved{"again": told, "late": late} {
			if what == "again" && !g.justSeen(told) {
				continue
			}
			f, err := g.fork(len(g.core.Records()), g.world, nil, false)
			if err != nil {
				return err
			}
			// No time passes, so that nothing else becomes due.
			before := len(f.core.Records())
			f.now = lastTime(f.core.Records(), messages.Pod(uid))
			if err := f.put(messages.Pod(uid), observed(o)); err != nil {
				return err
			}
			if after := f.core.Records()[before+1:]; len(after) > 0 {
				return fmt.Errorf("an observation of pod/%s, told %s, was decided upon: %s", g.names.of(uid), what, strings.Join(g.names.lines(after[0]), "; "))
			}
		}
	}
	return nil
}

// justSeen tells whether nothing but decisions followed an observation.
func (g *engine) justSeen(o *journaletv1.PodObserved) bool {
	records := g.core.Records()
	for i := len(records) - 1; i >= 0; i-- {
		if fact := records[i].GetFact(); fact != nil {
			return fact.GetPodObserved() == o
		}
	}
	return false
}

// lastTime is when something was last recorded of an actor.
func lastTime(records []*journaletv1.Record, about messages.Ref) time.Time {
	for i := len(records) - 1; i >= 0; i-- {
		if messages.RefOf(records[i].GetActor()) == about {
			return records[i].GetTime().AsTime()
		}
	}
	return begin
}
