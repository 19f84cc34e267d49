package simulation

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/node"
	limits "github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What is judged of a node that runs short of something. The judge believes the world's own figures at each sample.
const (
	rightVictim      = "the pod that ends for pressure is the one that the world's figures name"
	endsOnlyForNeed  = "a pod ends for pressure only while a threshold acts"
	oneVictim        = "no pod ends for pressure before the last one has freed what it held"
	conditionsHold   = "a condition of pressure holds for the transition period, and begins for a cause"
	conditionsFollow = "a condition of pressure begins and ends with what the node lacks"
	onlyCrossings    = "nothing about pressure is recorded but crossings and what the node requests"
	trueFigures      = "what is recorded of pressure is what the world has"
	pressureEnds     = "pods end until no threshold acts, or none is left"
	startsAgain      = "what pressure ended of a local source starts again, once no condition is left and not before"
)

// sampleTaken is what the world had when the driver measured.
type sampleTaken struct {
	at       time.Duration
	shortage shortage
	measured map[limits.Signal]limits.Measured
	// lost are conditions whose begin it shows, in a fact that was not stored before the agent's end.
	lost map[string]bool
}

// pressureBook is what the judge knows of pressure.
type pressureBook struct {
	// samples are the newest ones by the driver's time, times these in order.
	samples map[time.Time]*sampleTaken
	times   []time.Time
	// epoch is the agent's run of the last sample.
	epoch uint64
	// met are the thresholds of the last fact, which is of metAt, of what each fact with pods says, by record.
	met   []*journaletv1.ThresholdMet
	metAt time.Duration
	facts map[uint64]*journaletv1.PressureObserved
	// conditions are those decided last. victim is the last pod that ended, for a signal and at an uptime. freedBy is the
	// record that it decided on when it reported that it holds nothing any more, 0 for not yet.
	conditions []string
	victim     string
	victimFor  limits.Signal
	victimAt   time.Duration
	freedBy    uint64
	// enough is set if there was enough since then.
	enough bool
	// evictions counts the pods that ended.
	evictions int
}

// keptSamples bounds the samples that are kept: more than all waits together may take.
const keptSamples = 1200

func newPressureBook() *pressureBook {
	return &pressureBook{samples: map[time.Time]*sampleTaken{}, facts: map[uint64]*journaletv1.PressureObserved{}}
}

// sampled books a sample, by the time that the driver reads.
func (j *judge) sampled(now time.Time, short shortage, measured map[limits.Signal]limits.Measured) {
	b := j.pressure
	if b.epoch != j.sim.epoch {
		b.epoch = j.sim.epoch
		j.loseSamples()
	}
	b.samples[now] = &sampleTaken{at: j.sim.clock.uptime, shortage: short, measured: maps.Clone(measured)}
	if b.times = append(b.times, now); len(b.times) > keptSamples {
		delete(b.samples, b.times[0])
		b.times = b.times[1:]
	}
}

// loseSamples notes what the last run of the agent had measured, and not stored: the next one cannot know of it.
func (j *judge) loseSamples() {
	b, stored := j.pressure, map[string]bool{}
	for _, t := range b.met {
		stored[string(limits.Signal(t.GetSignal()).Condition())] = true
	}
	for _, at := range b.times {
		s := b.samples[at]
		if s.at <= b.metAt || s.lost != nil {
			continue
		}
		s.lost = map[string]bool{}
		for _, t := range j.sim.config.pressed.inEffect() {
			if c := string(t.Signal.Condition()); !stored[c] {
				s.lost[c] = true
			}
		}
	}
}

// forgetRecords forgets what was read from records.
func (b *pressureBook) forgetRecords() {
	b.met, b.conditions, b.victim = nil, nil, ""
	clear(b.facts)
}

