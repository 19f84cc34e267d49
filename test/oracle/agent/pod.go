package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/pleg"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/fakecri"
	"github.com/journalet/journalet/test/oracle/node"
)

// Pod is one pod's decider with the driver behind it.
type Pod struct {
	*Driver
	opts   node.Options
	actor  *pod.Actor
	fake   *fakecri.Runtime
	last   *journaletv1.PodObserved
	seq    uint64
	queue  []*journaletv1.Event
	ids    int
	timers map[string]timer
	steps  int
	probes Probes
	// Sleep, if not nil, advances the time instead of running a hook that sleeps.
	Sleep func(time.Duration)
}

// Probes holds the results of probes, by container id and kind. A missing probe has no result yet.
type Probes map[string]map[journaletv1.ProbeKind]bool

type timer struct {
	generation uint64
	at         time.Time
}

// NewPod returns the decider of an admitted pod, after its first observation.
func NewPod(ctx context.Context, o node.Options, fake *fakecri.Runtime, parsed manifest.Parsed, probes Probes) (*Pod,
	error) {
	p := &Pod{
		Driver: NewDriver(o, fake, parsed), opts: o, fake: fake, actor: pod.New(string(parsed.Pod.UID)),
		timers: map[string]timer{}, probes: probes,
	}
	m := parsed.Pod
	ref := &journaletv1.PodRef{Uid: string(m.UID), Namespace: m.Namespace, Name: m.Name, Digest: parsed.Digest}
	if o.MaxBackOff > 0 {
		p.queue = append(p.queue,
			&journaletv1.Event{Kind: &journaletv1.Event_AgentStarted{AgentStarted: &journaletv1.AgentStarted{
				Config: &journaletv1.AgentConfig{MaxContainerBackOff: durationpb.New(o.MaxBackOff)},
			}}})
	}
	if err := p.observe(ctx); err != nil {
		return nil, err
	}
	p.queue = append(p.queue, &journaletv1.Event{Kind: &journaletv1.Event_PodUpdated{PodUpdated: &journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_ADD, Source: messages.FileSource, Pod: ref,
	}}})
	return p, p.Settle(ctx)
}

// Settle carries out decisions, with an observation after each call, until no event is left.
func (p *Pod) Settle(ctx context.Context) error {
	for len(p.queue) > 0 {
		if p.steps++; p.steps > maxSteps {
			return fmt.Errorf("the pod's decider has not settled after %d records", maxSteps)
		}
		e := p.queue[0]
		p.queue = p.queue[1:]
		if err := p.record(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// Observe observes the pod, and settles.
func (p *Pod) Observe(ctx context.Context) error {
	if err := p.observe(ctx); err != nil {
		return err
	}
	return p.Settle(ctx)
}

// Next returns when the earliest timer fires: in the far future if none is set.
func (p *Pod) Next() time.Time {
	at := never
	for _, t := range p.timers {
		if t.at.Before(at) {
			at = t.at
		}
	}
	return at
}

// Fire fires the timers that are due, and settles.
func (p *Pod) Fire(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(p.timers)) {
		t := p.timers[name]
		if t.at.After(p.fake.Now()) {
			continue
		}
		delete(p.timers, name)
		p.queue = append(p.queue, &journaletv1.Event{Kind: &journaletv1.Event_TimerFired{
			TimerFired: &journaletv1.TimerFired{Name: name, Generation: t.generation},
		}})
	}
	return p.Settle(ctx)
}

// Remove removes the pod from its source, and settles.
func (p *Pod) Remove(ctx context.Context) error {
	p.queue = append(p.queue, &journaletv1.Event{Kind: &journaletv1.Event_PodUpdated{PodUpdated: &journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_REMOVE, Source: messages.FileSource,
		Pod: &journaletv1.PodRef{Uid: string(p.parsed.Pod.UID), Namespace: p.parsed.Pod.Namespace, Name: p.parsed.Pod.Name,
			Digest: p.parsed.Digest},
	}}})
	return p.Settle(ctx)
}

// Update changes the pod's manifest, with the same UID, and settles. The node allocates every resize.
func (p *Pod) Update(ctx context.Context, to manifest.Parsed) error {
	p.later[to.Digest] = to.Pod
	p.queue = append(p.queue, &journaletv1.Event{Kind: &journaletv1.Event_PodUpdated{PodUpdated: &journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_UPDATE, Source: messages.FileSource,
		Pod: &journaletv1.PodRef{Uid: string(to.Pod.UID), Namespace: to.Pod.Namespace, Name: to.Pod.Name, Digest: to.Digest},
	}}})
	return p.Settle(ctx)
}

