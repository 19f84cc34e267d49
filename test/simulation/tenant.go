package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A hostile tenant. It may create, patch and delete pods of its namespace that are bound to the node, and it does what
// it can with that beside pods of others. What it does to its own pods is its own business; others must not notice.

const (
	tenantNamespace = "mallory"
	// tenantCPU, in millicores, and tenantPods are its quota.
	tenantCPU, tenantPods = 4000, 60
	// otherPods is how many names pods of others have, otherCPU what each requests, in millicores.
	otherPods, otherCPU = 20, 200
	// patchedBytes bounds the manifests that come from patches of a plan, in the first hour and in each further one: their
	// texts stay in memory.
	patchedBytes, patchedBytesAnHour = 24 << 20, 2 << 20
	// longPlan is the length of a plan above which everything happens four times as seldom.
	longPlan = 2 * time.Hour
)

// hostile is the part of a plan's configuration with a hostile tenant.
type hostile struct {
	// listMost bounds the pods that the client keeps of a list, 0: as many as on a real node.
	listMost int
}

// constantSeeds bounds the seeds that each change is tried with: they are below this number. Their plans are short.
const constantSeeds = 1_000_000

// hostileFor returns how long a tenant is at it: a day, but for the seeds that are always tried.
func hostileFor(seed uint64) time.Duration {
	if seed < constantSeeds {
		return 10 * time.Minute
	}
	return 24 * time.Hour
}

// Hostile returns the plan of a seed with a hostile tenant that lasts so long.
func Hostile(seed uint64, lasts time.Duration) *Plan {
	r := stream(seed, "plan of a hostile tenant")
	p := &Plan{Seed: seed, end: lasts}
	p.config = config{
		concurrency: 8, pulls: 4, maxPods: 110, maxBackOff: 300 * time.Second, syncs: time.Second, clustered: true,
		// Room for all, and for pods that come while others end.
		cpu: tenantCPU + 3*otherPods*otherCPU/2, memory: 1 << 40,
		hostile: &hostile{listMost: pick(r, 0, 0, 3*otherPods/2)},
	}
	for i := range otherPods {
		p.Ops = append(p.Ops, Op{At: between(r, 0, 2*time.Minute), Kind: "others: create", file: otherName(i)})
	}
	for at := 2 * time.Minute; at < p.end; at += p.pace() * between(r, time.Second, 3*time.Minute) {
		kind := pick(r, "others: create", "others: create", "others: delete", "others: change")
		p.Ops = append(p.Ops, Op{At: at, Kind: kind, file: otherName(r.IntN(otherPods)), pick: r.Uint64()})
	}
	p.tenant(r)
	p.tenantFaults(r)
	p.inOrder()
	return p
}

// pace is how many times as long as in a short plan it takes until the next thing happens.
func (p *Plan) pace() time.Duration {
	if p.end > longPlan {
		return 4
	}
	return 1
}

func otherName(i int) string { return fmt.Sprintf("%s/h%d", []string{"alpha", "beta"}[i%2], i) }

// tenant plans what the tenant does.
func (p *Plan) tenant(r *rand.Rand) {
	kinds := []string{
		"tenant: create", "tenant: create", "tenant: create", "tenant: create", "tenant: create", "tenant: create",
		"tenant: create", "tenant: create", "tenant: create", "tenant: create", "tenant: create and force",
		"tenant: patch", "tenant: patch", "tenant: many patches", "tenant: delete", "tenant: delete", "tenant: delete",
		"tenant: many deletions", "tenant: replace", "tenant: replace", "tenant: status", "tenant: objects",
		"tenant: objects",
	}
	next := func() time.Duration {
		return p.pace() * between(r, time.Second, pick(r, 10*time.Second, time.Minute))
	}
	for at := next(); at < p.end; at += next() {
		p.Ops = append(p.Ops, Op{At: at, Kind: pick(r, kinds...), pick: r.Uint64(),
			file:  fmt.Sprintf("%s/t%d", tenantNamespace, r.IntN(2*tenantPods)),
			lasts: between(r, 10*time.Millisecond, pick(r, time.Second, time.Minute, 5*time.Minute))})
	}
}

