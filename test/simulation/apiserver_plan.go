package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// Clustered returns the plan of a seed with an API server: pods that are bound to the node, changed, deleted and
// replaced, what happens to the Node, and faults of the API server.
func Clustered(seed uint64) *Plan {
	p := PlanOf(seed)
	p.config.clustered = true
	r := stream(seed, "plan of the API server")
	p.apiWorkload(r)
	p.apiFaults(r)
	slices.SortStableFunc(p.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
	for i := range p.Ops {
		p.Ops[i].N = i
	}
	return p
}

// clusterOps is what happens at the API server, by kind.
var clusterOps = map[string]func(*sim, Op){
	"api: create":                 (*sim).apiCreate,
	"api: update":                 (*sim).apiUpdate,
	"api: delete":                 (*sim).apiDelete,
	"api: replace":                (*sim).apiReplace,
	"api: delete a namespace":     func(s *sim, _ Op) { s.api.closeNamespace(teamNamespace) },
	"api: delete a mirror pod":    (*sim).apiDeleteMirror,
	"api: delete the Node":        func(s *sim, _ Op) { s.api.deleteNode() },
	"api: another Node":           (*sim).apiAnotherNode,
	"api: change the Node":        (*sim).apiChangeNode,
	"the API server is away":      (*sim).apiAway,
	"the API server is slow":      func(s *sim, o Op) { s.api.faults.slowUntil = s.clock.uptime + o.lasts },
	"the API server refuses":      (*sim).apiRefuses,
	"the API server loses":        func(s *sim, o Op) { s.api.faults.losesUntil = s.clock.uptime + o.lasts },
	"watches are dropped":         func(s *sim, _ Op) { s.api.drop() },
	"the API server forgets":      (*sim).apiForgets,
	"the API server's clock lies": (*sim).apiLies,
}

// clusterFaults are drawn from for the faults of a plan: a fault that is here twice is drawn twice as often.
var clusterFaults = []string{
	"the API server is away", "the API server is away", "the API server is slow", "the API server refuses",
	"the API server refuses", "the API server loses", "the API server loses", "watches are dropped",
	"the API server forgets", "the API server's clock lies", "api: delete the Node", "api: another Node",
	"api: change the Node", "api: delete a mirror pod", "api: delete a namespace",
}

// teamNamespace is the namespace that is deleted now and then.
const teamNamespace = "team"

func (p *Plan) apiWorkload(r *rand.Rand) {
	pods := 1 + r.IntN(6)
	name := func() string {
		return fmt.Sprintf("%s/a%d", pick(r, "default", "default", teamNamespace), r.IntN(pods))
	}
	create := func(at time.Duration, kind string) {
		n := name()
		p.Ops = append(p.Ops, Op{At: min(at, p.end), Kind: kind, file: n, pick: r.Uint64(),
			body: manifestOf(r, n[strings.Index(n, "/")+1:], "")})
	}
	for range pods {
		create(between(r, 0, pick(r, time.Second, 2*time.Minute)), "api: create")
	}
	for range int(p.end/time.Minute) * (1 + pods/2) {
		at := between(r, 10*time.Second, p.end)
		switch r.IntN(8) {
		case 0, 1, 2:
			create(at, "api: create")
		case 3:
			create(at, "api: replace")
		case 4, 5:
			p.Ops = append(p.Ops, Op{At: at, Kind: "api: update", pick: r.Uint64()})
		default:
			for range 1 + r.IntN(2) {
				p.Ops = append(p.Ops, Op{At: min(at, p.end), Kind: "api: delete", pick: r.Uint64()})
				at += between(r, 0, 10*time.Second)
			}
		}
	}
}

func (p *Plan) apiFaults(r *rand.Rand) {
	at := between(r, 0, time.Minute)
	for ; at < p.end; at += between(r, time.Second, pick(r, 30*time.Second, 3*time.Minute)) {
		p.Ops = append(p.Ops, Op{At: at, Kind: pick(r, clusterFaults...), pick: r.Uint64(),
			lasts: between(r, 100*time.Millisecond, pick(r, 5*time.Second, time.Minute, 10*time.Minute))})
	}
}

// newPod returns a pod as a client creates it, with the API server's defaults. Here they are the defaults of the node's
// manifests. It returns nil for a manifest that is refused.
func newPod(n podName, body []byte, r *rand.Rand) *corev1.Pod {
	_, pods := feed.Decode(n.Name, n.Name, body, manifest.Options{NodeName: nodeName})
	if len(pods) != 1 {
		return nil
	}
	p := pods[0].Pod.DeepCopy()
	p.ObjectMeta = metav1.ObjectMeta{
		Namespace: n.Namespace, Name: n.Name, Labels: map[string]string{"version": "1"},
		Annotations: map[string]string{"note": secret},
	}
	for name, value := range pods[0].Pod.Annotations {
		if !strings.HasPrefix(name, "kubernetes.io/config.") {
			p.Annotations[name] = value
		}
	}
	p.Spec.NodeName, p.Spec.ReadinessGates = "", nil
	if chance(r, 6) {
		p.Finalizers = []string{"example.com/tracking"}
	}
	if chance(r, 20) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "disk", VolumeSource: corev1.VolumeSource{
			ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "iscsi.example.com", IQN: "iqn.2026-11.com.example:disk"}}})
	}
	return p
}

