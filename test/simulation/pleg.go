package simulation

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/pleg"
)

const (
	lookers   = 4
	doubters  = 2
	maxQueued = 4096
)

// watcher stands for runtime/cri/pleg: it looks at pods when something hints at them and relists, and tells what is new.
type watcher struct {
	run   *run
	noise *rand.Rand
	// stamps are the real ones.
	stamps *pleg.Stamps
	pods   map[string]*watched
	// queue are the pods to be looked at, doubts those whose last look failed.
	queue, doubts     []string
	looking, doubting int
	events            bool
	relister          *proc
	deepest           int
}

// watched is what is known of one pod (pleg.pod).
type watched struct {
	last                                       *journaletv1.PodObserved
	failed, queued, looking, again, owed, mute bool
	starts                                     map[string]string
}

func newWatcher(r *run) *watcher {
	return &watcher{run: r, noise: stream(r.seed, "looks", r.name()), pods: map[string]*watched{}, stamps: pleg.NewStamps(r.clock.Now)}
}

func (w *watcher) known(uid string) *watched {
	s := w.pods[uid]
	if s == nil {
		s = &watched{}
		w.pods[uid] = s
	}
	return s
}

func (w *watcher) seed(o *journaletv1.PodObserved) {
	w.known(o.GetUid()).last = o
}

// starts tells of a call that makes a container.
func (w *watcher) starts(intent string, req *journaletv1.CallRequested) {
	if k := req.GetStartContainer(); k != nil && k.GetPart() != journaletv1.StartPart_START_PART_START {
		w.startsFor(req.GetPodUid(), k.GetContainer(), intent)
	}
}

func (w *watcher) startsFor(uid, container, intent string) {
	s := w.known(uid)
	if s.starts == nil {
		s.starts = map[string]string{}
	}
	s.starts[container] = intent
}

func (w *watcher) expect(uid string) { w.known(uid).owed = true }

func (w *watcher) hint(uid string) {
	if uid == "" {
		return
	}
	switch s := w.known(uid); {
	case s.looking:
		s.again = true
	case s.queued:
	default:
		w.enqueue(uid, s)
	}
}

func (w *watcher) enqueue(uid string, s *watched) {
	queue := &w.queue
	if s.failed {
		queue = &w.doubts
	}
	if len(*queue) >= maxQueued {
		w.drop(uid, s)
		return
	}
	*queue, s.queued = append(*queue, uid), true
	w.deepest = max(w.deepest, len(*queue))
	w.serveQueues()
}

func (w *watcher) serveQueues() {
	for len(w.queue) > 0 && w.looking < lookers {
		uid := w.queue[0]
		w.queue = w.queue[1:]
		w.looking++
		w.run.clock.start(w.run.life, func(p *proc) { w.serve(p, uid); w.looking--; w.serveQueues() })
	}
	for len(w.doubts) > 0 && w.doubting < doubters {
		uid := w.doubts[0]
		w.doubts = w.doubts[1:]
		w.doubting++
		w.run.clock.start(w.run.life, func(p *proc) { w.serve(p, uid); w.doubting--; w.serveQueues() })
	}
}

func (w *watcher) quiet(uid string) {
	if s := w.pods[uid]; s != nil {
		s.mute = true
	}
}

func (w *watcher) forget(uid string) {
	if s := w.pods[uid]; s != nil {
		s.last, s.owed, s.starts = nil, false, nil
		w.drop(uid, s)
	}
}

func (w *watcher) drop(uid string, s *watched) {
	if s.last == nil && !s.queued && !s.looking && !s.owed && s.starts == nil {
		delete(w.pods, uid)
	}
}

// event is an event of the runtime's stream on its way here: most arrive at once, some late, twice or never.
func (w *watcher) event(uid string) {
	world := w.run.world
	if !w.events || !world.up {
		return
	}
	hear := func() {
		if s := w.pods[uid]; w.events && (s == nil || !s.mute) {
			w.hint(uid)
		}
	}
	if world.clock.uptime < world.eventsBadUntil {
		switch w.noise.IntN(4) {
		case 0:
			return
		case 1:
			w.run.clock.after(w.run.life, between(w.noise, time.Second, time.Minute), hear)
		case 2:
			w.run.clock.after(w.run.life, between(w.noise, 0, 5*time.Second), hear)
		}
	}
	w.run.clock.after(w.run.life, between(w.noise, 100*time.Microsecond, 5*time.Millisecond), hear)
}

