package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/pod/gate"
)

// conditions is the file of conditions in a pod's directory: the status of each condition. nil is no file.
type conditions struct {
	broken bool
	status map[string]string
}

// gateTypes are the conditions that readiness gates may name.
var gateTypes = []string{"example.com/lb", "example.com/warm"}

// setConditions writes a pod's file of conditions, or removes it for nil.
func (w *world) setConditions(uid string, c *conditions) {
	if w.conditions[uid] = c; c == nil {
		delete(w.conditions, uid)
	}
}

// otherConditions changes the file of conditions of a pod: new statuses, a broken file, or none.
func (s *sim) otherConditions(o Op) {
	if s.agent == nil {
		return
	}
	var uids []string
	for _, ref := range s.agent.cells.Refs() {
		if a, ok := s.agent.cells.Decider(ref).(*pod.Actor); ok {
			if types, _ := a.Gates(); len(types) > 0 {
				uids = append(uids, ref.ID)
			}
		}
	}
	if len(uids) == 0 {
		return
	}
	uid := uids[o.pick%uint64(len(uids))]
	r := stream(s.seed, "conditions", uid, o.String())
	c := &conditions{status: map[string]string{}}
	for _, kind := range gateTypes {
		if status := pick(r, "True", "True", "True", "False", "Unknown", ""); status != "" {
			c.status[kind] = status
		}
	}
	switch r.IntN(6) {
	case 0:
		c = nil
	case 1:
		c.broken = true
	}
	s.world.setConditions(uid, c)
}

// fixConditions removes the broken files of conditions.
func (w *world) fixConditions() {
	for _, uid := range slices.Sorted(maps.Keys(w.conditions)) {
		if w.conditions[uid].broken {
			w.setConditions(uid, nil)
		}
	}
}

// gates runs runtime/pod/gate on a coroutine: it reads the files of pods with readiness gates once a second.
type gates struct {
	*gate.Driver
	p *proc
}

func newGates(r *run) *gates {
	return &gates{Driver: gate.New(gate.Options{
		Read: func(uid string) (map[string]string, error) {
			switch c := r.world.conditions[uid]; {
			case c == nil:
				return nil, nil
			case c.broken:
				return nil, errors.New("no map of condition types")
			default:
				return c.status, nil
			}
		},
		Sink: func(_ context.Context, k *journaletv1.ReadinessGatesRead) error {
			return r.emit(messages.Pod(k.GetUid()), k)
		},
	})}
}

func (g *gates) loop(p *proc) {
	for g.p = p; ; {
		wait := time.Hour
		if g.ReadAll(context.Background()) {
			wait = gate.Period
		}
		p.sleep(wait)
	}
}

// Stored implements drivers.Storer.
func (g *gates) Stored(rec *journaletv1.Record) {
	g.Driver.Stored(rec)
	if g.p != nil && decides(rec, func(e *journaletv1.Event) bool { return e.GetReadinessGatesSet() != nil }) {
		g.p.interrupt()
	}
}

// judgeGates: in the end the status shows the conditions of the file, and the pod is ready only if all its gates are
// True.
func (s *sim) judgeGates(uid string, v *corev1.Pod, say func(string, ...any)) {
	file, open := s.world.conditions[uid], true
	if file == nil {
		file = &conditions{}
	}
	shown := map[string]string{}
	for _, c := range v.Status.Conditions {
		shown[string(c.Type)] = string(c.Status)
	}
	for _, g := range v.Spec.ReadinessGates {
		kind := string(g.ConditionType)
		if shown[kind] != file.status[kind] {
			say("condition %s is %q in the file and %q in the status", kind, file.status[kind], shown[kind])
		}
		open = open && file.status[kind] == "True"
	}
	for _, c := range v.Status.Conditions {
		closed := c.Reason == "ReadinessGatesNotReady"
		if c.Type == corev1.PodReady && (open && closed || !open && c.Status == corev1.ConditionTrue) {
			say("its readiness gates are all True: %t, and its status is Ready=%s %s", open, c.Status, c.Reason)
		}
	}
}

// isGate reports whether a condition comes from a pod's file of conditions.
func isGate(kind corev1.PodConditionType) bool { return slices.Contains(gateTypes, string(kind)) }
