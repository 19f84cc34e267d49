package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/dispatch"
	"github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/host"
)

// maxMoves bounds how many things may happen before a world without faults comes to rest.
const maxMoves = 2000

// engine is an agent's core in a world: it plays the drivers, one thing after the other.
type engine struct {
	core  *host.Core
	world *world
	names *names
	// now is the time of day; uptime never goes back.
	now    time.Time
	uptime time.Duration
	epoch  uint64
	armed  map[timerKey]armedTimer
	probed map[place]probing
	// taken is how many records the drivers have taken note of.
	taken int
}

type timerKey struct {
	ref  messages.Ref
	name string
}

type armedTimer struct {
	generation uint64
	due        time.Duration // by uptime
}

// names are what a story calls things by, and the manifests that digests name.
type names struct {
	manifests map[string]*corev1.Pod
	alias     map[string]string // UID to alias
	uids      []string          // in order of appearance
	intents   map[string]*journaletv1.CallRequested
}

func (n *names) manifest(digest string) (*corev1.Pod, error) {
	if m := n.manifests[digest]; m != nil {
		return m, nil
	}
	return nil, errors.New("no such manifest")
}

func (n *names) of(uid string) string { return cmp.Or(n.alias[uid], uid) }

// put records a fact and lets the drivers take note of all that follows from it.
func (g *engine) put(about messages.Ref, e *journaletv1.Event) error {
	err := g.core.Put(g.now, about, e)
	g.absorb()
	return err
}

// absorb takes note of new records as the timer driver and the PLEG do.
func (g *engine) absorb() {
	for _, rec := range g.core.Records()[g.taken:] {
		g.noteProbes(rec)
		ref := messages.RefOf(rec.GetActor())
		for i, e := range rec.GetStep().GetDecisions() {
			switch k := e.GetKind().(type) {
			case *journaletv1.Event_CallRequested:
				g.names.intents[messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), ref, i)] = k.CallRequested
			case *journaletv1.Event_TimerSet:
				g.arm(ref, k.TimerSet.GetName(), k.TimerSet.GetGeneration(), rec.GetTime().AsTime(), k.TimerSet.GetDuration().AsDuration())
			case *journaletv1.Event_TimerCleared:
				delete(g.armed, timerKey{ref, k.TimerCleared.GetName()})
			case *journaletv1.Event_PodForgotten:
				gone := messages.Pod(k.PodForgotten.GetUid())
				maps.DeleteFunc(g.armed, func(k timerKey, _ armedTimer) bool { return k.ref == gone })
				delete(g.world.told, k.PodForgotten.GetUid())
				delete(g.world.owed, k.PodForgotten.GetUid())
			}
		}
	}
	g.taken = len(g.core.Records())
}

func (g *engine) arm(ref messages.Ref, name string, generation uint64, from time.Time, after time.Duration) {
	left := min(max(from.Add(after).Sub(g.now), 0), after)
	g.armed[timerKey{ref, name}] = armedTimer{generation, g.uptime + left}
}

// pass lets time go by, without firing anything.
func (g *engine) pass(d time.Duration) {
	g.now, g.uptime = g.now.Add(d), g.uptime+d
}

// fire fires the next timer that is due by uptime end; false if there is none.
func (g *engine) fire(end time.Duration) (bool, error) {
	keys := slices.SortedFunc(maps.Keys(g.armed), func(a, b timerKey) int {
		return cmp.Or(cmp.Compare(g.armed[a].due, g.armed[b].due), cmp.Compare(a.ref.String(), b.ref.String()), cmp.Compare(a.name, b.name))
	})
	if len(keys) == 0 || g.armed[keys[0]].due > end {
		return false, nil
	}
	k, t := keys[0], g.armed[keys[0]]
	delete(g.armed, k)
	g.pass(max(0, t.due-g.uptime))
	return true, g.put(k.ref, &journaletv1.Event{Kind: &journaletv1.Event_TimerFired{
		TimerFired: &journaletv1.TimerFired{Name: k.name, Generation: t.generation},
	}})
}

func (g *engine) runtime() *journaletv1.RuntimeState {
	return g.core.Decider(messages.Runtime).(*dispatch.Actor).Runtime()
}

// source is a source's state, nil if it was never read.
func (g *engine) source(name string) *journaletv1.SourceState {
	if a, ok := g.core.Decider(messages.Source(name)).(*source.Actor); ok {
		return a.Source()
	}
	return nil
}