// tenantFaults plans what goes wrong besides: seldom enough that it is no reason for a pod to wait for long.
func (p *Plan) tenantFaults(r *rand.Rand) {
	kinds := map[string]time.Duration{
		"kill the agent": 90 * time.Second, "restart the agent": 90 * time.Second, "snapshot": 0,
		"the journal is lost": 10 * time.Second, "watches are dropped": 0, "the API server forgets": 0,
		"the API server is away": time.Minute, "the API server loses": 20 * time.Second,
		"a pod cannot be read": 5 * time.Minute,
	}
	names := []string{"kill the agent", "restart the agent", "snapshot", "watches are dropped", "watches are dropped",
		"the API server forgets", "the API server forgets", "the API server is away", "the API server loses",
		"a pod cannot be read", "a pod cannot be read", "the journal is lost"}
	for at := between(r, 3*time.Minute, 5*time.Minute); at < p.end; at += between(r, 20*time.Second, 10*time.Minute) {
		kind := pick(r, names...)
		p.Ops = append(p.Ops, Op{At: at, Kind: kind, pick: r.Uint64(),
			lasts: between(r, 10*time.Millisecond, kinds[kind]+20*time.Millisecond)})
	}
}

// tenantOps is what the tenant and the others do, by kind.
var tenantOps = map[string]func(*sim, Op){
	"others: create": func(s *sim, o Op) { s.createBound(simplePod(nameIn(o), otherCPU), false) },
	"others: delete": func(s *sim, o Op) { _ = s.api.deletePod(nameIn(o), "", []int64{-1, 1, 30}[o.pick%3]) },
	"others: change": func(s *sim, o Op) { s.label(nameIn(o), fmt.Sprint(o.pick%100), "") },
	"tenant: create": (*sim).tenantCreate,
	"tenant: create and force": func(s *sim, o Op) {
		s.tenantCreate(o)
		s.later(o.lasts, func() { s.tenantDelete(nameIn(o), 0) })
	},
	"tenant: patch":        (*sim).tenantPatch,
	"tenant: many patches": (*sim).tenantPatches,
	"tenant: delete": func(s *sim, o Op) {
		s.tenantDelete(s.tenantPod(o), []int64{-1, 0, 0, 1, 3600}[o.pick/64%5])
	},
	"tenant: many deletions": (*sim).tenantDeletions,
	"tenant: replace": func(s *sim, o Op) {
		s.tenantDelete(nameIn(o), 0)
		s.tenantCreate(o)
	},
	"tenant: status": (*sim).tenantStatus,
	"tenant: objects": func(s *sim, o Op) {
		name := ofAPIServer + planObjects[o.pick%2]
		for i := range 1 + o.pick/4%30 {
			s.later(o.lasts*time.Duration(i)/30, func() {
				if o.pick/128%4 == 0 && i%2 == 0 {
					delete(s.world.files.store, name)
					s.world.files.changed()
					return
				}
				s.world.files.set(name)
			})
		}
	},
	"a pod cannot be read": (*sim).damagePod,
}

// clusterOp returns what happens by its kind, nil for a kind of another part.
func clusterOp(kind string) func(*sim, Op) {
	if do := tenantOps[kind]; do != nil {
		return do
	}
	return clusterOps[kind]
}

// tenants is what a simulation has of a hostile tenant and of others.
type tenants struct {
	s *sim
	// mine are the tenant's pods, beyond the pods that the node cannot take.
	mine, beyond map[types.UID]bool
	// ended are the tenant's pods whose status the tenant has written as ended.
	ended map[types.UID]bool
	// crashedAt is when a pod of many containers that crash was created last, in uptime, 0 for never.
	crashedAt time.Duration
	// patched is how many bytes of manifests have come from patches.
	patched int
	books   tenantBooks
}

