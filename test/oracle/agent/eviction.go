package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/actors"
	decider "github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/config"
	driver "github.com/journalet/journalet/runtime/pressure"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/node"
)

// Threshold is one eviction threshold, with its amounts for a capacity.
type Threshold struct {
	Signal         string
	Value, Reclaim int64
	Grace          time.Duration
}

var layouts = map[string]journaletv1.FilesystemLayout{
	node.OneFileSystem:    journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_ONE,
	node.OwnImages:        journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_OWN_IMAGES,
	node.SplitFileSystems: journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT,
}

// Thresholds parses thresholds for an agent that enforces the limits of all pods, for a capacity.
func Thresholds(o node.Eviction, capacity func(signal string) int64) ([]Threshold, error) {
	all, err := thresholdsOf(o)
	var out []Threshold
	for _, t := range pressure.WithContainerFS(all, layouts[o.Layout]) {
		total := capacity(string(t.Signal))
		out = append(out, Threshold{string(t.Signal), t.Value.Of(total), t.MinReclaim.Of(total), t.Grace})
	}
	return out, err
}

func thresholdsOf(o node.Eviction) ([]pressure.Threshold, error) {
	c := config.Defaults()
	c.Eviction.Hard, c.Eviction.Soft, c.Eviction.SoftGrace, c.Eviction.MinReclaim = o.Hard, o.Soft, o.Grace, o.Reclaim
	if c.Eviction.Hard == nil {
		c.Eviction.Hard = map[string]string{}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c.Eviction.Parsed(true), nil
}

// Rank sorts pods for eviction, by the figures of a summary.
func Rank(all []*corev1.Pod, signal, layout string, s *api.Summary) {
	byUID := map[string]*corev1.Pod{}
	for _, p := range all {
		byUID[string(p.UID)] = p
	}
	usage := map[string]*journaletv1.PodUsage{}
	for _, u := range driver.UsageOf(s, pressure.Signal(signal), func(uid string) *corev1.Pod { return byUID[uid] }) {
		usage[u.GetUid()] = u
	}
	var candidates []pressure.Candidate
	for _, p := range all {
		q := pod.AdmissionRequest(&journaletv1.PodRef{Uid: string(p.UID)}, p)
		candidates = append(candidates, pressure.Candidate{
			UID: string(p.UID), Priority: q.GetPriority(), MemoryRequest: q.GetDemand().GetMemoryBytes(),
			StorageRequest: q.GetDemand().GetEphemeralStorageBytes(), Usage: usage[string(p.UID)],
		})
	}
	pressure.Rank(candidates, pressure.Signal(signal), layouts[layout])
	for i := range candidates {
		all[i] = byUID[candidates[i].UID]
	}
}

// Evictions is our driver and our decider in a world.
type Evictions struct {
	world  node.Pressured
	node   *decider.Actor
	driver *driver.Driver
	pods   map[string]*corev1.Pod
	now    time.Time
	seq    uint64
	err    error
	ended  []node.Evicted
	// wants is set while the node waits for a measurement. acting counts the thresholds that act; most is the highest
	// such count when a pod was ended.
	wants        bool
	acting, most int
}

// NewEvictions returns a node that has admitted the pods of a world.
func NewEvictions(o node.Eviction, w node.Pressured, now time.Time) (*Evictions, error) {
	thresholds, err := thresholdsOf(o)
	if err != nil {
		return nil, err
	}
	e := &Evictions{world: w, node: decider.New(), pods: map[string]*corev1.Pod{}, now: now}
	e.driver = driver.New(driver.Options{
		Thresholds: thresholds, Now: func() time.Time { return e.now },
		Measure: func(context.Context) driver.Measurement {
			return driver.Measurement{Signals: signalsOf(w.Summary(e.now)), Layout: layouts[w.Layout()]}
		},
		Usage: func(_ context.Context, s pressure.Signal) []*journaletv1.PodUsage {
			return driver.UsageOf(w.Summary(e.now), s, func(uid string) *corev1.Pod { return e.pods[uid] })
		},
		Sink: func(_ context.Context, fact *journaletv1.Event) error {
			e.acting = 0
			for _, t := range fact.GetPressureObserved().GetThresholds() {
				if t.GetActing() {
					e.acting++
				}
			}
			e.happens(messages.Node, nil, fact)
			return e.err
		},
	})
	e.happens(messages.Agent, nil, messages.NewEvent(&journaletv1.AgentStarted{Config: &journaletv1.AgentConfig{
		NodeName: "n", MaxPods: 110, Sources: []string{messages.APISource, messages.FileSource},
		Allocatable: &journaletv1.NodeCapacity{MilliCpu: 1 << 40, MemoryBytes: 1 << 50, EphemeralStorageBytes: 1 << 50},
		Eviction: &journaletv1.NodeEviction{
			TransitionPeriod: durationpb.New(o.Transition),
			MaxPodGrace:      durationpb.New(time.Duration(o.MaxPodGraceSeconds) * time.Second),
		},
	}}))
	for _, p := range w.Active() {
		e.pods[string(p.UID)] = p
		e.happens(messages.Pod(string(p.UID)), p, messages.NewEvent(admission(p)))
	}
	p := &corev1.Pod{}
	p.UID, p.Name, p.Namespace = dead, dead, "default"
	e.happens(messages.Pod(dead), p, messages.NewEvent(admission(p)))
	e.happens(messages.Pod(dead), nil, messages.NewEvent(&journaletv1.PodTerminated{Uid: dead}))
	return e, e.err
}

// dead is the pod of all dead containers.
const dead = "dead"

// admission returns the request of a pod. A pod that does not name its source is not static, as for the kubelet.
func admission(p *corev1.Pod) *journaletv1.AdmissionRequested {
	ref := &journaletv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name, Digest: p.Name}
	if source, named := p.Annotations[manifest.ConfigSourceAnnotation]; !named || source == messages.APISource {
		ref.Api = &journaletv1.ApiPod{}
	}
	q := pod.AdmissionRequest(ref, p)
	q.Incarnation = 1
	return q
}