func nameIn(o Op) podName {
	namespace, name, _ := strings.Cut(o.file, "/")
	return podName{Namespace: namespace, Name: name}
}

// apiCreate creates a pod, and binds it to this node later.
func (s *sim) apiCreate(o Op) {
	r := stream(s.seed, "a pod of the API server", fmt.Sprint(o.pick))
	p := newPod(nameIn(o), o.body, r)
	if p == nil {
		return
	}
	s.withClaims(p, o)
	s.withVolumes(p, o)
	created, err := s.api.create(p, "api")
	if err != nil {
		return // there is one of this name
	}
	s.later(between(r, 0, pick(r, 10*time.Millisecond, 10*time.Second)), func() {
		if now := s.api.pods[nameOf(created)]; now != nil && now.UID == created.UID && now.Spec.NodeName == "" &&
			now.DeletionTimestamp == nil {
			s.api.update(nameOf(created), func(p *corev1.Pod) {
				p.Spec.NodeName = nodeName
				s.api.reserve(p, r)
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
					Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: s.api.now(),
				})
			})
		}
	})
}

// somePod returns one of the pods of this node that match, nil for none.
func (s *sim) somePod(o Op, match func(*corev1.Pod) bool) *corev1.Pod {
	all := s.api.names(match)
	if len(all) == 0 {
		return nil
	}
	return s.api.pods[all[o.pick%uint64(len(all))]]
}

// apiUpdate changes labels, annotations, an image, or CPU and memory of a pod, as the API server permits.
func (s *sim) apiUpdate(o Op) {
	p := s.somePod(o, ofNode)
	if p == nil {
		return
	}
	r := stream(s.seed, "an update", fmt.Sprint(o.pick))
	s.api.update(nameOf(p), func(p *corev1.Pod) {
		if chance(r, 2) {
			p.Labels["version"] = fmt.Sprint(r.IntN(100))
		}
		if chance(r, 4) {
			p.Annotations["note"] = fmt.Sprint(secret, r.IntN(100))
		}
		before := p.Spec.DeepCopy()
		for i := range p.Spec.Containers {
			if c := &p.Spec.Containers[i]; chance(r, 4) {
				c.Image = pick(r, "app:1", "app:2", "app:3")
			} else if chance(r, 2) {
				otherSize(r, &c.Resources)
			}
		}
		if qosOf(mainOnly(&p.Spec)) != qosOf(mainOnly(before)) || p.DeletionTimestamp != nil {
			p.Spec = *before
		} else if !equality.Semantic.DeepEqual(before, &p.Spec) {
			p.Generation++
		}
	})
}