// bookPressure judges what is recorded of pressure.
func (j *judge) bookPressure(rec *journaletv1.Record, e *journaletv1.Event) {
	b := j.pressure
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PressureObserved:
		j.pressureObserved(k.PressureObserved)
		b.met, b.facts[rec.GetSeq()] = k.PressureObserved.GetThresholds(), k.PressureObserved
		b.metAt = j.uptimeOf(rec)
	case *journaletv1.Event_NodePressureDecided:
		j.conditionsDecided(rec, k.NodePressureDecided.GetConditions())
		b.conditions = k.NodePressureDecided.GetConditions()
	case *journaletv1.Event_EvictionProgressed:
		b.enough = b.enough || k.EvictionProgressed.GetStage() == journaletv1.EvictionStage_EVICTION_STAGE_UNSPECIFIED
	case *journaletv1.Event_PodReclaimed:
		if b.victim == k.PodReclaimed.GetUid() && b.freedBy == 0 {
			b.freedBy = rec.GetStep().GetCause()
		}
	case *journaletv1.Event_PodFinished:
		j.history(k.PodFinished.GetUid()).hadVolume = false
		if b.victim == k.PodFinished.GetUid() {
			b.victim = "" // it may come again
		}
	case *journaletv1.Event_PodEvictionDecided:
		if k.PodEvictionDecided.GetReason() == node.ReasonEvicted {
			j.evictedForNode(rec, k.PodEvictionDecided)
		}
	case *journaletv1.Event_PodReadmitted:
		if j.sim.config.pressed != nil && len(b.conditions) > 0 && !j.rebuilding {
			j.broken(startsAgain, k.PodReadmitted.GetUid(), "the node has %v", b.conditions)
		}
	}
}

// staysEvicted reports whether an ended pod still shows that pressure ended it, although it is of a local source.
func (j *judge) staysEvicted(uid string, v *corev1.Pod) bool {
	return !j.history(uid).apiPod && v.Status.Phase == corev1.PodFailed && v.Status.Reason == node.ReasonEvicted &&
		strings.HasPrefix(v.Status.Message, "The node was low on resource")
}

// pressureObserved: a fact is a crossing or an answer, and has the world's figures.
func (j *judge) pressureObserved(o *journaletv1.PressureObserved) {
	last := map[string]bool{}
	name := func(t *journaletv1.ThresholdMet) string {
		if t.GetSoft() {
			return "soft " + t.GetSignal()
		}
		return t.GetSignal()
	}
	for _, t := range j.pressure.met {
		last[name(t)] = t.GetActing()
	}
	crossing := o.GetRequestId() != 0 || len(o.GetThresholds()) != len(last)
	for _, t := range o.GetThresholds() {
		acted, was := last[name(t)]
		crossing = crossing || !was || t.GetActing() && !acted
		sample := j.pressure.samples[t.GetSampledAt().AsTime()]
		if sample == nil || j.rebuilding {
			continue // it is from before a loss of records, or the signal has no figures
		}
		if left, ok := sample.shortage.left[limits.Signal(t.GetSignal())]; ok && left != t.GetAvailable() {
			j.broken(trueFigures, "", "%s: %d is left, and %d is recorded", name(t), left, t.GetAvailable())
		}
	}
	if !crossing {
		j.broken(onlyCrossings, "", "nothing has changed: %v", o)
	}
}

// atAnyTime is an uptime after any other.
const atAnyTime = time.Duration(1 << 62)

// crossed returns the last sample before an uptime that met any threshold of a condition, nil for none. Samples that
// were lost do not count.
func (j *judge) crossed(condition string, before time.Duration) *sampleTaken {
	b := j.pressure
	for _, at := range slices.Backward(b.times) {
		if b.samples[at].at >= before || b.samples[at].lost[condition] {
			continue
		}
		for _, t := range j.sim.config.pressed.inEffect() {
			m, ok := b.samples[at].measured[t.Signal]
			if ok && string(t.Signal.Condition()) == condition && m.Available < t.Value.Of(m.Capacity) {
				return b.samples[at]
			}
		}
	}
	return nil
}

// conditionsDecided: conditions come with a shortage, and do not go before the transition period after it is over. The
// node decided on a record: when a timer fired it did not know what was measured at that moment or later.
func (j *judge) conditionsDecided(rec *journaletv1.Record, now []string) {
	if j.rebuilding {
		return
	}
	for _, c := range now {
		if !slices.Contains(j.pressure.conditions, c) && j.crossed(c, atAnyTime) == nil {
			j.broken(conditionsHold, "", "%s begins, and nothing is short", c)
		}
	}
	period, known := j.sim.config.pressed.transition, atAnyTime
	if cause := j.sim.journal.stored[rec.GetStep().GetCause()-1]; cause.GetFact().GetTimerFired() != nil {
		known = j.uptimeOf(cause)
	}
	for _, c := range j.pressure.conditions {
		last := j.crossed(c, known)
		if slices.Contains(now, c) || last == nil || j.clockSet >= last.at {
			continue
		}
		if since := j.sim.clock.uptime - last.at; since < period {
			j.broken(conditionsHold, "", "%s ends %s after the node was short, and the transition period is %s", c, since,
				period)
		}
	}
}