// relist lists everything by the period, and keeps the stream of events open.
func (w *watcher) relist(p *proc) {
	w.relister = p
	downSince, stream := time.Duration(-1), w.run.world.run
	for {
		world := w.run.world
		if !world.up || stream != world.run {
			if w.events, stream = false, world.run; downSince < 0 {
				downSince = world.clock.uptime
			}
		} else if !w.events && world.clock.uptime-downSince > time.Second {
			w.events, downSince = true, -1
		}
		w.relistOnce(p)
		period := pleg.RelistWithoutEvents
		if w.events {
			period = pleg.RelistWithEvents
		}
		p.sleep(period)
	}
}

func (w *watcher) relistOnce(p *proc) {
	shown := map[string]map[string]int32{}
	world := w.run.world
	list := func(containers bool) error {
		return world.rpc(p, 4*tookLook, pleg.RelistTimeout/2, func(bool) error {
			for _, o := range world.objects {
				if o.empty() {
					continue
				}
				if shown[o.uid] == nil {
					shown[o.uid] = map[string]int32{}
				}
				if !containers {
					for _, x := range o.sandboxes {
						shown[o.uid][x.id] = int32(x.state())
					}
					continue
				}
				for _, c := range o.containers {
					shown[o.uid][c.id] = int32(c.state)
				}
			}
			return nil
		})
	}
	if list(false) != nil || list(true) != nil {
		return
	}
	for uid, s := range w.pods {
		if shown[uid] == nil && (s.owed || s.last != nil && !pleg.IsEmpty(s.last)) {
			shown[uid] = map[string]int32{}
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(shown)) {
		s := w.known(uid)
		switch {
		case s.queued || same(shown[uid], s.last) && !s.owed:
			w.drop(uid, s)
		case s.looking:
			s.again = true
		default:
			w.enqueue(uid, s)
		}
	}
}

// same tells whether an observation covers all that is listed (pleg.listed.same).
func same(l map[string]int32, o *journaletv1.PodObserved) bool {
	if len(l) != len(o.GetSandboxes())+len(o.GetContainers()) {
		return false
	}
	for _, s := range o.GetSandboxes() {
		if got, ok := l[s.GetId()]; !ok || got != int32(s.GetState()) {
			return false
		}
	}
	for _, c := range o.GetContainers() {
		if got, ok := l[c.GetId()]; !ok || pleg.Advance(c.GetState(), journaletv1.ContainerState(got)) != c.GetState() {
			return false
		}
	}
	return true
}

func (w *watcher) serve(p *proc, uid string) {
	s := w.pods[uid]
	s.queued, s.looking = false, true
	last, owed := s.last, s.owed
	s.owed = false
	began := w.stamps.InspectionBegan()
	now, err := w.look(p, uid, began, last)
	if err == nil && now == nil && owed {
		now = &journaletv1.PodObserved{
			Uid: uid, ObservedAt: began, Sandboxes: last.GetSandboxes(), Containers: last.GetContainers(),
		}
	}
	if err == nil && now != nil {
		w.run.fact(p, podRef(uid), &journaletv1.Event{Kind: &journaletv1.Event_PodObserved{PodObserved: now}})
	}
	s.looking, s.failed = false, err != nil
	s.owed = s.owed || owed && err != nil
	if err == nil && now != nil && s.last == last {
		w.known(uid).last = now
	}
	again := s.again && err == nil
	if s.again = false; again {
		w.enqueue(uid, s)
		return
	}
	w.drop(uid, s)
}

// look sees what the runtime shows of one pod: a list of sandboxes, one of containers, statuses, each at a moment of its
// own. It is nil if that is what was told last (pleg.look).
func (w *watcher) look(p *proc, uid string, began *timestamppb.Timestamp, last *journaletv1.PodObserved) (*journaletv1.PodObserved, error) {
	world := w.run.world
	now := &journaletv1.PodObserved{Uid: uid, ObservedAt: began}
	var sandboxes []sandbox
	var containers []container
	err := world.rpc(p, tookLook, pleg.InspectTimeout, func(bool) error {
		for _, x := range world.of(uid).sandboxes {
			sandboxes = append(sandboxes, *x)
		}
		return nil
	})
	if err == nil {
		err = world.rpc(p, tookLook, pleg.InspectTimeout, func(bool) error {
			for _, c := range world.of(uid).containers {
				containers = append(containers, *c)
			}
			return nil
		})
	}
	for i := range sandboxes {
		if err == nil {
			err = w.sandbox(p, &sandboxes[i], last, now)
		}
	}
	for i := range containers {
		if err == nil {
			err = w.container(p, &containers[i], last, now)
		}
	}
	if err != nil {
		return nil, err
	}
	pleg.Sort(now)
	if last == nil && pleg.IsEmpty(now) || last != nil && !pleg.Differs(now, last) {
		return nil, nil
	}
	return now, nil
}

func (w *watcher) sandbox(p *proc, x *sandbox, last, now *journaletv1.PodObserved) error {
	var before *journaletv1.SandboxObservation
	for _, o := range last.GetSandboxes() {
		if o.GetId() == x.id {
			if before = o; o.GetState() == x.state() {
				now.Sandboxes = append(now.Sandboxes, o)
				return nil
			}
		}
	}
	out := &journaletv1.SandboxObservation{
		Id: x.id, Attempt: x.attempt, State: x.state(), CreatedAt: timestamppb.New(x.created), Ips: before.GetIps(), IntentId: x.intent,
	}
	if x.ready {
		var live *sandbox
		if err := w.run.world.rpc(p, tookLook, pleg.InspectTimeout, func(bool) error { live = w.run.world.findSandbox(x.uid, x.id); return nil }); err != nil {
			return err
		}
		if live == nil {
			return nil
		}
		out.State, out.Ips, out.HostNetwork = live.state(), live.ips, proto.Bool(live.hostNetwork)
	}
	now.Sandboxes = append(now.Sandboxes, out)
	return nil
}

func (w *watcher) container(p *proc, c *container, last, now *journaletv1.PodObserved) error {
	var before *journaletv1.ContainerObservation
	for _, o := range last.GetContainers() {
		if o.GetId() == c.id {
			if before = o; pleg.Advance(o.GetState(), c.state) == o.GetState() {
				now.Containers = append(now.Containers, o)
				return nil
			}
		}
	}
	out := &journaletv1.ContainerObservation{
		Id: c.id, Name: c.name, Attempt: c.attempt, SandboxId: c.sandbox, State: c.state, CreatedAt: timestamppb.New(c.created),
		Image: c.image, ImageRef: "sha256:" + c.image, Hash: c.hash, IntentId: c.intent,
	}
	if c.state != created {
		var live *container
		if err := w.run.world.rpc(p, tookLook, pleg.InspectTimeout, func(bool) error { live = w.run.world.findContainer(c.uid, c.id); return nil }); err != nil {
			return err
		}
		if live == nil {
			return nil
		}
		out.State = pleg.Advance(before.GetState(), pleg.Advance(c.state, live.state))
		if !live.started.IsZero() {
			out.StartedAt = timestamppb.New(live.started)
		}
		s := w.known(c.uid)
		first := before == nil || before.GetState() == created
		if first && out.State == running && (s.starts[c.name] != c.intent || c.intent == "") {
			out.Resources = shownResources(live.has)
		}
		if out.State == exited {
			out.FinishedAt, out.ExitCode, out.Reason = timestamppb.New(live.finished), live.code, live.reason
		}
	}
	now.Containers = append(now.Containers, out)
	return nil
}

func (x *sandbox) state() journaletv1.SandboxState {
	if x.ready {
		return journaletv1.SandboxState_SANDBOX_STATE_READY
	}
	return journaletv1.SandboxState_SANDBOX_STATE_NOT_READY
}