// Removed reports whether the pod ends because its last manifest was no update of it.
func (p *Pod) Removed() bool { return p.actor.Pod().GetRemoved() }

// View returns the pod as we report it.
func (p *Pod) View() *corev1.Pod {
	return p.actor.View(pod.Node{HostIPs: p.opts.HostIPs, RuntimeName: fakecri.Name})
}

// record gives one event to the decider, and carries out its decisions.
func (p *Pod) record(ctx context.Context, body *journaletv1.Event) error {
	p.seq++
	e := actors.Event{Seq: p.seq, Time: p.fake.Now(), Author: messages.Agent, Body: body}
	if body.GetPodUpdated() != nil {
		e.Manifest = p.parsed.Pod
		if pod := p.later[body.GetPodUpdated().GetPod().GetDigest()]; pod != nil {
			e.Manifest = pod
		}
	}
	if d := body.GetResizeDecided(); d != nil {
		e.Manifest = p.later[d.GetDigest()]
	}
	if err := p.actor.Evolve(e); err != nil {
		return fmt.Errorf("fold %s: %w", messages.EventName(body), err)
	}
	var decided []actors.Event
	err := actors.Decide(p.actor, actors.Input{Seq: p.seq, Time: e.Time, Events: []actors.Event{e}},
		func(d *journaletv1.Event) error {
			p.ids++
			decision := actors.Event{
				ID: fmt.Sprintf("d%d", p.ids), Seq: p.seq, Time: e.Time, Author: messages.Pod(string(p.parsed.Pod.UID)), Body: d,
			}
			decided = append(decided, decision)
			return p.actor.Evolve(decision)
		})
	if err != nil {
		return fmt.Errorf("decide on %s: %w", messages.EventName(body), err)
	}
	for _, d := range decided {
		if err := p.carryOut(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pod) carryOut(ctx context.Context, d actors.Event) error {
	uid := string(p.parsed.Pod.UID)
	switch k := d.Body.GetKind().(type) {
	case *journaletv1.Event_AdmissionRequested:
		p.queue = append(p.queue, &journaletv1.Event{Kind: &journaletv1.Event_AdmissionDecided{
			AdmissionDecided: &journaletv1.AdmissionDecided{Uid: uid, Admitted: true,
				Incarnation: k.AdmissionRequested.GetIncarnation()},
		}})
	case *journaletv1.Event_ResizeRequested:
		q := k.ResizeRequested
		p.queue = append(p.queue, &journaletv1.Event{Kind: &journaletv1.Event_ResizeDecided{
			ResizeDecided: &journaletv1.ResizeDecided{Uid: uid, Digest: q.GetDigest(), Allocated: true,
				RequestId: q.GetRequestId()},
		}})
	case *journaletv1.Event_ImagePullRequested:
		pull := &journaletv1.CallRequested{Work: &journaletv1.CallRequested_PullImage{
			PullImage: &journaletv1.PullImage{Image: k.ImagePullRequested.GetImage()},
		}}
		if _, err := p.do(ctx, d.ID, pull); err != nil {
			return err
		}
		p.queue = append(p.queue, &journaletv1.Event{Kind: &journaletv1.Event_ImagePullDecided{
			ImagePullDecided: &journaletv1.ImagePullDecided{Uid: uid, Image: k.ImagePullRequested.GetImage()},
		}})
	case *journaletv1.Event_TimerSet:
		p.timers[k.TimerSet.GetName()] = timer{k.TimerSet.GetGeneration(), d.Time.Add(k.TimerSet.GetDuration().AsDuration())}
	case *journaletv1.Event_TimerCleared:
		delete(p.timers, k.TimerCleared.GetName())
	case *journaletv1.Event_ProbesSet:
		p.probe(k.ProbesSet)
	case *journaletv1.Event_CallRequested:
		done := p.sleep(d.ID, k.CallRequested.GetRunHook())
		if done == nil {
			var err error
			if done, err = p.do(ctx, d.ID, k.CallRequested); err != nil {
				return err
			}
		}
		done.EndedAt = timestamppb.New(d.Time)
		p.queue = append(p.queue, &journaletv1.Event{Kind: &journaletv1.Event_CallFinished{CallFinished: done}})
		return p.observe(ctx)
	}
	return nil
}

// sleep returns the outcome of a preStop hook that sleeps, after its time or its timeout; nil for every other call.
func (p *Pod) sleep(id string, hook *journaletv1.RunHook) *journaletv1.CallFinished {
	if hook == nil || p.Sleep == nil {
		return nil
	}
	out := &journaletv1.CallFinished{IntentId: id}
	for _, c := range p.parsed.Pod.Spec.Containers {
		if c.Name != hook.GetContainer() || c.Lifecycle.PreStop.Sleep == nil {
			continue
		}
		takes := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
		if most := hook.GetTimeout().AsDuration(); takes > most {
			takes, out.Error = most, journaletv1.CallError_CALL_ERROR_HOOK
		}
		p.Sleep(takes)
		return out
	}
	return nil
}

// probe queues the results of the probes that are set.
func (p *Pod) probe(set *journaletv1.ProbesSet) {
	for _, kind := range set.GetKinds() {
		success, found := p.probes[set.GetContainerId()][kind]
		if !found {
			continue
		}
		p.queue = append(p.queue,
			&journaletv1.Event{Kind: &journaletv1.Event_ProbeResult{ProbeResult: &journaletv1.ProbeResult{
				Uid: string(p.parsed.Pod.UID), Container: set.GetContainer(), ContainerId: set.GetContainerId(), Kind: kind,
				Success: success,
			}}})
	}
}

// observe has the PLEG inspect the pod once, and queues its observation.
func (p *Pod) observe(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	observed := make(chan *journaletv1.PodObserved, 1)
	watcher := pleg.New(pleg.Options{
		Conn: fakecri.Conn{Runtime: p.fake}, Owner: cri.Owner{AgentID: ID}, RootDir: p.opts.RootDir,
		PodLogDir: p.opts.PodLogDir,
		HostIPs:   p.opts.HostIPs,
		Clock:     clockOf{p.fake},
		Sink: func(_ context.Context, o *journaletv1.PodObserved) error {
			select {
			case observed <- o:
			default:
			}
			return nil
		},
	})
	uid := string(p.parsed.Pod.UID)
	watcher.Expect(uid)
	ended := make(chan error, 1)
	go func() { ended <- watcher.Run(ctx) }()
	watcher.Hint(uid)
	select {
	case o := <-observed:
		stop()
		<-ended
		p.last = o
		p.queue = append(p.queue, &journaletv1.Event{Kind: &journaletv1.Event_PodObserved{PodObserved: o}})
		return nil
	case err := <-ended:
		return fmt.Errorf("the PLEG ended: %w", err)
	case <-time.After(observeTimeout):
		return fmt.Errorf("no observation of the PLEG within %s", observeTimeout)
	}
}

// observeTimeout bounds one observation. The fake runtime returns at once.
const observeTimeout = 30 * time.Second

// clockOf is the fake runtime's clock. Its timers never fire.
type clockOf struct{ fake *fakecri.Runtime }

var _ clock.Clock = clockOf{}

func (c clockOf) Now() time.Time { return c.fake.Now() }

func (clockOf) AfterFunc(time.Duration, func()) func() bool { return func() bool { return true } }

// Observed returns the last observation.
func (p *Pod) Observed() *journaletv1.PodObserved { return p.last }
