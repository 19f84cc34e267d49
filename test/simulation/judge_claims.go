package simulation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of claims. They are judged by what DRA drivers have prepared and the runtime was given, and by manifests.
const (
	claimsPrepared = "a container is created with the devices of its claims, which are prepared"
	claimsKept     = "a claim is unprepared after the last container of its pods"
	claimsFree     = "a pod ends at the API server after its claims are unprepared"
	claimsLeft     = "in the end no claim is prepared that no pod uses"
)

// claimsGiven: a container has the devices that drivers have prepared of its claims, and no others. What an agent left
// prepared that then lost its records, a driver gives to the claim's next pods: it has nobody to undo that.
func (j *judge) claimsGiven(c *container, k *runtimeapi.ContainerConfig, gone bool) {
	a := j.sim.api
	if !j.sim.config.claimed || gone || j.lostIntents[c.intent] {
		return
	}
	var want, has []string
	for _, used := range a.claimsOf[c.uid] {
		if !used.reserved[c.uid] {
			return // its object is gone: others may have the devices
		}
		for _, driver := range used.drivers {
			p := j.sim.claimDriver(driver).has(used.uid, j.sim.bootID())
			if p != nil && p.stale {
				return
			}
			if p == nil || p.allocation != used.allocation {
				j.broken(claimsPrepared, c.uid, "%s is created, and %s has prepared %v of %s, not allocation %d", c.id, driver,
					p, used.name, used.allocation)
			}
			if wants(c.spec, used.local, requestOf(driver)) {
				want = append(want, cdiName(driver, used.uid, used.allocation))
			}
		}
	}
	for _, d := range k.GetCDIDevices() {
		has = append(has, d.GetName())
	}
	slices.Sort(want)
	if slices.Sort(has); !slices.Equal(has, want) {
		j.broken(claimsPrepared, c.uid, "%s has the devices %v, want %v", c.id, has, want)
	}
}

// wants reports whether a container wants the devices of a request of a claim.
func wants(c *corev1.Container, claim, request string) bool {
	return slices.ContainsFunc(c.Resources.Claims, func(entry corev1.ResourceClaim) bool {
		return entry.Name == claim && (entry.Request == "" || entry.Request == request)
	})
}

func (s *sim) claimDriver(name string) *claimDriver {
	all := s.world.claimDrivers
	return all[slices.IndexFunc(all, func(d *claimDriver) bool { return d.name == name })]
}

// claimUnprepared: no container runs of a pod that uses a claim as a driver unprepares it. A pod of a lost journal uses
// its claims once it has read them again.
func (j *judge) claimUnprepared(uid string) {
	for _, c := range j.sim.world.running() {
		unread := j.lostIntents[c.intent] && !j.requestedClaim(c.uid, uid)
		if j.sim.api.uses(c.uid, uid) && !unread && !j.leaves(c) {
			j.broken(claimsKept, c.uid, "claim %s is unprepared, and %s runs", uid, c.id)
		}
	}
}

// requestedClaim reports whether a record has a pod request the preparation of a claim.
func (j *judge) requestedClaim(pod, claim string) bool {
	for _, in := range j.intents {
		if in.req.GetPodUid() == pod && slices.ContainsFunc(in.req.GetPrepareClaims().GetClaims(),
			func(c *journaletv1.ResourceClaim) bool { return c.GetUid() == claim }) {
			return true
		}
	}
	return false
}

// uses reports whether a pod uses a claim.
func (a *apiServer) uses(pod, claim string) bool {
	return slices.ContainsFunc(a.claimsOf[pod], func(used usedClaim) bool { return used.uid == claim })
}

// claimsOfEnded: as a pod ends at the API server, which takes its devices for free then, no driver has its claims
// prepared, unless another pod uses them.
func (j *judge) claimsOfEnded(pod string) {
	for _, used := range j.sim.api.claimsOf[pod] {
		for _, d := range j.sim.world.claimDrivers {
			if p := d.has(used.uid, j.sim.bootID()); p != nil && !p.unknown && !j.usedByOthers(used.uid, pod) {
				j.broken(claimsFree, pod, "%s has claim %s prepared", d.name, used.name)
			}
		}
	}
}

// usedByOthers reports whether another pod than this one uses a claim, and has not ended.
func (j *judge) usedByOthers(claim, pod string) bool {
	for other := range j.sim.api.claimsOf {
		if other != pod && j.sim.api.uses(other, claim) && !j.history(other).gone && !j.terminalAtAPI(other) {
			return true
		}
	}
	return false
}

// loseClaims notes that the agent has lost its records of what is prepared.
func (w *world) loseClaims() {
	for _, d := range w.claimDrivers {
		for _, p := range d.prepared {
			p.unknown = true
		}
	}
}

// judgeClaims reports claims that stay prepared. desired are the pods that sources name.
func (s *sim) judgeClaims(desired map[string]string, say func(invariant, uid, format string, args ...any)) {
	for _, d := range s.world.claimDrivers {
		for _, uid := range slices.Sorted(maps.Keys(d.prepared)) {
			p, used := d.has(uid, s.bootID()), false
			for pod := range desired {
				used = used || s.api.uses(pod, uid) && !s.judge.terminalAtAPI(pod)
			}
			if p != nil && !p.unknown && !used {
				say(claimsLeft, "", "%s has claim %s prepared, and no pod uses it", d.name, uid)
			}
		}
	}
}