// mainOnly returns a pod with the main containers of another one.
func mainOnly(s *corev1.PodSpec) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: s.Containers}}
}

// otherSize gives a container other values of the requests and limits that it has.
func otherSize(r *rand.Rand, res *corev1.ResourceRequirements) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		drawn, more := 1+int64(r.IntN(7000)), int64(r.IntN(1000))
		if r.IntN(2) == 0 {
			continue
		}
		quantity := func(n int64) resource.Quantity {
			if name == corev1.ResourceCPU {
				return *resource.NewMilliQuantity(n, resource.DecimalSI)
			}
			return *resource.NewQuantity(n<<20, resource.BinarySI)
		}
		request, requested := res.Requests[name]
		limit, limited := res.Limits[name]
		if limited && requested && request.Equal(limit) {
			more = 0
		}
		if requested {
			res.Requests[name] = quantity(drawn)
		}
		if limited {
			res.Limits[name] = quantity(drawn + more)
		}
	}
}

// apiDelete deletes a pod: with its grace period, with another one, or by force.
func (s *sim) apiDelete(o Op) {
	if p := s.somePod(o, ofNode); p != nil {
		_ = s.api.deletePod(nameOf(p), "", []int64{-1, -1, 1, 5, 60, 0}[o.pick/64%6]) // it exists
	}
}

// apiReplace deletes a pod by force, and creates another one of its name at once.
func (s *sim) apiReplace(o Op) {
	_ = s.api.deletePod(nameIn(o), "", 0) // there may be none
	s.apiCreate(o)
}

func (s *sim) apiDeleteMirror(o Op) {
	if p := s.somePod(o, manifest.IsMirror); p != nil {
		_ = s.api.deletePod(nameOf(p), "", []int64{-1, 0}[o.pick/64%2]) // it exists
	}
}

// apiAnotherNode deletes the Node, and creates one as another client does.
func (s *sim) apiAnotherNode(o Op) {
	s.api.deleteNode()
	labels := map[string]string{"zone": fmt.Sprint(o.pick % 3)}
	s.api.putNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: labels}})
}

// apiChangeNode changes labels and taints of the Node.
func (s *sim) apiChangeNode(o Op) {
	if s.api.node == nil {
		return
	}
	n := s.api.node.DeepCopy()
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels["zone"], n.Spec.Taints = fmt.Sprint(o.pick%3), nil
	if o.pick/8%2 == 0 {
		n.Spec.Taints = []corev1.Taint{{Key: "example.com/maintenance",
			Effect: []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule}[o.pick/16%2]}}
	}
	s.api.putNode(n)
}

func (s *sim) apiAway(o Op) {
	s.api.faults.awayUntil = max(s.api.faults.awayUntil, s.clock.uptime+o.lasts)
	s.api.drop()
}

func (s *sim) apiRefuses(o Op) {
	s.api.faults.refusesUntil = s.clock.uptime + o.lasts
	s.api.faults.refusal = []int{401, 403, 409, 429, 500, 503}[o.pick%6]
}

// apiForgets has watches that come back be refused with 410.
func (s *sim) apiForgets(Op) {
	s.api.compact()
	s.api.drop()
}

// compact forgets all changes.
func (a *apiServer) compact() {
	a.base = append(a.at(a.version, true), a.at(a.version, false)...)
	a.history, a.compacted = nil, a.version
}

func (s *sim) apiLies(o Op) {
	s.api.faults.skew = []time.Duration{-time.Hour, time.Hour, -24 * time.Hour, 10 * time.Second, 0}[o.pick%5]
}

// drop ends all watches.
func (a *apiServer) drop() {
	a.faults.dropped++
	for _, p := range a.watchers {
		p.interrupt()
	}
	a.watchers = nil
}

// fix ends all faults.
func (a *apiServer) fix() {
	if a == nil {
		return
	}
	dropped := a.faults.dropped
	a.faults = apiFaults{dropped: dropped}
}
