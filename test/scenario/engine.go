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
	"github.com/journalet/journalet/runtime/fold"
)

// maxSteps bounds the steps of a world without faults until nothing is left to happen.
const maxSteps = 2000

// engine is an agent's core in a world: it plays the drivers, one step after the other.
type engine struct {
	core  *fold.Core
	world *world
	names *names
	// now is the time of day, which may be set back; uptime only grows.
	now    time.Time
	uptime time.Duration
	epoch  uint64
	armed  map[timerKey]armedTimer
	probed map[place]probing
	// absorbed is how many records the drivers have processed.
	absorbed int
}

type timerKey struct {
	ref  messages.Ref
	name string
}

type armedTimer struct {
	generation uint64
	due        time.Duration // by uptime
}

// names are the scenario's names for pods, and the manifests by digest.
type names struct {
	manifests map[string]*corev1.Pod
	canonical map[string][]byte // manifests as they are stored, by digest
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

func (n *names) aliasOf(uid string) string { return cmp.Or(n.alias[uid], uid) }

// put records a fact, and has the drivers process every record that follows from it.
func (g *engine) put(about messages.Ref, e *journaletv1.Event) error {
	err := g.core.Put(g.now, about, e)
	g.absorb()
	return err
}

// absorb processes new records as the timer driver, the probe driver and the PLEG do.
func (g *engine) absorb() {
	for _, rec := range g.core.Records()[g.absorbed:] {
		g.foldProbes(rec)
		ref := messages.RefOf(rec.GetActor())
		for i, e := range rec.GetStep().GetDecisions() {
			switch k := e.GetKind().(type) {
			case *journaletv1.Event_CallRequested:
				g.names.intents[messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), ref, i)] = k.CallRequested
			case *journaletv1.Event_TimerSet:
				t := k.TimerSet
				g.arm(ref, t.GetName(), t.GetGeneration(), rec.GetTime().AsTime(), t.GetDuration().AsDuration())
			case *journaletv1.Event_TimerCleared:
				delete(g.armed, timerKey{ref, k.TimerCleared.GetName()})
			case *journaletv1.Event_PodForgotten:
				gone := messages.Pod(k.PodForgotten.GetUid())
				maps.DeleteFunc(g.armed, func(k timerKey, _ armedTimer) bool { return k.ref == gone })
				delete(g.world.observed, k.PodForgotten.GetUid())
				delete(g.world.expected, k.PodForgotten.GetUid())
			}
		}
	}
	g.absorbed = len(g.core.Records())
}

func (g *engine) arm(ref messages.Ref, name string, generation uint64, from time.Time, after time.Duration) {
	left := min(max(from.Add(after).Sub(g.now), 0), after)
	g.armed[timerKey{ref, name}] = armedTimer{generation, g.uptime + left}
}

// pass lets time pass, without firing a timer.
func (g *engine) pass(d time.Duration) {
	g.now, g.uptime = g.now.Add(d), g.uptime+d
}

// fire fires the next timer that is due by uptime end. It returns false if no timer is due.
func (g *engine) fire(end time.Duration) (bool, error) {
	keys := slices.SortedFunc(maps.Keys(g.armed), func(a, b timerKey) int {
		due := cmp.Compare(g.armed[a].due, g.armed[b].due)
		return cmp.Or(due, cmp.Compare(a.ref.String(), b.ref.String()), cmp.Compare(a.name, b.name))
	})
	if len(keys) == 0 || g.armed[keys[0]].due > end {
		return false, nil
	}
	k, t := keys[0], g.armed[keys[0]]
	delete(g.armed, k)
	g.pass(max(0, t.due-g.uptime))
	return true, g.put(k.ref, messages.NewEvent(&journaletv1.TimerFired{Name: k.name, Generation: t.generation}))
}

func (g *engine) runtime() *journaletv1.RuntimeState {
	return g.core.Decider(messages.Runtime).(*dispatch.Actor).Runtime()
}

