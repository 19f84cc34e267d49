package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Plan is everything that is done to the agent and its world in a run, ordered by time. It follows from the seed.
// Leaving out one op changes no other.
type Plan struct {
	Seed   uint64
	Ops    []Op
	config config
	end    time.Duration // when the faults stop
}

// Op is one action.
type Op struct {
	// N is its index in the whole plan.
	N    int
	At   time.Duration
	Kind string
	// What the kind needs: a file, its content, a duration, and its own randomness.
	file  string
	body  []byte
	lasts time.Duration
	pick  uint64
}

func (o Op) String() string {
	text := fmt.Sprintf("%3d %10s %s", o.N, o.At.Round(time.Millisecond), o.Kind)
	if o.file != "" {
		text += " " + o.file
	}
	if o.lasts != 0 {
		text += " for " + o.lasts.Round(time.Millisecond).String()
	}
	return text
}

// config is what a run is started with.
type config struct {
	files       int
	concurrency uint32
	pulls       uint32
	maxPods     uint32
	maxBackOff  time.Duration
	mishaps     int
	failing     int
	// syncs bounds how late a sync of the journal may be (--journal-sync=interval), 0 for at once.
	syncs time.Duration
	// cpu, in millicores, and memory, in bytes, are allocatable on the node.
	cpu, memory int64
	// setEvery is how many records there are between the sets of snapshots that the run keeps.
	setEvery int
	// url is the configured manifest URL, empty for none. urls is set if the plan ever configures one, etags if the
	// server sends ETags.
	url         string
	urls, etags bool
	// images: the agent observes images and removes them.
	images bool
	// What the kind of the plan adds, by its function: Operated, Clustered, Claimed, Attached, Sized, Refused, Pressed,
	// Exclusive, Hostile.
	operated, clustered, sized, claimed, attached, refused bool
	pressed                                                *pressed
	hostile                                                *hostile
	managed                                                *managed
}

// PlanOf returns the plan of a seed.
func PlanOf(seed uint64) *Plan { return planWith(seed, 0) }

// planWith returns the plan of a seed with this many files of pods; 0: as the seed says.
func planWith(seed uint64, pods int) *Plan {
	r := stream(seed, "plan")
	p := &Plan{Seed: seed, end: between(r, 5*time.Minute, 20*time.Minute)}
	p.config = config{
		files: 2 + r.IntN(8), concurrency: pick[uint32](r, 1, 2, 4, 8), pulls: 1 + r.Uint32N(4),
		maxPods:    pick[uint32](r, 4, 110, 110, 110),
		maxBackOff: pick(r, 10*time.Second, time.Minute, 300*time.Second), mishaps: pick(r, 0, 30, 100, 300),
		failing: pick(r, 0, 0, 20), syncs: pick(r, 0, 0, 0, time.Second, 5*time.Second),
	}
	if chance(r, 16) {
		p.config.files, p.config.concurrency = 50, 8
	}
	if pods > 0 {
		p.config.files, p.config.concurrency = pods, 8
	}
	p.nodeSize(stream(seed, "plan of the node"))
	p.workload(stream(seed, "plan of files"))
	p.urlWorkload(stream(seed, "plan of the URL"))
	p.hostPorts(stream(seed, "plan of host ports"))
	p.faults(stream(seed, "plan of faults"))
	p.clockAndStarts(stream(seed, "plan of clock and starts"))
	p.crowd(stream(seed, "plan of a crowd"))
	p.lostStarts(stream(seed, "plan of lost starts"))
	p.lostJournalAndURL(stream(seed, "plan of a lost journal and the URL"))
	p.objects(stream(seed, "plan of objects"))
	p.images(stream(seed, "plan of images"))
	p.lostJournalAndResizes(stream(seed, "plan of a lost journal and resizes"))
	p.inOrder()
	return p
}