// createBound creates a pod and binds it at once, as a scheduler does that has room for it.
func (s *sim) createBound(p *corev1.Pod, beyond bool) {
	created, err := s.api.create(p, "api")
	if err != nil {
		return // there is one of this name
	}
	s.tenants.mine[created.UID], s.tenants.beyond[created.UID] = p.Namespace == tenantNamespace, beyond
	s.bind(created)
}

func (s *sim) bind(created *corev1.Pod) {
	now := s.api.pods[nameOf(created)]
	if now == nil || now.UID != created.UID || now.DeletionTimestamp != nil {
		return
	}
	if now.Namespace == tenantNamespace && !s.tenants.within(now) {
		s.later(10*time.Second, func() { s.bind(created) })
		return
	}
	s.api.update(nameOf(created), func(p *corev1.Pod) {
		p.Spec.NodeName = nodeName
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: s.api.now(),
		})
	})
}

// freedWithin is how long the agent may take to count a pod as gone that has left nothing.
const freedWithin = 2 * time.Minute

// within reports whether one more pod is within the tenant's quota. What is left of pods that are gone counts.
func (t *tenants) within(p *corev1.Pod) bool {
	sum, pods := demandOf(p).cpu, 1
	for _, other := range t.s.api.pods {
		if other.Namespace == tenantNamespace && isBound(other) && !hasEnded(other) {
			sum, pods = sum+demandOf(other).cpu, pods+1
		}
	}
	for uid, left := range t.books.left {
		if !t.s.api.has(uid) && t.s.clock.uptime-left.last < freedWithin {
			sum, pods = sum+left.cpu, pods+1
		}
	}
	return sum <= tenantCPU && pods <= tenantPods
}

func (s *sim) tenantCreate(o Op) {
	r := stream(s.seed, "a pod of the tenant", fmt.Sprint(o.pick))
	p := simplePod(nameIn(o), int64(r.IntN(300)))
	beyond := tenantShapes[r.IntN(len(tenantShapes))](r, p)
	if len(p.Spec.Containers) > 1 {
		if last := s.tenants.crashedAt; last > 0 && s.clock.uptime-last < crashesEvery {
			return // the crashes of one are most of what happens
		}
		s.tenants.crashedAt = s.clock.uptime
		s.later(crashesFor, func() { s.tenantDelete(nameOf(p), 0) })
	}
	s.createBound(p, beyond)
}

// crashesFor is how long a pod of many containers that crash stays, crashesEvery the time until the next one.
const (
	crashesFor   = 6 * time.Minute
	crashesEvery = 2 * time.Hour
)

// tenantPod returns the name of one of the tenant's pods on the node, empty if the node has none of its pods.
func (s *sim) tenantPod(o Op) podName {
	p := s.somePod(o, func(p *corev1.Pod) bool { return ofNode(p) && p.Namespace == tenantNamespace })
	if p == nil {
		return podName{}
	}
	return nameOf(p)
}

func (s *sim) tenantDelete(n podName, grace int64) {
	if p := s.api.pods[n]; p != nil {
		_ = s.api.deletePod(n, "", grace) // it exists
	}
}

// tenantDeletions deletes a pod with a huge grace period, and then with shorter and shorter ones.
func (s *sim) tenantDeletions(o Op) {
	n := s.tenantPod(o)
	for i, grace := range []int64{1 << 40, 1 << 31, 86_400, 3600, 60, 2, 1} {
		s.later(o.lasts*time.Duration(i)/8, func() { s.tenantDelete(n, grace) })
	}
	if o.pick/64%2 == 0 {
		s.later(o.lasts, func() { s.tenantDelete(n, 0) })
	}
}