// allSources are the names of all sources there are.
var allSources = []string{messages.FileSource, messages.HTTPSource}

// readSources reads the next configured source that was never read as a whole: it holds what it is known to hold.
func (g *engine) readSources() (bool, error) {
	for _, name := range allSources {
		configured := g.core.Decider(messages.Node).(*node.Actor).Node().GetConfig().GetSources()
		if slices.Contains(configured, name) {
			if !g.source(name).GetSynced() {
				return true, g.put(messages.Source(name), &journaletv1.Event{Kind: &journaletv1.Event_ManifestsRead{
					ManifestsRead: &journaletv1.ManifestsRead{Source: name, Synced: true},
				}})
			}
		}
	}
	return false, nil
}

func (g *engine) image() *journaletv1.ImageState {
	return g.core.Decider(messages.Image).(*image.Actor).State().(*journaletv1.ImageState)
}

// pod is a pod's actor, nil if there is none.
func (g *engine) pod(uid string) *pod.Actor {
	a, _ := g.core.Decider(messages.Pod(uid)).(*pod.Actor)
	return a
}

// dispatched lists the calls that this run's driver has, in order of arrival.
func (g *engine) dispatched() []*journaletv1.Call {
	var calls []*journaletv1.Call
	for _, c := range g.runtime().GetCalls() {
		if c.GetStage() == journaletv1.CallStage_CALL_STAGE_DISPATCHED && !c.GetInDoubt() {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(a, b *journaletv1.Call) int { return cmp.Compare(a.GetArrival(), b.GetArrival()) })
	return calls
}

// perform does a call's work in the world; the outcome is not told yet.
func (g *engine) perform(c *journaletv1.Call) *journaletv1.CallFinished {
	uid := c.GetRequest().GetPodUid()
	if c.GetWithdrawn() {
		// The driver cuts it short.
		return &journaletv1.CallFinished{
			IntentId: c.GetIntentId(), Requester: c.GetRequester(), Error: journaletv1.CallError_CALL_ERROR_WITHDRAWN, Message: "cut short",
		}
	}
	var m *corev1.Pod
	if start := c.GetRequest().GetStartContainer(); start != nil {
		m = resources.Allocated(g.names.manifests[start.GetDigest()], g.names.manifests[start.GetAllocatedDigest()])
		g.world.of(uid).expect(g.dispatched(), start, uid)
	}
	out := g.world.perform(g.names.of(uid), c.GetIntentId(), c.GetRequest(), m, g.now)
	out.Requester = c.GetRequester()
	return out
}

func (g *engine) finish(out *journaletv1.CallFinished) error {
	about, err := messages.ParseRef(out.GetRequester())
	if err != nil {
		return err
	}
	if req := g.names.intents[out.GetIntentId()]; req.GetStartContainer() != nil {
		g.world.owed[req.GetPodUid()] = true
	}
	out.EndedAt = timestamppb.New(g.world.stamp(g.now))
	return g.put(about, &journaletv1.Event{Kind: &journaletv1.Event_CallFinished{CallFinished: out}})
}

// look looks at a pod and tells what is new; false if nothing is.
func (g *engine) look(uid string) (bool, error) {
	seen := g.world.look(uid, g.now)
	if seen == nil {
		return false, nil
	}
	g.world.told[uid] = seen
	return true, g.put(messages.Pod(uid), observed(seen))
}

func observed(o *journaletv1.PodObserved) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_PodObserved{PodObserved: o}}
}

func (g *engine) health(runtimeReady, networkReady bool) error {
	return g.put(messages.Runtime, &journaletv1.Event{Kind: &journaletv1.Event_RuntimeHealthChanged{
		RuntimeHealthChanged: &journaletv1.RuntimeHealthChanged{RuntimeReady: runtimeReady, NetworkReady: networkReady},
	}})
}

// converge lets a world without faults play on until nothing is left to happen.
func (g *engine) converge() error {
	if h := g.runtime().GetHealth(); !h.GetRuntimeReady() || !h.GetNetworkReady() {
		if err := g.health(true, true); err != nil {
			return err
		}
	}
	for range maxMoves {
		moved, err := g.move()
		if err != nil || !moved {
			return err
		}
	}
	var last []string
	for _, rec := range g.core.Records()[len(g.core.Records())-12:] {
		last = append(last, g.names.lines(rec)...)
	}
	return fmt.Errorf("no rest after %d moves; the last decisions were\n%s", maxMoves, strings.Join(last, "\n"))
}