// source returns a source's state; nil if it was never read.
func (g *engine) source(name string) *journaletv1.SourceState {
	if a, ok := g.core.Decider(messages.Source(name)).(*source.Actor); ok {
		return a.Source()
	}
	return nil
}

// allSources are the names of all kinds of sources.
var allSources = []string{messages.FileSource, messages.HTTPSource, messages.APISource}

// readSources completes the first read of the next configured source that is not synced. Its content is what was read
// of it so far.
func (g *engine) readSources() (bool, error) {
	for _, name := range allSources {
		configured := g.core.Decider(messages.Node).(*node.Actor).Node().GetConfig().GetSources()
		if slices.Contains(configured, name) && !g.source(name).GetSynced() {
			read := &journaletv1.ManifestsRead{Source: name, Synced: true, HeldNamesStay: true, HeldContentsStay: true}
			return true, g.put(messages.Source(name), messages.NewEvent(read))
		}
	}
	return false, nil
}

func (g *engine) image() *journaletv1.ImageState {
	return g.core.Decider(messages.Image).(*image.Actor).State().(*journaletv1.ImageState)
}

// pod returns a pod's actor; nil for none.
func (g *engine) pod(uid string) *pod.Actor {
	a, _ := g.core.Decider(messages.Pod(uid)).(*pod.Actor)
	return a
}

// dispatched returns the calls that this run's driver has, in order of arrival.
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

// perform carries out a call in the world. The caller records the outcome.
func (g *engine) perform(c *journaletv1.Call) *journaletv1.CallFinished {
	uid := c.GetRequest().GetPodUid()
	if c.GetWithdrawn() {
		// The driver cuts it short.
		return &journaletv1.CallFinished{
			IntentId: c.GetIntentId(), Requester: c.GetRequester(),
			Error: journaletv1.CallError_CALL_ERROR_WITHDRAWN, Message: "cut short",
		}
	}
	var m *corev1.Pod
	if start := c.GetRequest().GetStartContainer(); start != nil {
		m = resources.Allocated(g.names.manifests[start.GetDigest()], g.names.manifests[start.GetAllocatedDigest()])
		g.world.objectsOf(uid).noteStarting(g.dispatched(), start, uid)
	}
	if setUp := c.GetRequest().GetSetUpVolumes(); setUp != nil {
		m = g.names.manifests[setUp.GetDigest()]
	}
	if read := c.GetRequest().GetReadClaims(); read != nil {
		m = g.names.manifests[read.GetDigest()]
	}
	if run := c.GetRequest().GetRunSandbox(); run != nil {
		m = resources.Allocated(g.names.manifests[run.GetDigest()], g.names.manifests[run.GetAllocatedDigest()])
	}
	out := g.world.perform(g.names.aliasOf(uid), c.GetIntentId(), c.GetRequest(), m, g.now)
	out.Requester = c.GetRequester()
	return out
}

func (g *engine) finish(out *journaletv1.CallFinished) error {
	about, err := messages.ParseRef(out.GetRequester())
	if err != nil {
		return err
	}
	if req := g.names.intents[out.GetIntentId()]; req.GetStartContainer() != nil {
		g.world.expected[req.GetPodUid()] = true
	}
	out.EndedAt = timestamppb.New(g.world.stamp(g.now))
	return g.put(about, messages.NewEvent(out))
}

// inspect inspects a pod and records the observation. It returns false if nothing has changed.
func (g *engine) inspect(uid string) (bool, error) {
	o := g.world.inspect(uid, g.now)
	if o == nil {
		return false, nil
	}
	g.world.observed[uid] = o
	return true, g.put(messages.Pod(uid), messages.NewEvent(o))
}

func (g *engine) health(runtimeReady, networkReady bool) error {
	return g.put(messages.Runtime, healthEvent(runtimeReady, networkReady))
}