// label changes a label and an annotation of a pod. It copies what it changes alone: the rest may be large.
func (s *sim) label(n podName, label, note string) {
	p := s.api.pods[n]
	if p == nil {
		return
	}
	next := *p
	next.Labels, next.Annotations = map[string]string{}, map[string]string{}
	for key, value := range p.Labels {
		next.Labels[key] = value
	}
	for key, value := range p.Annotations {
		next.Annotations[key] = value
	}
	next.Labels["version"] = label
	if note != "" {
		next.Annotations["note"] = note
	}
	s.api.learn(&next)
	s.api.put(&next)
}

func (s *sim) tenantPatch(o Op) { s.patchOnce(s.tenantPod(o), o.pick) }

func (s *sim) patchOnce(n podName, pick uint64) {
	p := s.api.pods[n]
	if p == nil {
		return
	}
	most := patchedBytes + int(s.clock.uptime/time.Hour)*patchedBytesAnHour
	if s.tenants.patched+p.Spec.Size() > most {
		return
	}
	s.tenants.patched += p.Spec.Size()
	if pick%16 == 0 && len(p.Spec.Containers) < 10 {
		s.api.update(n, func(p *corev1.Pod) {
			p.Spec.Containers[0].Image = "app:" + fmt.Sprint(1+pick/16%3)
			p.Generation++
		})
		return
	}
	s.label(n, fmt.Sprint(pick%1000), strings.Repeat("n", int(pick/1024%2000)))
}

// tenantPatches patches one pod hundreds of times.
func (s *sim) tenantPatches(o Op) {
	n, times := s.tenantPod(o), 20+o.pick/64%300
	for i := range times {
		s.later(o.lasts*time.Duration(i)/time.Duration(times), func() { s.patchOnce(n, o.pick/3+i*7919) })
	}
}

// tenantStatus patches the status of a pod: it lies about its containers, or has ended.
func (s *sim) tenantStatus(o Op) {
	n := s.tenantPod(o)
	p := s.api.pods[n]
	if p == nil {
		return
	}
	next := p.DeepCopy()
	switch st := &next.Status; o.pick / 64 % 5 {
	case 0:
		st.Phase, st.Reason = corev1.PodFailed, "Mallory"
	case 1:
		st.Phase = corev1.PodSucceeded
	case 2:
		st.Phase, st.ContainerStatuses = corev1.PodPending, nil
	case 3:
		st.Message = strings.Repeat("m", 100_000)
		st.ContainerStatuses = append(st.ContainerStatuses, corev1.ContainerStatus{
			Name: "none", ContainerID: "world://c1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	default:
		st.Conditions, st.PodIP = nil, "192.0.2.66"
	}
	if hasEnded(p) {
		next.Status.Phase = p.Status.Phase
	} else if hasEnded(next) {
		s.tenants.ended[p.UID] = true
	}
	s.api.put(next)
}

// damagePod damages a pod's object in lists and watches: nobody can read it, not even its names.
func (s *sim) damagePod(o Op) {
	p := s.somePod(o, func(p *corev1.Pod) bool {
		return ofNode(p) && (p.Namespace == tenantNamespace) == (o.pick/64%4 == 0)
	})
	if p == nil || s.api.unreadable != "" {
		return
	}
	s.api.unreadable = p.UID
	if o.pick/256%2 == 0 {
		s.apiForgets(Op{})
	}
	s.later(o.lasts, func() {
		s.api.unreadable = ""
		s.apiForgets(Op{}) // the next list has it
	})
}

// tenantGoes has the tenant go, and what it has done end: all its pods are deleted by force.
func (s *sim) tenantGoes() {
	if s.tenants == nil {
		return
	}
	if s.api.unreadable != "" {
		s.api.unreadable = ""
	}
	for _, n := range s.api.names(func(p *corev1.Pod) bool { return p.Namespace == tenantNamespace }) {
		_ = s.api.deletePod(n, "", 0) // it exists
	}
	s.apiForgets(Op{})
}