// workload plans the files: pods that come, change, have names and UIDs in common, and go.
func (p *Plan) workload(r *rand.Rand) {
	write := func(at time.Duration, i int) {
		name, uid := fmt.Sprintf("p%d", i), ""
		if i%3 == 0 {
			uid = fmt.Sprintf("uid-%d", i)
		}
		if chance(r, 12) {
			name = fmt.Sprintf("p%d", r.IntN(p.config.files))
		}
		if chance(r, 20) {
			uid = fmt.Sprintf("uid-%d", r.IntN(p.config.files))
		}
		op := Op{At: min(at, p.end), Kind: "write", file: fmt.Sprintf("f%d.json", i), body: manifestOf(r, name, uid)}
		if chance(r, 25) {
			op.body = []byte("{not a pod")
		}
		p.Ops = append(p.Ops, op)
	}
	for i := range p.config.files {
		write(between(r, 0, pick(r, 10*time.Millisecond, 20*time.Second, 2*time.Minute)), i)
	}
	for range int(p.end/time.Minute) * (1 + p.config.files/8) {
		at, i := between(r, 20*time.Second, p.end), r.IntN(p.config.files)
		switch r.IntN(6) {
		case 4, 5:
			p.Ops = append(p.Ops, Op{At: at, Kind: "resize", pick: r.Uint64()})
		case 0:
			p.Ops = append(p.Ops, Op{At: at, Kind: "remove", file: fmt.Sprintf("f%d.json", i)})
		case 1:
			// Several changes in a row, faster than the agent can follow.
			for range 2 + r.IntN(6) {
				write(at+between(r, 0, 3*time.Second), i)
			}
		default:
			write(at, i)
		}
	}
}

