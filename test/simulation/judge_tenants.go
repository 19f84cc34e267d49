package simulation

import (
	"slices"
	"time"

	"github.com/restic/chunker"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	nodeactor "github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of others beside a hostile tenant. They are judged by what others and the node's operator see: the API
// server's objects, what runs, and what the node stores. Time when the agent is down or the API server does not answer
// counts for nobody.
const (
	othersRun     = "a pod of another tenant starts in its usual time, and runs on"
	othersEnd     = "a deletion of a pod of another tenant ends"
	othersFit     = "a pod of another tenant that fits is admitted"
	othersKept    = "a pod of another tenant is stopped only when it is deleted"
	sharesReturn  = "what the node counts as used is what its pods may hold"
	recordsFit    = "every record can be stored"
	beyondGoes    = "a pod beyond the node's bounds is rejected"
	beyondIsSmall = "of a pod beyond the node's bounds its names are kept"
	storedByte    = "a change of a pod adds a bounded number of bytes to the manifests"
	recordedByte  = "a change of a pod adds a bounded number of bytes to the journal"
	sentPatches   = "the API server gets a bounded number of patches for each change"
)

const (
	// tenantCheck is how often others look.
	tenantCheck = 5 * time.Second
	// usualTime is how long a pod takes to start or to end, beyond its grace period: an image is pulled, the watch comes
	// back after a pause of up to a minute.
	usualTime = 3 * time.Minute
	// namesBytes is what names and the grace period of a pod have, at most.
	namesBytes = 2 << 10
	// storedPerChange is what a change of a manifest adds: it is small and stored whole, or some parts and their list.
	storedPerChange = 48 << 10
	// recordedAtFirst is what the largest pod adds to the journal by its requests, with each journal that is lost;
	// recordedPerChange what a change of it or of one of its 80 containers adds.
	recordedAtFirst, recordedPerChange = 2 << 20, 32 << 10
	// patchesAtFirst and patchesPerChange are how many patches of its status follow from a pod, and from each change. A
	// container that ends may be reported as ended, and as waiting.
	patchesAtFirst, patchesPerChange = 12, 3
	// retriedEvery is how often a patch is sent again that the API server refuses.
	retriedEvery = 25 * time.Second
)

// tenantBooks are what the judge knows of a tenant and of others.
type tenantBooks struct {
	// hindered is for how long something hindered the agent so far.
	hindered time.Duration
	others   map[types.UID]*otherBook
	// left are the shares of pods that the API server or the runtime has had, with when they had it last.
	left map[string]*leftShare
	// measure is what manifests take in a bus, allowed what they may.
	measure          *bus.Measure
	stored, allowed  int
	seen             map[string]bool
	changes, patches map[string]int
	recorded         map[string]int
}

// otherBook is what is known of a pod: when it ran last, or could not, and when it was deleted; 0 for not yet.
type otherBook struct {
	good, deleted                time.Duration
	hinderedBefore, hinderedThen time.Duration
}

type leftShare struct {
	cpu      int64
	last     time.Duration
	hindered time.Duration
}

// cutsAt is the polynomial that a simulation cuts manifests with.
const cutsAt = chunker.Pol(0x3DA3358B4DC173)

func (s *sim) startTenants() {
	s.tenants = &tenants{
		s: s, mine: map[types.UID]bool{}, beyond: map[types.UID]bool{}, ended: map[types.UID]bool{}, books: tenantBooks{
			others: map[types.UID]*otherBook{}, left: map[string]*leftShare{}, measure: bus.NewMeasure(cutsAt),
			seen: map[string]bool{}, changes: map[string]int{}, patches: map[string]int{}, recorded: map[string]int{},
		},
	}
	var check func()
	check = func() {
		s.tenants.check()
		s.later(tenantCheck, check)
	}
	s.later(tenantCheck, check)
}

// hinders reports whether something hinders the agent, so that no pod can be expected to start.
func (t *tenants) hinders() bool {
	f, now := &t.s.api.faults, t.s.clock.uptime
	return t.s.agent == nil || now < max(f.awayUntil, f.losesUntil) || t.s.api.unreadable != "" ||
		t.s.agent.cluster.pods.Whole() != nil
}

// check judges what others see now.
func (t *tenants) check() {
	if t.hinders() {
		t.books.hindered += tenantCheck
	}
	for _, n := range t.s.api.names(ofNode) {
		p := t.s.api.pods[n]
		t.holds(p)
		if n.Namespace == tenantNamespace {
			t.checkBeyond(p)
		} else {
			t.checkOther(p)
		}
	}
	t.checkShares()
	t.checkCosts()
}

// checkOther judges a pod of somebody else.
func (t *tenants) checkOther(p *corev1.Pod) {
	j, now, uid := t.s.judge, t.s.clock.uptime, string(p.UID)
	b := t.books.others[p.UID]
	if b == nil {
		b = &otherBook{good: now, hinderedBefore: t.books.hindered}
		t.books.others[p.UID] = b
	}
	if hasEnded(p) && p.DeletionTimestamp == nil {
		j.broken(othersFit, uid, "it is %s: %s %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
	}
	if p.DeletionTimestamp != nil {
		if b.deleted == 0 {
			b.deleted, b.hinderedThen = now, t.books.hindered
		}
		grace := time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
		if took := now - b.deleted - (t.books.hindered - b.hinderedThen); took > grace+usualTime {
			j.broken(othersEnd, uid, "%s was deleted %s ago, with %s of grace: %v", p.Name, now-b.deleted, grace, p.Status)
		}
		return
	}
	runs := slices.ContainsFunc(t.s.world.objectsOf(uid).containers, func(c *container) bool { return c.state == running })
	if t.waitsForRegistry(p) {
		b.hinderedBefore -= tenantCheck
	}
	if runs {
		b.good, b.hinderedBefore = now, t.books.hindered
	} else if took := now - b.good - (t.books.hindered - b.hinderedBefore); took > usualTime {
		j.broken(othersRun, uid, "%s does not run for %s: %v", p.Name, now-b.good, p.Status)
	}
}

// waitsForRegistry reports whether the runtime pulls the image of a pod, and nothing else hinders the agent. A registry
// may take ten minutes: that is no tenant's doing. How long a pull waits for its slot may be.
func (t *tenants) waitsForRegistry(p *corev1.Pod) bool {
	if t.hinders() {
		return false
	}
	for _, c := range t.s.agent.performer.calls {
		k := c.req.GetPullImage()
		if k.GetPod().GetNamespace() == p.Namespace && k.GetImage() == p.Spec.Containers[0].Image {
			return true
		}
	}
	return false
}

// holds notes that a pod is there, with its share.
func (t *tenants) holds(p *corev1.Pod) {
	uid := string(p.UID)
	if t.books.left[uid] == nil {
		t.books.left[uid] = &leftShare{cpu: demandOf(p).cpu}
	}
	t.still(uid)
}

func (t *tenants) still(uid string) {
	left := t.books.left[uid]
	left.last, left.hindered = t.s.clock.uptime, t.books.hindered
}

// checkBeyond: the API server hears that a pod of the tenant cannot run here.
func (t *tenants) checkBeyond(p *corev1.Pod) {
	if !t.beyond[p.UID] || hasEnded(p) || p.DeletionTimestamp != nil {
		return
	}
	b := t.books.others[p.UID]
	if b == nil {
		b = &otherBook{good: t.s.clock.uptime, hinderedBefore: t.books.hindered}
		t.books.others[p.UID] = b
	}
	if took := t.s.clock.uptime - b.good - (t.books.hindered - b.hinderedBefore); took > usualTime {
		t.s.judge.broken(beyondGoes, string(p.UID), "%s is %s for %s", p.Name, p.Status.Phase, took)
	}
}

// checkShares: the node counts a pod until the API server has it no more, or has its end, and nothing runs of it.
func (t *tenants) checkShares() {
	s, sum, pods := t.s, share{}, uint32(0)
	for _, o := range s.world.objects {
		if !o.empty() && t.books.left[o.uid] != nil {
			t.still(o.uid)
		}
	}
	for uid, h := range s.judge.pods {
		if !h.holdsShare {
			continue
		}
		sum, pods = sum.plus(h.share), pods+1
		if left := t.books.left[uid]; left != nil {
			if took := s.clock.uptime - left.last - (t.books.hindered - left.hindered); took > freedWithin+usualTime {
				s.judge.broken(sharesReturn, uid, "%s is gone since %s, and holds %+v", s.manifests.names[uid], took, h.share)
			}
		}
	}
	if s.agent == nil || s.agent.cells.Waiting(messages.Node) > 0 || len(s.journal.pending) > 0 {
		return
	}
	n := s.agent.cells.Decider(messages.Node).(*nodeactor.Actor).Node()
	if n.GetUsed().GetMilliCpu() != sum.cpu || n.GetRunning() != pods {
		s.judge.broken(sharesReturn, "", "it counts %d pods with %d millicores, and %d with %d are admitted and have not "+
			"ended", n.GetRunning(), n.GetUsed().GetMilliCpu(), pods, sum.cpu)
	}
}

// checkCosts: what a pod costs others is bounded by what happens to it, and how often the agent has started.
func (t *tenants) checkCosts() {
	b, starts := &t.books, len(t.s.judge.book.starts)
	for uid, bytes := range b.recorded {
		if b.changes[uid] > 0 && bytes > starts*recordedAtFirst+b.changes[uid]*recordedPerChange {
			t.s.judge.broken(recordedByte, uid, "%d bytes for %d changes of %s, with %d starts of the agent", bytes,
				b.changes[uid], t.s.manifests.names[uid], starts)
		}
	}
	for uid, patches := range b.patches {
		retried := int(t.s.clock.uptime / retriedEvery)
		if b.changes[uid] > 0 && patches > retried+starts*patchesAtFirst+b.changes[uid]*patchesPerChange {
			t.s.judge.broken(sentPatches, uid, "%d patches for %d changes of %s, with %d starts of the agent", patches,
				b.changes[uid], t.s.manifests.names[uid], starts)
		}
	}
}

// keeps: what the node keeps of a pod that it rejects is small, however many there are.
func (t *tenants) keeps(uid types.UID, p *corev1.Pod) {
	if p == nil || !t.beyond[uid] || t.supported(p) {
		return
	}
	if size := p.ObjectMeta.Size() + p.Spec.Size(); size > namesBytes {
		t.s.judge.broken(beyondIsSmall, string(p.UID), "%s has %d bytes", p.Name, size)
	}
}

// supported reports whether a pod is beyond no bound: the node only lacks what it needs.
func (t *tenants) supported(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.ISCSI != nil })
}