// evictedForNode: the node ends one pod after the other, for a threshold that acts, and the right one.
func (j *judge) evictedForNode(rec *journaletv1.Record, k *journaletv1.PodEvictionDecided) {
	h, b := j.history(k.GetUid()), j.pressure
	if h.holdsShare { // else it has terminated meanwhile, and nothing ends: neither this incarnation nor the next one
		j.endsForNode(h, rec, k)
	}
	enough := b.enough
	last, signal, at, known := b.victim, b.victimFor, b.victimAt, cmp.Or(b.freedBy, rec.GetStep().GetCause())
	// Timers count from the record that the node decides on.
	b.victim, b.victimFor, b.freedBy = k.GetUid(), limits.Signal(k.GetSignal()), 0
	b.enough = false
	b.victimAt = j.uptimeOf(j.sim.journal.stored[rec.GetStep().GetCause()-1])
	if h.finishedBy > rec.GetStep().GetCause() {
		b.victim = "" // it may have come again
	}
	b.evictions++
	if j.rebuilding {
		return
	}
	if priorityOf(h.admittedAs) >= systemCritical {
		j.broken(rightVictim, k.GetUid(), "it is critical")
	}
	fact := b.facts[rec.GetStep().GetCause()]
	t := limits.Acting(fact.GetThresholds())
	if t == nil || t.GetSignal() != k.GetSignal() {
		j.broken(endsOnlyForNeed, k.GetUid(), "record %d shows no threshold of %s that acts: %v", rec.GetStep().GetCause(),
			k.GetSignal(), fact)
		return
	}
	sample := b.samples[t.GetSampledAt().AsTime()]
	if sample == nil {
		j.broken(endsOnlyForNeed, k.GetUid(), "it was not measured at %s", t.GetSampledAt().AsTime())
		return
	}
	j.needed(k.GetUid(), t, sample)
	j.ranksFirst(rec.GetStep().GetCause(), k, sample)
	if took := sample.at - at; last != k.GetUid() && last != "" && took < evictionWait && j.clockSet < at {
		if what := j.holds(last, signal, known); what != "" {
			j.broken(oneVictim, k.GetUid(), "%s ended %s before, and still has %s", last, took, what)
		}
		if c := j.freeing(last, sample, known); c != "" && signal == limits.MemoryAvailable && !enough {
			j.broken(oneVictim, k.GetUid(), "%s ended %s before, and the kernel still frees the memory of %s", last, took, c)
		}
	}
}

// endsForNode notes that the node ends a pod.
func (j *judge) endsForNode(h *podHistory, rec *journaletv1.Record, k *journaletv1.PodEvictionDecided) {
	grace := time.Second
	if limits.Acting(j.pressure.facts[rec.GetStep().GetCause()].GetThresholds()).GetSoft() {
		grace = j.sim.config.pressed.maxGrace
	}
	if h.evictedAs > 0 && h.evictedAs == h.incarnation {
		grace = min(grace, h.evictedGrace) // it exceeded a limit of its own before
	}
	h.evictedAs, h.evictedWith, h.evictedGrace = h.incarnation, h.newestDigest(), grace
	if h.endsAt >= 0 {
		h.evictedWith = "" // it ends for another reason, and now sooner
	}
	h.terminates(rec.GetSeq(), j.uptimeOf(rec))
	j.book.ending[k.GetUid()] = true
}

// evictionWait is how long the node waits for what a pod frees, from its decision on (actors/node).
const evictionWait = 30 * time.Second

// needed: the threshold was met for its grace period, and what it wants to be left is not there.
func (j *judge) needed(uid string, met *journaletv1.ThresholdMet, now *sampleTaken) {
	i := slices.IndexFunc(j.sim.config.pressed.inEffect(), func(t limits.Threshold) bool {
		return string(t.Signal) == met.GetSignal() && t.Soft == met.GetSoft()
	})
	if i < 0 {
		j.broken(endsOnlyForNeed, uid, "there is no such threshold: %v", met)
		return
	}
	t := j.sim.config.pressed.inEffect()[i]
	m, ok := now.measured[t.Signal]
	if !ok || m.Available >= t.Value.Of(m.Capacity)+t.MinReclaim.Of(m.Capacity) {
		j.broken(endsOnlyForNeed, uid, "%+v is left, measured: %t, and %+v is wanted", m, ok, t)
	}
	begun := false
	for _, at := range j.pressure.times {
		s := j.pressure.samples[at]
		was, ok := s.measured[t.Signal]
		begun = begun || ok && s.at <= now.at-t.Grace && was.Available < t.Value.Of(was.Capacity)
	}
	if !begun && j.clockSet < now.at-time.Hour {
		j.broken(endsOnlyForNeed, uid, "%s is not met for %s: %+v", t.Signal, t.Grace, t)
	}
}

