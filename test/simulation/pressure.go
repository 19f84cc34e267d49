package simulation

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/actors/pod"
	limits "github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/pressure"
)

// What a node has, and what its pods and others use of it. The driver of runtime/pressure is the real one; what it
// reads is a model.

// Capacities of a node: bytes of memory and of each file system, numbers of inodes and of tasks.
const (
	nodeBytes  = 1 << 40
	nodeNumber = 1 << 20
)

// pressed is what the plan of a node under pressure configures.
type pressed struct {
	layout     journaletv1.FilesystemLayout
	thresholds []limits.Threshold
	transition time.Duration
	maxGrace   time.Duration
}

// Pressed returns the plan of a seed with a node that runs short of memory, storage, inodes and processes.
func Pressed(seed uint64) *Plan {
	p := PlanOf(seed)
	r := stream(seed, "plan of pressure")
	p.config.pressed = pressureOf(r)
	for at := between(r, 10*time.Second, time.Minute); at < p.end; at += between(r, 10*time.Second, 4*time.Minute) {
		p.Ops = append(p.Ops, Op{
			At: at, Kind: pick(r, "the node is short", "the node is short", "a signal has no figures"),
			lasts: between(r, 2*time.Second, 3*time.Minute), pick: r.Uint64(),
		})
	}
	p.inOrder()
	return p
}