// othersStopped: nobody stops a pod of others that the API server has.
func (j *judge) othersStopped(c *container, call string) {
	if j.sim.tenants == nil || c.manifest.Namespace == tenantNamespace {
		return
	}
	p := j.sim.api.pods[podName{Namespace: c.manifest.Namespace, Name: c.manifest.Name}]
	if p != nil && string(p.UID) == c.uid && p.DeletionTimestamp == nil {
		j.broken(othersKept, c.uid, "%s ends %s, and nobody has deleted it", call, c.id)
	}
}

// created books a manifest that comes, with the bytes that it has.
func (t *tenants) learned(uid, digest string, size int) {
	if t == nil || t.books.seen[digest] {
		return
	}
	t.books.changes[uid]++
	t.books.allowed += storedPerChange
	if first := !t.books.seen[uid]; first {
		t.books.allowed += size + size/16
	}
	t.books.seen[uid], t.books.seen[digest] = true, true
}

// storesManifest: each change of a pod stores little, however large the pod is.
func (t *tenants) storesManifest(digest string, canonical []byte) {
	if t == nil {
		return
	}
	added, err := t.books.measure.Put(nodeName, digest, canonical)
	if t.books.stored += added; err != nil || t.books.stored > t.books.allowed {
		t.s.judge.broken(storedByte, "", "%d bytes of manifests are stored, with the last %d, and all changes together are "+
			"good for %d: %v", t.books.stored, added, t.books.allowed, err)
	}
}