// faultKinds are the faults: how often each is drawn, how long it lasts, and what it does. The sorted names are drawn
// from, so a new name changes the plans.
var faultKinds = map[string]struct {
	weight   int
	min, max time.Duration
	do       func(*sim, Op)
}{
	"kill the agent":    {12, time.Millisecond, time.Minute, (*sim).killAgent},
	"restart the agent": {4, 10 * time.Millisecond, 10 * time.Second, (*sim).restartAgent},
	"other settings":    {2, 10 * time.Millisecond, time.Second, (*sim).otherSettings},
	"snapshot":          {4, 0, 0, func(s *sim, _ Op) { s.snapshot() }},
	"keep a snapshot":   {0, 0, 0, func(s *sim, _ Op) { s.keepSet() }},
	"kill the runtime":  {5, 100 * time.Millisecond, 2 * time.Minute, (*sim).killRuntime},
	"the runtime hangs": {4, time.Second, 4 * time.Minute,
		func(s *sim, o Op) { s.world.hungUntil = max(s.world.hungUntil, s.clock.uptime+o.lasts) }},
	"the runtime is slow": {4, 10 * time.Second, 3 * time.Minute,
		func(s *sim, o Op) { s.world.slowUntil = s.clock.uptime + o.lasts }},
	"no network":      {2, time.Second, 2 * time.Minute, (*sim).noNetwork},
	"no registry":     {3, time.Second, 5 * time.Minute, (*sim).noRegistry},
	"images are gone": {2, 0, 0, func(s *sim, _ Op) { clear(s.world.images) }},
	"events are unreliable": {4, 10 * time.Second, 5 * time.Minute,
		func(s *sim, o Op) { s.world.eventsBadUntil = s.clock.uptime + o.lasts }},
	"a container is forgotten": {3, 0, 0, (*sim).forgetContainer},
	"a pod is forgotten":       {2, 0, 0, (*sim).forgetPod},
	"a container dies":         {5, 0, 0, (*sim).containerDies},
	"a sandbox dies":           {4, 0, 0, (*sim).sandboxDies},
	"the state of one is lost": {2, 0, 0, (*sim).loseTrack},
	"reboot":                   {2, time.Second, time.Minute, (*sim).rebootNode},
	"the power is cut":         {2, time.Second, time.Minute, (*sim).cutPower},
	"the journal is lost":      {1, time.Millisecond, time.Minute, (*sim).loseJournal},
	"the clock is set forward": {1, time.Second, 2 * time.Hour, func(s *sim, o Op) { s.setClock(o.lasts) }},
	"the clock is set back":    {1, time.Second, 2 * time.Hour, func(s *sim, o Op) { s.setClock(-o.lasts) }},
	"the disk stalls": {3, 100 * time.Millisecond, time.Minute,
		func(s *sim, o Op) { s.journal.stalledUntil = max(s.journal.stalledUntil, s.clock.uptime+o.lasts) }},
	"an actor is slow":         {3, time.Second, 20 * time.Second, (*sim).wedgeActor},
	"the next start vanishes":  {0, 0, 0, func(s *sim, _ Op) { s.world.atStart = s.world.vanish }},
	"a replacement vanishes":   {0, 0, 0, (*sim).vanishReplacement},
	"the node's actor is slow": {0, 0, 0, func(s *sim, o Op) { s.wedge(messages.Node, o.lasts) }},
	"the next start is lost":   {2, 10 * time.Millisecond, 30 * time.Second, (*sim).loseNextStart},
	"the clock is set at a start": {0, 0, 0,
		func(s *sim, o Op) { s.world.atStart = func(*container) { s.setClock(-o.lasts) } }},
	"other conditions": {5, 0, 0, (*sim).otherConditions},
	"kill around a start": {8, time.Millisecond, 10 * time.Second,
		killAt(onceBegins, onceUnderWay, onceDone, onceUnrecorded)},
	"kill around a timer":      {3, time.Millisecond, 10 * time.Second, killAt(timerFired, timerRecorded)},
	"an object changes":        {0, 0, 0, (*sim).otherObject},
	"storage is exceeded":      {0, 0, 0, (*sim).exceedStorage},
	"a volume goes":            {0, 0, 0, (*sim).loseVolume},
	"images arrive":            {0, 0, 0, (*sim).imagesArrive},
	"an operator wants images": {0, 0, 0, (*sim).operatorWantsImages},
	"mounts hang":              {0, 0, 0, (*sim).hangMounts},
	"servers are away":         {0, 0, 0, (*sim).takeServersAway},
	"the URL fails":            {3, time.Second, 4 * time.Minute, (*sim).urlFails},
	"restart a pod":            {0, 0, 0, (*sim).restartPod},
	"drain":                    {0, 0, 0, (*sim).drain},
	"shut down":                {0, 0, 0, (*sim).shutDown},
	"the node is short":        {0, 0, 0, (*sim).beShort},
	"a signal has no figures":  {0, 0, 0, (*sim).hideSignal},
	"another URL":              {1, 10 * time.Millisecond, time.Second, (*sim).otherURL},
}

func (p *Plan) faults(r *rand.Rand) {
	var bag []string
	for _, kind := range slices.Sorted(maps.Keys(faultKinds)) {
		for range faultKinds[kind].weight {
			bag = append(bag, kind)
		}
	}
	for at := between(r, 0, 30*time.Second); at < p.end; at += between(r, time.Second,
		pick(r, 5*time.Second, time.Minute)) {
		kind := pick(r, bag...)
		m := faultKinds[kind]
		lasts := between(r, m.min, m.max)
		if chance(r, 2) {
			lasts = between(r, m.min, min(m.max, m.min*10))
		}
		p.Ops = append(p.Ops, Op{At: at, Kind: kind, lasts: lasts, pick: r.Uint64()})
	}
}

// clockAndStarts has containers of some plans vanish, unobserved, that start while the clock is behind. In others the
// clock is set back between a start and its response.
func (p *Plan) clockAndStarts(r *rand.Rand) {
	switch r.IntN(6) {
	case 0, 1:
	case 2:
		for range 2 + r.IntN(8) {
			p.Ops = append(p.Ops,
				Op{At: between(r, 0, p.end), Kind: "the clock is set at a start",
					lasts: between(r, time.Millisecond, pick(r, 50*time.Millisecond, 10*time.Second))})
		}
		return
	default:
		return
	}
	at := between(r, time.Minute, p.end)
	p.Ops = append(p.Ops,
		Op{At: at, Kind: "the clock is set back", lasts: between(r, time.Second, pick(r, time.Minute, 2*time.Hour))})
	for range 1 + r.IntN(3) {
		at += between(r, 0, 30*time.Second)
		p.Ops = append(p.Ops, Op{At: min(at, p.end), Kind: "the next start vanishes"})
	}
}