// signalsOf returns what a summary reports about the node.
func signalsOf(s *api.Summary) map[pressure.Signal]pressure.Measured {
	out := map[pressure.Signal]pressure.Measured{}
	memory := func(signal pressure.Signal, m *api.MemoryStats) {
		if m != nil {
			out[signal] = pressure.Measured{
				Available: int64(*m.AvailableBytes), Capacity: int64(*m.AvailableBytes + *m.WorkingSetBytes),
			}
		}
	}
	fs := func(bytes, inodes pressure.Signal, f *api.FsStats) {
		if f != nil && f.AvailableBytes != nil {
			out[bytes] = pressure.Measured{Available: int64(*f.AvailableBytes), Capacity: int64(*f.CapacityBytes)}
		}
		if f != nil && f.InodesFree != nil {
			out[inodes] = pressure.Measured{Available: int64(*f.InodesFree), Capacity: int64(*f.Inodes)}
		}
	}
	memory(pressure.MemoryAvailable, s.Node.Memory)
	for _, c := range s.Node.SystemContainers {
		memory(pressure.AllocatableMemoryAvailable, c.Memory)
	}
	fs(pressure.NodeFsAvailable, pressure.NodeFsInodesFree, s.Node.Fs)
	fs(pressure.ImageFsAvailable, pressure.ImageFsInodesFree, s.Node.Runtime.ImageFs)
	fs(pressure.ContainerFsAvailable, pressure.ContainerFsInodesFree, s.Node.Runtime.ContainerFs)
	if r := s.Node.Rlimit; r != nil {
		out[pressure.PIDAvailable] = pressure.Measured{Available: *r.MaxPID - *r.NumOfRunningProcesses, Capacity: *r.MaxPID}
	}
	return out
}

// happens has the node decide on an event, and the world carry out what it decides.
func (e *Evictions) happens(author messages.Ref, m *corev1.Pod, body *journaletv1.Event) {
	events := []actors.Event{{Author: author, Manifest: m, Body: body}}
	for len(events) > 0 && e.err == nil {
		one := events[0]
		events = events[1:]
		e.seq++
		one.Seq, one.Time = e.seq, e.now
		if e.err = e.node.Evolve(one); e.err != nil {
			return
		}
		step := &journaletv1.Step{Cause: e.seq}
		e.err = actors.Decide(e.node, actors.Input{Seq: e.seq, Time: e.now, Events: []actors.Event{one}},
			func(d *journaletv1.Event) error {
				step.Decisions = append(step.Decisions, d)
				for _, then := range e.carryOut(d) {
					events = append(events, actors.Event{Author: messages.Node, Body: messages.NewEvent(then)})
				}
				return e.node.Evolve(actors.Event{
					ID: fmt.Sprint("n", e.seq), Seq: e.seq, Time: e.now, Author: messages.Node, Body: d,
				})
			})
		e.driver.Stored(&journaletv1.Record{Body: &journaletv1.Record_Step{Step: step}})
	}
}

