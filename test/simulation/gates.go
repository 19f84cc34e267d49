package simulation

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/pod/gate"
)

// conditions is what stands in the file of conditions in a pod's folder; nil: no file.
type conditions struct {
	broken bool
	said   map[string]string
}

// gateTypes are the conditions that readiness gates may name.
var gateTypes = []string{"example.com/lb", "example.com/warm"}

// say writes a pod's file of conditions, or removes it, for whoever looks at it.
func (w *world) say(uid string, c *conditions) {
	if w.said[uid] = c; c == nil {
		delete(w.said, uid)
	}
	w.saidChanged(uid)
}

// otherConditions has somebody say something else of a pod's conditions: a new file, a broken one, or none.
func (s *sim) otherConditions(o Op) {
	if s.agent == nil || len(s.agent.gates.pods) == 0 {
		return
	}
	uids := slices.Sorted(maps.Keys(s.agent.gates.pods))
	uid := uids[o.pick%uint64(len(uids))]
	r := stream(s.seed, "conditions", uid, o.String())
	c := &conditions{said: map[string]string{}}
	for _, kind := range gateTypes {
		if status := pick(r, "True", "True", "True", "False", "Unknown", ""); status != "" {
			c.said[kind] = status
		}
	}
	switch r.IntN(6) {
	case 0:
		c = nil
	case 1:
		c.broken = true
	}
	s.world.say(uid, c)
}

// mendConditions removes the files that cannot be read.
func (w *world) mendConditions() {
	for _, uid := range slices.Sorted(maps.Keys(w.said)) {
		if w.said[uid].broken {
			w.say(uid, nil)
		}
	}
}

// gates stands for runtime/pod/gate: it looks at the files of pods with readiness gates once a second, and tells what is new. A look that
// would find nothing new is left out.
type gates struct {
	run   *run
	noise *rand.Rand
	pods  map[string]*gated
}

type gated struct {
	types []string
	told  map[string]string
	// untold, as in runtime/pod/gate: the next reading is told whatever it says.
	untold bool
	due    bool
}

func newGates(r *run) *gates {
	return &gates{run: r, noise: stream(r.seed, "gates", r.name()), pods: map[string]*gated{}}
}

func (g *gates) seed(uid string, types []string, said []*journaletv1.ReadinessGateCondition) {
	g.set(uid, types)
	if len(types) > 0 {
		g.seedOpen(&journaletv1.ReadinessGatesRead{Uid: uid, Conditions: said})
	} else if len(said) > 0 {
		g.pods[uid] = &gated{untold: true}
	}
}

func (g *gates) seedOpen(r *journaletv1.ReadinessGatesRead) {
	if p := g.pods[r.GetUid()]; p != nil {
		p.told = map[string]string{}
		for _, c := range r.GetConditions() {
			p.told[c.GetType()] = c.GetStatus()
		}
	}
}

func (g *gates) stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		if k := e.GetReadinessGatesSet(); k != nil {
			g.set(rec.GetActor().GetId(), k.GetTypes())
		}
		delete(g.pods, e.GetPodForgotten().GetUid())
		delete(g.pods, e.GetPodFinished().GetUid())
	}
}

func (g *gates) set(uid string, types []string) {
	old := g.pods[uid]
	if len(types) == 0 {
		if old != nil {
			g.pods[uid] = &gated{untold: true}
		}
		return
	}
	p := &gated{types: types}
	if old != nil {
		p.told, p.untold = old.told, old.untold
	}
	g.pods[uid] = p
	g.look(uid, p, 0)
}

// changed is called when a file has changed: the next look of the period finds it.
func (g *gates) changed(uid string) {
	if p := g.pods[uid]; p != nil && len(p.types) > 0 {
		g.look(uid, p, between(g.noise, 0, gate.Period))
	}
}

func (g *gates) look(uid string, p *gated, in time.Duration) {
	if p.due {
		return
	}
	p.due = true
	g.run.clock.start(g.run.life, func(q *proc) {
		q.sleep(in)
		if p.due = false; g.pods[uid] == p {
			g.read(q, uid, p)
		}
	})
}

func (g *gates) read(q *proc, uid string, p *gated) {
	file := g.run.world.said[uid]
	if file != nil && file.broken {
		return
	}
	now := map[string]string{}
	fact := &journaletv1.ReadinessGatesRead{Uid: uid}
	for _, kind := range p.types {
		if file == nil || file.said[kind] == "" {
			continue
		}
		now[kind] = file.said[kind]
		fact.Conditions = append(fact.Conditions, &journaletv1.ReadinessGateCondition{Type: kind, Status: now[kind]})
	}
	if maps.Equal(now, p.told) && !p.untold {
		return
	}
	g.run.fact(q, messages.Pod(uid), &journaletv1.Event{Kind: &journaletv1.Event_ReadinessGatesRead{ReadinessGatesRead: fact}})
	if cur := g.pods[uid]; cur != nil {
		cur.told, cur.untold = now, cur.untold && cur != p
	}
}

// judgeGates: in the end the status shows what is said of the conditions, and the pod is ready only if all of them are true.
func (s *sim) judgeGates(uid string, v *corev1.Pod, say func(string, ...any)) {
	file, open := s.world.said[uid], true
	if file == nil {
		file = &conditions{}
	}
	told := map[string]string{}
	for _, c := range v.Status.Conditions {
		told[string(c.Type)] = string(c.Status)
	}
	for _, g := range v.Spec.ReadinessGates {
		kind := string(g.ConditionType)
		if told[kind] != file.said[kind] {
			say("condition %s is said to be %q, and %q is told", kind, file.said[kind], told[kind])
		}
		open = open && file.said[kind] == "True"
	}
	for _, c := range v.Status.Conditions {
		closed := c.Reason == "ReadinessGatesNotReady"
		if c.Type == corev1.PodReady && (open && closed || !open && c.Status == corev1.ConditionTrue) {
			say("its readiness gates are open: %t, and it is told as %s %s", open, c.Status, c.Reason)
		}
	}
}

// isGate tells whether a condition is one that somebody outside says.
func isGate(kind corev1.PodConditionType) bool { return slices.Contains(gateTypes, string(kind)) }

// seedGates gives the driver what was read of a pod before.
func (r *run) seedGates(ref messages.Ref, d *pod.Actor) {
	types, said := d.Gates()
	r.gates.seed(ref.ID, types, said)
	r.cells.Open(ref, func(rec *journaletv1.Record) {
		if read := rec.GetFact().GetReadinessGatesRead(); read != nil {
			r.gates.seedOpen(read)
		}
	})
}