// converge plays a world without faults until nothing is left to happen.
func (g *engine) converge() error {
	if h := g.runtime().GetHealth(); !h.GetRuntimeReady() || !h.GetNetworkReady() {
		if err := g.health(true, true); err != nil {
			return err
		}
	}
	for range maxSteps {
		moved, err := g.step()
		if err != nil || !moved {
			return err
		}
	}
	var last []string
	for _, rec := range g.core.Records()[len(g.core.Records())-12:] {
		last = append(last, g.names.lines(rec)...)
	}
	text := strings.Join(last, "\n")
	return fmt.Errorf("after %d steps something still happens; the last decisions were\n%s", maxSteps, text)
}

// step takes one step: the outcome of a call, else an observation, else what the store has, else a probe's success,
// else the API server's answer, else a device plugin's, else the read of a source, else the exit of an init container,
// else a timer. It returns false if nothing is left to happen.
func (g *engine) step() (bool, error) {
	if calls := g.dispatched(); len(calls) > 0 {
		return true, g.finish(g.perform(calls[0]))
	}
	for _, uid := range g.world.uids() {
		if changed, err := g.inspect(uid); changed || err != nil {
			return true, err
		}
	}
	for _, uid := range g.names.uids {
		if changed, err := g.reportObjects(uid); changed || err != nil {
			return true, err
		}
	}
	if changed, err := g.succeedProbe(); changed || err != nil {
		return true, err
	}
	if changed, err := g.answerAsAPI(); changed || err != nil {
		return true, err
	}
	if changed, err := g.serveNode(); changed || err != nil {
		return true, err
	}
	if changed, err := g.serveDevices(); changed || err != nil {
		return true, err
	}
	if changed, err := g.readSources(); changed || err != nil {
		return true, err
	}
	if g.world.endInit(g.now) {
		return true, nil
	}
	return g.fire(1 << 62)
}

// fork returns an engine with the same history up to record last, in a copy of w. With started it is a new run after a
// crash, else the same run continues.
func (g *engine) fork(last int, w *world, started *journaletv1.AgentStarted, ahead bool) (*engine, error) {
	f := &engine{
		world: w.clone(), names: g.names, now: g.now, uptime: g.uptime, epoch: g.epoch, armed: maps.Clone(g.armed),
		probed: maps.Clone(g.probed), absorbed: last,
	}
	if started != nil {
		f.epoch++
		f.world.stamped = time.Time{}
	}
	f.core = fold.RecoverCore(fold.AllDeciders, g.names.manifest, f.epoch, g.core.Records()[:last])
	if started != nil {
		started = proto.CloneOf(started)
		started.Epoch = f.epoch
		f.reseed(ahead)
	}
	err := f.core.Resume(f.now, started)
	f.absorb()
	return f, err
}

// reseedObservation gives the PLEG a pod's last observation, from its state and from the facts that are in no state
// yet. If it is uncertain, the next observation is recorded whatever it shows.
func (g *engine) reseedObservation(uid string, a *pod.Actor) {
	last, certain := a.Pod().GetObserved(), a.Observed()
	for _, rec := range g.unhandled(messages.Pod(uid)) {
		if o := rec.GetFact().GetPodObserved(); o != nil {
			last = o
		}
		certain = certain && rec.GetFact().GetCallFinished() == nil
	}
	switch {
	case !certain:
		g.world.expected[uid] = true
	case last != nil:
		g.world.observed[uid] = last
	}
}

// unhandled returns the facts about an actor that it has not handled yet, in order.
func (g *engine) unhandled(ref messages.Ref) []*journaletv1.Record {
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

// reseed gives the drivers what they knew at the end of the last run, as at a start. With ahead, the calls that were
// under way at the crash took place before it.
func (g *engine) reseed(ahead bool) {
	g.armed = map[timerKey]armedTimer{}
	g.reseedProbes()
	clear(g.world.observed)
	clear(g.world.expected)
	refs := []messages.Ref{messages.Image, messages.Node}
	for _, uid := range g.names.uids {
		if a := g.pod(uid); a != nil {
			refs = append(refs, messages.Pod(uid))
			g.reseedObservation(uid, a)
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
	// An outcome may be in the journal that the dispatcher has not folded yet.
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