// inOrder sorts and numbers the ops.
func (p *Plan) inOrder() {
	slices.SortStableFunc(p.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
	for i := range p.Ops {
		p.Ops[i].N = i
	}
}

func pressureOf(r *rand.Rand) *pressed {
	n := &pressed{
		layout: pick(r, journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_ONE,
			journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_OWN_IMAGES, journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT),
		transition: pick(r, 30*time.Second, time.Minute, 5*time.Minute), maxGrace: pick(r, 0, 5*time.Second, 20*time.Second),
	}
	for _, s := range limits.Signals {
		if s == limits.AllocatableMemoryAvailable || s.Resource() != corev1.ResourceMemory && chance(r, 3) ||
			s == limits.ContainerFsAvailable || s == limits.ContainerFsInodesFree {
			continue
		}
		// Between them lies less than what a pod uses: it is met, and then acts, or not.
		unit := int64(nodeNumber / 1000)
		if s.Bytes() {
			unit = nodeBytes / 1000
		}
		more := limits.Amount{}
		if chance(r, 2) {
			more.Quantity = 1 + r.Int64N(unit)
		}
		hard := limits.Threshold{Signal: s, Value: limits.Amount{Percentage: pick[float32](r, .05, .1)}, MinReclaim: more}
		soft := limits.Threshold{
			Signal: s, Value: limits.Amount{Quantity: 100*unit + r.Int64N(50*unit)}, Text: "soft", Soft: true,
			Grace: between(r, time.Second, 40*time.Second), MinReclaim: more,
		}
		switch r.IntN(3) {
		case 0:
			n.thresholds = append(n.thresholds, hard)
		case 1:
			n.thresholds = append(n.thresholds, soft)
		default:
			n.thresholds = append(n.thresholds, hard, soft)
		}
	}
	return n
}

// inEffect returns the thresholds, also the thresholds that follow from the file systems.
func (n *pressed) inEffect() []limits.Threshold {
	return limits.WithContainerFS(n.thresholds, n.layout)
}

// eviction returns what the node has to know; nil for a plan without pressure.
func (n *pressed) eviction() *journaletv1.NodeEviction {
	if n == nil {
		return nil
	}
	return &journaletv1.NodeEviction{
		TransitionPeriod: durationpb.New(n.transition), MaxPodGrace: durationpb.New(n.maxGrace),
	}
}

// besides is what others than the pods use: memory, tasks, and bytes and inodes of the node's file system and of the
// file system of images.
type besides struct {
	memory, tasks, bytes, inodes, imageBytes, imageInodes int64
	// unmeasured are signals without figures until an uptime.
	unmeasured map[limits.Signal]time.Duration
}

// use is what one pod uses.
type use struct {
	memory, tasks, layerBytes, layerInodes, localBytes, localInodes int64
}

func (u use) plus(v use) use {
	return use{u.memory + v.memory, u.tasks + v.tasks, u.layerBytes + v.layerBytes, u.layerInodes + v.layerInodes,
		u.localBytes + v.localBytes, u.localInodes + v.localInodes}
}

// uses returns what an instance uses: memory and tasks while it runs, its layer until it is removed.
func (w *world) uses(c *container) use {
	if c.takes == nil {
		r := stream(w.seed, "use", c.id)
		c.takes = &use{
			memory: 1 + r.Int64N(nodeBytes/1000), tasks: 1 + r.Int64N(nodeNumber/1000),
			layerBytes: r.Int64N(nodeBytes / 1000), layerInodes: r.Int64N(nodeNumber / 1000),
		}
	}
	u := *c.takes
	if !c.alive() {
		u.memory, u.tasks = 0, 0
	}
	return u
}

// memoryFreedWithin bounds how long the kernel takes to free the memory of a container that has ended. The node waits
// 1 s before that memory counts.
const memoryFreedWithin = 900 * time.Millisecond

// lingering is the memory of a container that has ended, which the kernel frees by an uptime.
type lingering struct {
	container *container
	until     time.Duration
	bytes     int64
}

// lingers has the kernel take some time to free the memory of a container that ends, in a plan that measures it.
func (w *world) lingers(c *container) {
	if w.judge.sim.config.pressed == nil {
		return
	}
	takes := time.Duration(stream(w.seed, "freed", c.id).Int64N(int64(memoryFreedWithin)))
	w.lingering = append(w.lingering, lingering{c, w.clock.uptime + takes, w.uses(c).memory})
}

// podUse returns what a pod uses, with its volumes on disk.
func (w *world) podUse(o *objects) use {
	var sum use
	for _, c := range o.containers {
		sum = sum.plus(w.uses(c))
	}
	sum.localBytes, sum.localInodes = w.volumeUse(o.uid)
	return sum
}

// volumeUse returns what the volume of a pod takes on disk, if it is set up.
func (w *world) volumeUse(uid string) (bytes, inodes int64) {
	if w.files.disk[uid][scratchVolume] == "" {
		return 0, 0
	}
	u, ok := w.volumes[uid]
	if !ok {
		r := stream(w.seed, "use of a volume", uid)
		u = use{localBytes: r.Int64N(nodeBytes / 1000), localInodes: r.Int64N(nodeNumber / 1000)}
		w.volumes[uid] = u
	}
	return u.localBytes, u.localInodes
}

// scratchVolume is the emptyDir of a plan's pods.
const scratchVolume = "data"

// shortage is what is left on the node, by signal, what each pod uses, by UID, and what the kernel still frees.
type shortage struct {
	left      map[limits.Signal]int64
	pods      map[string]use
	lingering []lingering
}

// shortage returns what is left, whether or not it can be measured.
func (w *world) shortage(layout journaletv1.FilesystemLayout) shortage {
	s := shortage{pods: map[string]use{}}
	var all use
	for _, o := range w.objects {
		u := w.podUse(o)
		all = all.plus(u)
		if slices.ContainsFunc(o.sandboxes, func(x *sandbox) bool { return x.ready }) {
			s.pods[o.uid] = u
		}
	}
	w.lingering = slices.DeleteFunc(w.lingering, func(l lingering) bool { return l.until <= w.clock.uptime })
	s.lingering = slices.Clone(w.lingering)
	for _, l := range s.lingering {
		all.memory += l.bytes
	}
	n := &w.besides
	bytes, inodes := n.bytes+all.localBytes, n.inodes+all.localInodes
	imageBytes, imageInodes := n.imageBytes, n.imageInodes
	if layout == journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_OWN_IMAGES {
		imageBytes, imageInodes = imageBytes+all.layerBytes, imageInodes+all.layerInodes
	} else {
		bytes, inodes = bytes+all.layerBytes, inodes+all.layerInodes
	}
	if layout == journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_ONE {
		imageBytes, imageInodes = bytes, inodes
	}
	s.left = map[limits.Signal]int64{
		limits.MemoryAvailable: nodeBytes - n.memory - all.memory, limits.PIDAvailable: nodeNumber - n.tasks - all.tasks,
		limits.NodeFsAvailable: nodeBytes - bytes, limits.NodeFsInodesFree: nodeNumber - inodes,
		limits.ImageFsAvailable: nodeBytes - imageBytes, limits.ImageFsInodesFree: nodeNumber - imageInodes,
	}
	if layout == journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT {
		s.left[limits.ContainerFsAvailable] = s.left[limits.NodeFsAvailable]
		s.left[limits.ContainerFsInodesFree] = s.left[limits.NodeFsInodesFree]
	}
	for signal, left := range s.left {
		s.left[signal] = max(0, left)
	}
	return s
}

func capacityOf(s limits.Signal) int64 {
	if s.Bytes() {
		return nodeBytes
	}
	return nodeNumber
}

// pressureWatch runs runtime/pressure on a coroutine.
type pressureWatch struct {
	*pressure.Driver
	p *proc
	// idle is set while it waits for its next sample.
	idle, wanted bool
}

func newPressureWatch(r *run) *pressureWatch {
	n, clock := r.config.pressed, newSteadyClock(r)
	if n == nil {
		return nil
	}
	return &pressureWatch{Driver: pressure.New(pressure.Options{
		Thresholds: n.thresholds, Now: clock.Now,
		Measure: func(context.Context) pressure.Measurement {
			m := pressure.Measurement{Layout: n.layout, Signals: map[limits.Signal]limits.Measured{}}
			s := r.world.shortage(n.layout)
			for signal, left := range s.left {
				if r.world.besides.unmeasured[signal] <= r.clock.uptime {
					m.Signals[signal] = limits.Measured{Available: left, Capacity: capacityOf(signal)}
				}
			}
			r.judge.sampled(clock.Now(), s, m.Signals)
			return m
		},
		Usage: func(_ context.Context, signal limits.Signal) []*journaletv1.PodUsage {
			return pressure.UsageOf(r.world.summary(n.layout), signal, r.manifestOf)
		},
		Sink: func(_ context.Context, e *journaletv1.Event) error {
			r.fact(r.clock.current, messages.Node, e)
			return nil
		},
	})}
}

// manifestOf returns the manifest of a pod that has an actor; nil for none.
func (r *run) manifestOf(uid string) *corev1.Pod {
	if a, ok := r.cells.Decider(messages.Pod(uid)).(*pod.Actor); ok {
		return a.Manifest()
	}
	return nil
}

// summary returns the statistics of the pods with a sandbox, as runtime/stats has them.
func (w *world) summary(layout journaletv1.FilesystemLayout) *api.Summary {
	s := &api.Summary{}
	measured := w.shortage(layout).pods
	for _, o := range w.objects {
		u, ok := measured[o.uid]
		if !ok {
			continue
		}
		number := func(n int64) *uint64 { return new(uint64(n)) }
		p := api.PodStats{
			PodRef: api.PodReference{UID: o.uid}, ProcessStats: &api.ProcessStats{ProcessCount: number(u.tasks)},
			Memory:      &api.MemoryStats{WorkingSetBytes: number(u.memory)},
			VolumeStats: []api.VolumeStats{{Name: scratchVolume}},
		}
		p.VolumeStats[0].UsedBytes, p.VolumeStats[0].InodesUsed = number(u.localBytes), number(u.localInodes)
		for _, c := range o.containers {
			one := w.uses(c)
			p.Containers = append(p.Containers, api.ContainerStats{
				Name: c.name, Memory: &api.MemoryStats{WorkingSetBytes: number(one.memory)}, Logs: &api.FsStats{},
				Rootfs: &api.FsStats{UsedBytes: number(one.layerBytes), InodesUsed: number(one.layerInodes)},
			})
		}
		s.Pods = append(s.Pods, p)
	}
	return s
}

func (m *pressureWatch) loop(p *proc) {
	for m.p = p; ; {
		m.wanted = false
		_ = m.Sample(context.Background()) // the sink does not fail
		if !m.wanted {
			m.idle = true
			p.sleep(m.Pause())
			m.idle = false
		}
	}
}

// Stored implements drivers.Storer.
func (m *pressureWatch) Stored(rec *journaletv1.Record) {
	m.Driver.Stored(rec)
	if decides(rec, func(e *journaletv1.Event) bool { return e.GetEvictionProgressed().GetRequestId() != 0 }) {
		if m.wanted = true; m.idle {
			m.p.interrupt()
		}
	}
}

// beShort has others use so much of something that a threshold is met, mostly by less than what the pods use: then it
// is enough to end some of them. What others use is given back after a while, in part or all.
func (s *sim) beShort(o Op) {
	n := s.config.pressed
	if n == nil || s.world.calm && o.lasts == 0 {
		return
	}
	r := stream(s.seed, "shortage", strconv.FormatUint(o.pick, 10))
	t := n.thresholds[r.IntN(len(n.thresholds))]
	from := s.world.othersOf(t.Signal, n.layout)
	if from == nil {
		return
	}
	left := s.world.shortage(n.layout).left[t.Signal]
	below := 1 + r.Int64N(pick[int64](r, 3, 1, 10)*capacityOf(t.Signal)/1000)
	if chance(r, 4) {
		below = -r.Int64N(capacityOf(t.Signal) / 1000) // nearly
	}
	*from += left - t.Value.Of(capacityOf(t.Signal)) + below
	s.later(o.lasts, func() {
		if chance(r, 2) {
			*from -= min(*from, r.Int64N(capacityOf(t.Signal)/50)) // and the rest with the next shortage of it
			s.later(o.lasts, func() { *from = 0 })
			return
		}
		*from = 0
	})
}

// othersOf returns what others use of what a signal is about.
func (w *world) othersOf(s limits.Signal, layout journaletv1.FilesystemLayout) *int64 {
	n := &w.besides
	bySignal := map[limits.Signal]*int64{
		limits.MemoryAvailable: &n.memory, limits.PIDAvailable: &n.tasks, limits.NodeFsAvailable: &n.bytes,
		limits.NodeFsInodesFree: &n.inodes, limits.ImageFsAvailable: &n.imageBytes, limits.ImageFsInodesFree: &n.imageInodes,
	}
	if layout == journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_ONE {
		bySignal[limits.ImageFsAvailable], bySignal[limits.ImageFsInodesFree] = &n.bytes, &n.inodes
	}
	return bySignal[s]
}

// hideSignal has a signal without figures for a while.
func (s *sim) hideSignal(o Op) {
	n := s.config.pressed
	if n == nil {
		return
	}
	t := n.inEffect()[o.pick%uint64(len(n.inEffect()))]
	s.world.besides.unmeasured[t.Signal] = s.clock.uptime + o.lasts
}

// relieve ends all shortages.
func (w *world) relieve() { w.besides = besides{unmeasured: map[limits.Signal]time.Duration{}} }

// cyclePods returns a file with pods that the next cycle of pressure may end.
func cyclePods(r *rand.Rand, n int) []byte {
	text := `{"apiVersion":"v1","kind":"List","items":[`
	for i := range 3 {
		if i > 0 {
			text += ","
		}
		requests := pick(r, `{}`, fmt.Sprintf(`{"requests":{"memory":"%dMi"}}`, 1+r.Int64N(1000)),
			fmt.Sprintf(`{"requests":{"ephemeral-storage":"%dMi"}}`, 1+r.Int64N(1000)))
		text += fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cycle%d-%d"},"spec":{"priority":%d,
			"terminationGracePeriodSeconds":%d,"volumes":[{"name":%q,"emptyDir":{}}],
			"containers":[{"name":"main","image":"app:1","resources":%s}]}}`,
			n, i, pick(r, -5, 0, 0, 10), r.IntN(10), scratchVolume, requests)
	}
	return []byte(text + "]}")
}