// carryOut carries out a decision, and returns what follows.
func (e *Evictions) carryOut(d *journaletv1.Event) []proto.Message {
	switch k := d.GetKind().(type) {
	case *journaletv1.Event_EvictionProgressed:
		e.wants = k.EvictionProgressed.GetRequestId() != 0
	case *journaletv1.Event_PodReclaimRequested:
		if k.PodReclaimRequested.GetUid() == dead {
			e.world.ReclaimContainers()
		}
		return []proto.Message{&journaletv1.PodReclaimed{Uid: k.PodReclaimRequested.GetUid()}}
	case *journaletv1.Event_ImageReclaimRequested:
		e.world.ReclaimImages()
		return []proto.Message{&journaletv1.ImagesReclaimed{}}
	case *journaletv1.Event_PodEvictionDecided:
		p := e.pods[k.PodEvictionDecided.GetUid()]
		e.most = max(e.most, e.acting)
		grace := k.PodEvictionDecided.GetGrace().AsDuration()
		if own := p.Spec.TerminationGracePeriodSeconds; own != nil { // actors/pod takes the shorter one
			grace = min(grace, time.Duration(*own)*time.Second)
		}
		e.ended = append(e.ended, node.Evicted{
			Pod: p.Name, Reason: k.PodEvictionDecided.GetReason(), Message: k.PodEvictionDecided.GetMessage(), Grace: grace,
		})
		e.world.End(p.Name)
		return []proto.Message{&journaletv1.PodTerminated{Uid: string(p.UID)}}
	}
	return nil
}

// Sample has the driver measure the node at a time, until nothing more is ended. It returns what was ended, in order,
// and how many thresholds acted at most when one was.
func (e *Evictions) Sample(ctx context.Context, at time.Time) (ended []node.Evicted, most int, err error) {
	e.now, e.ended, e.most = at, nil, 0
	e.fire(0)
	for range 100 {
		e.wants = false
		err := cmp.Or(e.err, e.driver.Sample(ctx))
		if e.node.Node().GetPressure().GetStage() == journaletv1.EvictionStage_EVICTION_STAGE_SETTLING {
			e.fire(settles)
		}
		if err != nil || !e.wants {
			return e.ended, e.most, cmp.Or(err, e.err)
		}
	}
	return e.ended, e.most, fmt.Errorf("the node measures without end")
}

// settles is how long the node has the kernel free what a pod held, before it measures again. The world here frees it
// at once, so that no time passes.
const settles = time.Second

// fire fires the timers that are due within a while.
func (e *Evictions) fire(within time.Duration) {
	set := e.node.Timers().GetSet()
	for _, name := range slices.Sorted(maps.Keys(set)) {
		t := set[name]
		if t != nil && !t.GetSetAt().AsTime().Add(t.GetDuration().AsDuration()).After(e.now.Add(within)) {
			e.happens(messages.Node, nil,
				messages.NewEvent(&journaletv1.TimerFired{Name: name, Generation: t.GetGeneration()}))
		}
	}
}

// Conditions returns the conditions of the node, sorted.
func (e *Evictions) Conditions() []string { return e.node.Node().GetPressure().GetConditions() }

// Admit returns the reason of a pod's rejection, empty for none. The node does not remember it.
func (e *Evictions) Admit(p *corev1.Pod) (string, error) {
	state, err := proto.Marshal(e.node.State())
	if err != nil {
		return "", fmt.Errorf("the node's state: %w", err)
	}
	other := decider.New()
	if err := other.Restore(state); err != nil {
		return "", fmt.Errorf("the node's state: %w", err)
	}
	q := actors.Event{Seq: e.seq + 1, Time: e.now, Author: messages.Pod(string(p.UID)), Manifest: p,
		Body: messages.NewEvent(admission(p))}
	if err := other.Evolve(q); err != nil {
		return "", fmt.Errorf("request the admission of %s: %w", p.Name, err)
	}
	reason := ""
	err = actors.Decide(other, actors.Input{Seq: q.Seq, Events: []actors.Event{q}}, func(d *journaletv1.Event) error {
		if a := d.GetAdmissionDecided(); a != nil {
			reason = a.GetReason()
		}
		return other.Evolve(actors.Event{ID: "n", Seq: q.Seq, Time: e.now, Author: messages.Node, Body: d})
	})
	return reason, err
}