// move makes one thing happen: an outcome, else a look, else the success of a probe, else the reading of a source, else the
// end of an init container's work, else a timer.
func (g *engine) move() (bool, error) {
	if calls := g.dispatched(); len(calls) > 0 {
		return true, g.finish(g.perform(calls[0]))
	}
	for _, uid := range g.world.uids() {
		if told, err := g.look(uid); told || err != nil {
			return true, err
		}
	}
	if told, err := g.succeed(); told || err != nil {
		return true, err
	}
	if told, err := g.readSources(); told || err != nil {
		return true, err
	}
	if g.world.endInit(g.now) {
		return true, nil
	}
	return g.fire(1 << 62)
}

// fork is another run of the same history up to record last, in a world and at a time of its own. With started it is
// one of a new run after a crash, else the same run going on.
func (g *engine) fork(last int, w *world, started *journaletv1.AgentStarted, ahead bool) (*engine, error) {
	f := &engine{
		world: w.clone(), names: g.names, now: g.now, uptime: g.uptime, epoch: g.epoch, armed: maps.Clone(g.armed),
		probed: maps.Clone(g.probed), taken: last,
	}
	if started != nil {
		f.epoch++
		f.world.stamped = time.Time{}
	}
	f.core = host.RecoverCore(host.AllDeciders, g.names.manifest, f.epoch, g.core.Records()[:last])
	if started != nil {
		started = proto.CloneOf(started)
		started.Epoch = f.epoch
		f.reseed(ahead)
	}
	err := f.core.Resume(f.now, started)
	f.absorb()
	return f, err
}

// reseedLook gives the PLEG what the journal knows of a pod: what its state holds, and what is in the journal and in no
// state yet. Where that is not certain the next look is told.
func (g *engine) reseedLook(uid string, a *pod.Actor) {
	last, certain := a.Pod().GetObserved(), a.Observed()
	for _, rec := range g.open(messages.Pod(uid)) {
		if o := rec.GetFact().GetPodObserved(); o != nil {
			last = o
		}
		certain = certain && rec.GetFact().GetCallFinished() == nil
	}
	switch {
	case !certain:
		g.world.owed[uid] = true
	case last != nil:
		g.world.told[uid] = last
	}
}

// open are the facts about an actor that it has no step for yet, in order.
func (g *engine) open(ref messages.Ref) []*journaletv1.Record {
	var facts []*journaletv1.Record
	for _, rec := range g.core.Records() {
		if messages.RefOf(rec.GetActor()) == ref {
			if rec.GetFact() != nil {
				facts = append(facts, rec)
			}
			if step := rec.GetStep(); step != nil {
				facts = slices.DeleteFunc(facts, func(f *journaletv1.Record) bool { return f.GetSeq() <= step.GetCause() })
			}
		}
		for _, e := range rec.GetStep().GetDecisions() {
			if messages.Pod(e.GetPodForgotten().GetUid()) == ref {
				facts = nil
			}
		}
	}
	return facts
}

// reseed gives the drivers what the journal knows, as at a start. With ahead, calls under way at the crash had been
// made by then.
func (g *engine) reseed(ahead bool) {
	g.armed = map[timerKey]armedTimer{}
	g.reseedProbes()
	clear(g.world.told)
	clear(g.world.owed)
	refs := []messages.Ref{messages.Image}
	for _, uid := range g.names.uids {
		if a := g.pod(uid); a != nil {
			refs = append(refs, messages.Pod(uid))
			g.reseedLook(uid, a)
		}
	}
	for _, ref := range refs {
		for _, t := range g.core.Decider(ref).Timers().GetSet() {
			g.arm(ref, t.GetName(), t.GetGeneration(), t.GetSetAt().AsTime(), t.GetDuration().AsDuration())
		}
	}
	if !ahead {
		return
	}
	// The runtime actor may not have folded an outcome that is in the journal.
	finished := map[string]bool{}
	for _, rec := range g.core.Records() {
		finished[rec.GetFact().GetCallFinished().GetIntentId()] = true
	}
	for _, c := range g.dispatched() {
		if !finished[c.GetIntentId()] {
			g.perform(c)
		}
	}
}
