package simulation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/runtime/history"
)

// Busy simulates a large node over a long time: pods come, change and go, containers and sandboxes die, and
// the agent restarts now and then. Its journal is never lost or cut, so that its length grows with the time: some
// 200,000 events an hour with 500 pods. The run keeps a set of snapshots every setEvery records for Result.History.
func Busy(seed uint64, pods int, lasts time.Duration, setEvery int) *Result {
	// A bound on the records of a run, which finds endless repetition, does not apply.
	return Run(busyPlan(seed, pods, lasts, setEvery), Options{Only: []string{noActorFails}, NoEnd: true})
}

func busyPlan(seed uint64, pods int, lasts time.Duration, setEvery int) *Plan {
	p := &Plan{Seed: seed, end: lasts}
	p.config = config{
		files: pods, concurrency: 8, pulls: 4, maxPods: uint32(pods + 10), maxBackOff: 300 * time.Second, mishaps: 300,
		cpu: 1 << 20, memory: 1 << 42, setEvery: setEvery,
	}
	p.workload(stream(seed, "plan of files"))
	r := stream(seed, "plan of faults")
	for at := time.Duration(0); at < lasts; at += between(r, time.Second, time.Minute) {
		kind := pick(r, "a container dies", "a container dies", "a container dies", "a container dies", "a sandbox dies")
		p.Ops = append(p.Ops, Op{At: at, Kind: kind, pick: r.Uint64()})
	}
	for at := 2 * time.Hour; at < lasts; at += 2 * time.Hour {
		p.Ops = append(p.Ops, Op{At: at, Kind: "restart the agent", lasts: time.Second})
	}
	for at := time.Minute; at < lasts; at += time.Second {
		p.Ops = append(p.Ops, Op{At: at, Kind: "keep a snapshot"})
	}
	slices.SortStableFunc(p.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
	for i := range p.Ops {
		p.Ops[i].N = i
	}
	return p
}

// keepSet keeps a set of snapshots, unless a set is due later or a record is pending. It also forgets the pods that the
// runtime has nothing of any more: over a long run each search of the world would pass more and more of them.
func (s *sim) keepSet() {
	s.world.forgetEmpty()
	if len(s.journal.stored) < (len(s.sets)+1)*s.config.setEvery {
		return
	}
	s.snapshot()
	if s.barrier == len(s.journal.stored) {
		s.sets[uint64(s.barrier)] = s.snapshots
	}
}

// forgetEmpty forgets pods without sandboxes and containers.
func (w *world) forgetEmpty() {
	var kept []*objects
	for _, o := range w.objects {
		if o.empty() {
			delete(w.byUID, o.uid)
		} else {
			kept = append(kept, o)
		}
	}
	w.objects = kept
}

// History returns the run's journal, with the manifests that it names and the sets of snapshots that were kept.
func (r *Result) History() *history.Memory {
	return &history.Memory{
		Name: nodeName, Records: r.sim.journal.stored, Manifests: maps.Clone(r.sim.manifests.canonical), Sets: r.sim.sets,
	}
}
