package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Unsteady returns the plan of a seed on a node whose volumes go: somebody removes their directories or unmounts them.
func Unsteady(seed uint64) *Plan {
	p := PlanOf(seed)
	r := stream(seed, "plan of volumes that go")
	for at := between(r, 5*time.Second, 30*time.Second); at < p.end; at += between(r, time.Second, time.Minute) {
		p.Ops = append(p.Ops, Op{At: at, Kind: "a volume goes", pick: r.Uint64()})
	}
	p.inOrder()
	return p
}

// loseVolume takes the volume that containers mount from the disk of one pod.
func (s *sim) loseVolume(o Op) {
	n := s.world.files
	var all []string
	for _, uid := range slices.Sorted(maps.Keys(n.disk)) {
		if n.disk[uid][scratchVolume] != "" {
			all = append(all, uid)
		}
	}
	if len(all) > 0 {
		uid := all[o.pick%uint64(len(all))]
		delete(n.disk[uid], scratchVolume)
		n.lost[uid] = s.clock.uptime
	}
}

// Check implements cri.Volumes.
func (d disk) Check(_ context.Context, m *corev1.Pod, name string) error {
	if ofDriver(volumeIn(m, name)) {
		return d.run.storage.Check(string(m.UID), name)
	}
	if d.run.world.files.disk[string(m.UID)][name] == "" {
		return fmt.Errorf("%s is not there", name)
	}
	return nil
}

// mayLack reports whether a container may be created although a volume has gone: it does not mount that, or the volume
// went while the call was under way.
func (j *judge) mayLack(c *container, name string) bool {
	at, lost := j.sim.world.files.lost[c.uid]
	if !lost || name != scratchVolume {
		return false
	}
	in, mounts := j.intents[c.intent], func(m corev1.VolumeMount) bool { return m.Name == name }
	return in == nil || at >= in.dispatchedAt || !slices.ContainsFunc(c.spec.VolumeMounts, mounts)
}