// recordFits: the journal takes a record.
func (j *judge) recordFits(rec *journaletv1.Record, encoded []byte) {
	if len(encoded) == 0 || len(encoded) > messages.MaxRecordBytes {
		j.broken(recordsFit, rec.GetActor().GetId(), "record %d of %s does not", rec.GetSeq(), messages.RefOf(rec.GetActor()))
	}
	if t := j.sim.tenants; t != nil && !j.rebuilding {
		t.books.recorded[rec.GetActor().GetId()] += len(encoded)
	}
}

// happens books what happens to a pod.
func (t *tenants) happens(uid string) {
	if t != nil {
		t.books.changes[uid]++
	}
}

// sendsPatch books a patch of the agent.
func (t *tenants) sendsPatch(p *corev1.Pod) {
	if t != nil && p != nil {
		t.books.patches[string(p.UID)]++
	}
}

// ownDoing are the invariants that the tenant breaks for its own pods: it writes their statuses, and an image back and
// forth ends a back-off.
var ownDoing = []string{
	statusIsWorld, terminalStays, deletedLast, eventsArrive, stopCaused, backOffKept, backOffDoubles, backOffReported,
}

// excused reports whether what is wrong with a pod is the tenant's own doing.
func (j *judge) excused(invariant, uid string) bool {
	return j.sim.tenants != nil && slices.Contains(ownDoing, invariant) && j.sim.tenants.mine[types.UID(uid)]
}