// lostStarts has several starts of containers that may run only once fail in some plans, with their outcome unknown.
func (p *Plan) lostStarts(r *rand.Rand) {
	if !chance(r, 4) {
		return
	}
	for range 2 + r.IntN(8) {
		p.Ops = append(p.Ops, Op{
			At: between(r, 0, p.end), Kind: pick(r, "the next start is lost", "a replacement vanishes"),
			lasts: between(r, 10*time.Millisecond, 10*time.Second),
		})
	}
}

// lostJournalAndURL has the agent of some plans lose its journal while the URL fails: the pods of the URL are not
// named by any source until it works again.
func (p *Plan) lostJournalAndURL(r *rand.Rand) {
	if !p.config.urls || !chance(r, 4) {
		return
	}
	at := between(r, time.Minute, p.end)
	p.Ops = append(p.Ops,
		Op{At: at, Kind: "the URL fails", lasts: between(r, 10*time.Second, 4*time.Minute), pick: r.Uint64()},
		Op{At: min(at+between(r, 0, 10*time.Second), p.end), Kind: "the journal is lost",
			lasts: between(r, time.Millisecond, 10*time.Second)})
}

// lostJournalAndResizes plans that the journal is lost, and that files are resized before the agent starts again.
// There are no other faults, so that containers are still there when it starts.
func (p *Plan) lostJournalAndResizes(r *rand.Rand) {
	if p.config.syncs == 0 || !chance(r, 5) {
		return
	}
	p.Ops = slices.DeleteFunc(p.Ops, func(o Op) bool { return faultKinds[o.Kind].do != nil })
	at := between(r, time.Minute, p.end)
	p.Ops = append(p.Ops, Op{At: at, Kind: "the journal is lost", lasts: between(r, 5*time.Second, 20*time.Second)})
	for range 3 {
		at := min(at+between(r, time.Millisecond, 4*time.Second), p.end)
		p.Ops = append(p.Ops, Op{At: at, Kind: "resize", pick: r.Uint64()})
	}
}

func (s *sim) do(o Op) {
	switch o.Kind {
	case "write":
		s.directory.write(s.manifests, o.file, o.body)
	case "remove":
		s.directory.remove(o.file)
	case "resize":
		s.resizeSome(o)
	case "serve":
		s.serve(o.body)
	default:
		for _, do := range []func(*sim, Op){
			clusterOp(o.Kind), pluginOps[o.Kind], claimOps[o.Kind], volumeOps[o.Kind], kubelets[o.Kind], refusalOps[o.Kind],
			faultKinds[o.Kind].do,
		} {
			if do != nil {
				do(s, o)
			}
		}
	}
}

// later does something after d, also when the faults have ended.
func (s *sim) later(d time.Duration, do func()) { s.clock.after(nil, d, do) }

// loseNextStart has the runtime die during the next start of a container that may run only once, and forget the
// container: whether it ran cannot be found out.
func (s *sim) loseNextStart(o Op) {
	s.atNextStart(func(c *container) bool { return runsOnceOnly(c.manifest, c.spec) && s.world.up }, func(c *container) {
		s.world.vanish(c)
		s.killRuntime(o)
	})
}

// vanishReplacement has a container that may run only once vanish when it starts in place of another one.
func (s *sim) vanishReplacement(Op) {
	s.atNextStart(func(c *container) bool { return runsOnceOnly(c.manifest, c.spec) && c.attempt > 0 }, s.world.vanish)
}

// atNextStart does something to the next started container that matches, before its start is answered.
func (s *sim) atNextStart(match func(*container) bool, do func(*container)) {
	s.world.atStart = func(c *container) {
		switch {
		case s.world.calm:
		case match(c):
			do(c)
		case s.world.atStart == nil:
			s.atNextStart(match, do)
		}
	}
}