// ranksFirst: no other pod is above its request while this one is not, has a lower priority, or uses more. The node
// decided on record cause: it did not know later ends.
func (j *judge) ranksFirst(cause uint64, k *journaletv1.PodEvictionDecided, sample *sampleTaken) {
	signal := limits.Signal(k.GetSignal())
	mine := j.rankOf(k.GetUid(), signal, sample)
	for _, uid := range slices.Sorted(maps.Keys(sample.shortage.pods)) {
		h := j.history(uid)
		if uid == k.GetUid() || !h.holdsShare && h.releasedBy <= cause || priorityOf(h.admittedAs) >= systemCritical {
			continue
		}
		if its := j.rankOf(uid, signal, sample); its.before(mine) {
			j.broken(rightVictim, k.GetUid(), "it is %+v, and %s is %+v, for %s on %s", mine, uid, its, signal,
				j.sim.config.pressed.layout)
		}
	}
}

// rank is what decides on the order of a pod.
type rank struct {
	above    bool
	priority int32
	excess   int64
}

func (r rank) before(x rank) bool {
	if r.above != x.above {
		return r.above
	}
	return cmp.Or(cmp.Compare(x.priority, r.priority), cmp.Compare(r.excess, x.excess)) > 0
}

// rankOf returns what decides on the order of a pod. The rule is written here a second time, independent of
// actors/pressure.
func (j *judge) rankOf(uid string, signal limits.Signal, sample *sampleTaken) rank {
	h, u := j.history(uid), sample.shortage.pods[uid]
	if h.leftVolume() {
		u.localBytes, u.localInodes = 0, 0 // as with the kubelet, volumes of the pod's own manifest count
	}
	r := rank{priority: priorityOf(h.admittedAs)}
	onImages := signal == limits.ImageFsAvailable || signal == limits.ImageFsInodesFree
	local, layer := true, true
	switch j.sim.config.pressed.layout {
	case journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_OWN_IMAGES:
		local, layer = !onImages, onImages
	case journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT:
		local, layer = !onImages, !onImages
	}
	add := func(counts bool, n int64) {
		if counts {
			r.excess += n
		}
	}
	switch signal {
	case limits.MemoryAvailable:
		r.excess = u.memory - h.share.memory
	case limits.PIDAvailable:
		r.excess = u.tasks
		return r
	case limits.NodeFsInodesFree, limits.ImageFsInodesFree, limits.ContainerFsInodesFree:
		add(local, u.localInodes)
		add(layer, u.layerInodes)
	default:
		add(local, u.localBytes)
		add(layer, u.layerBytes)
		for i := range h.allocatedAs.Spec.Containers {
			r.excess -= h.allocatedAs.Spec.Containers[i].Resources.Requests.StorageEphemeral().Value()
		}
	}
	r.above = r.excess > 0
	return r
}

// holds returns what a pod still has of what a signal is about, empty for nothing. The node does not wait for a
// container that record known and those before it do not show: one of a lost journal, which the runtime had not listed
// yet.
func (j *judge) holds(uid string, signal limits.Signal, known uint64) string {
	o := j.sim.world.objectsOf(uid)
	onDisk := signal.Condition() == corev1.NodeDiskPressure
	for _, c := range o.containers {
		if j.waitsFor(c, known) && (c.alive() || onDisk) {
			return c.id
		}
	}
	if onDisk && j.sim.world.files.disk[uid][scratchVolume] != "" && !j.history(uid).leftVolume() {
		return scratchVolume
	}
	return ""
}

// freeing returns the container of a pod whose memory the kernel still frees in a sample, empty for none.
func (j *judge) freeing(uid string, sample *sampleTaken, known uint64) string {
	for _, l := range sample.shortage.lingering {
		if l.container.uid == uid && j.waitsFor(l.container, known) {
			return l.container.id
		}
	}
	return ""
}

// waitsFor reports whether the node waits for the end of a container of a pod that it ends (holds).
func (j *judge) waitsFor(c *container, known uint64) bool {
	return !c.startedLate && j.history(c.uid).shown[c.id] && j.book.byID[c.id].shownBy <= known
}

// leftVolume reports whether the volume of a pod on disk is of a manifest that only the lost journal had. It stays
// until the pod finishes (docs/SIMULATION.md).
func (h *podHistory) leftVolume() bool {
	return h.hadVolume && !hasVolume(h.allocatedAs, scratchVolume)
}