func (s *sim) killAgent(o Op) {
	if s.agent != nil {
		s.crash()
		s.later(o.lasts, s.start)
	}
}

func (s *sim) restartAgent(o Op) {
	if s.agent != nil {
		s.stop()
		s.later(o.lasts, s.start)
	}
}

func (s *sim) otherSettings(o Op) {
	s.config.concurrency = []uint32{1, 2, 4, 8}[o.pick%4]
	s.config.maxBackOff = []time.Duration{5 * time.Second, time.Minute, 300 * time.Second}[o.pick%3]
	s.restartAgent(o)
}

func (s *sim) killRuntime(o Op) {
	if !s.world.up {
		return
	}
	s.world.killRuntime()
	s.later(o.lasts, s.world.startRuntime)
}

func (s *sim) noNetwork(o Op) {
	s.world.networkReady = false
	s.later(o.lasts, func() { s.world.networkReady = true })
}

func (s *sim) noRegistry(o Op) {
	s.world.registryUp = false
	s.later(o.lasts, func() { s.world.registryUp = true })
}

// some returns one of the pods that the runtime has, nil if it has no pod.
func (s *sim) some(o Op) *objects {
	var all []*objects
	for _, x := range s.world.objects {
		if !x.empty() {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[o.pick%uint64(len(all))]
}

func (s *sim) someContainer(o Op) *container {
	x := s.some(o)
	if x == nil || len(x.containers) == 0 {
		return nil
	}
	return x.containers[o.pick/7%uint64(len(x.containers))]
}

func (s *sim) forgetContainer(o Op) {
	if c := s.someContainer(o); c != nil {
		s.world.vanish(c)
	}
}

func (s *sim) forgetPod(o Op) {
	x := s.some(o)
	if x == nil {
		return
	}
	for len(x.containers) > 0 {
		s.world.vanish(x.containers[0])
	}
	x.sandboxes = nil
}

func (s *sim) containerDies(o Op) {
	if c := s.someContainer(o); c != nil && c.alive() {
		s.world.exit(c, 137, "OOMKilled")
	}
}

func (s *sim) sandboxDies(o Op) {
	if x := s.some(o); x != nil {
		for _, b := range x.sandboxes {
			s.world.killSandbox(b)
		}
	}
}

func (s *sim) loseTrack(o Op) {
	if c := s.someContainer(o); c != nil && c.state == running {
		c.state = unknown
	}
}

// rebootNode ends the agent, the runtime and everything that runs.
func (s *sim) rebootNode(o Op) {
	s.crash()
	s.boots++
	s.world.killRuntime()
	s.world.reboot()
	s.later(o.lasts/2, s.world.startRuntime)
	s.later(o.lasts, s.start)
}

// cutPower is a reboot that also loses what was not synced, acknowledged or not.
func (s *sim) cutPower(o Op) {
	s.rebootNode(o)
	if s.config.syncs == 0 {
		return
	}
	before := len(s.journal.stored)
	if s.journal.lose(s.clock.uptime-time.Duration(o.pick%uint64(s.config.syncs))) == 0 {
		return
	}
	if s.barrier > len(s.journal.stored) {
		s.snapshots, s.barrier = nil, 0
	}
	s.damage = &journaletv1.JournalDamaged{ExpectedSeq: uint64(before), FoundSeq: uint64(len(s.journal.stored)),
		Message: "the end is missing"}
	s.judge.rebuild()
}

func (s *sim) wedgeActor(o Op) {
	if s.agent == nil {
		return
	}
	refs := s.agent.cells.Refs()
	if ref := refs[o.pick%uint64(len(refs))]; ref != messages.Agent {
		s.wedge(ref, o.lasts)
	}
}

// wedge keeps an actor from handling records for a while.
func (s *sim) wedge(ref messages.Ref, lasts time.Duration) {
	if s.agent != nil {
		s.agent.wedged[ref] = s.clock.uptime + lasts
	}
}
