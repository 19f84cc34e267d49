package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/record"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/journalet/journalet/test/oracle/node"
)

// Threshold is one eviction threshold, with its amounts for a capacity.
type Threshold struct {
	Signal         string
	Value, Reclaim int64
	Grace          time.Duration
}

// usageOf finds the figures of a pod.
type usageOf = func(*v1.Pod) (statsapi.PodStats, bool)

//go:linkname buildSignalToRankFunc k8s.io/kubernetes/pkg/kubelet/eviction.buildSignalToRankFunc
func buildSignalToRankFunc(imageFS, split bool) map[evictionapi.Signal]func([]*v1.Pod, usageOf)

//go:linkname synchronize k8s.io/kubernetes/pkg/kubelet/eviction.(*managerImpl).synchronize
func synchronize(m unsafe.Pointer, ctx context.Context, d eviction.DiskInfoProvider, active eviction.ActivePodsFunc) (
	[]*v1.Pod, error)

// Thresholds parses thresholds as a kubelet does that enforces the limits of all pods, for file systems of a layout and
// a capacity.
func Thresholds(o node.Eviction, capacity func(signal string) int64) ([]Threshold, error) {
	all, err := thresholdsOf(o)
	if err != nil {
		return nil, err
	}
	own, split := o.Layout != node.OneFileSystem, o.Layout == node.SplitFileSystems
	all, _ = eviction.UpdateContainerFsThresholds(all, own, split) // it warns of thresholds of containerfs
	var out []Threshold
	for _, t := range all {
		if t.Operator == "" {
			continue // there is no threshold that it is a copy of
		}
		total := resource.NewQuantity(capacity(string(t.Signal)), resource.DecimalSI)
		one := Threshold{Signal: string(t.Signal), Grace: t.GracePeriod}
		value := evictionapi.GetThresholdQuantity(t.Value, total)
		one.Value = value.Value()
		if t.MinReclaim != nil {
			more := evictionapi.GetThresholdQuantity(*t.MinReclaim, total)
			one.Reclaim = more.Value()
		}
		out = append(out, one)
	}
	return out, nil
}

func thresholdsOf(o node.Eviction) ([]evictionapi.Threshold, error) {
	return eviction.ParseThresholdConfig([]string{"pods"}, o.Hard, o.Soft, o.Grace, o.Reclaim)
}

// Before reports whether the kubelet may evict x before y for a signal: it does not rank y before x.
func Before(x, y *v1.Pod, signal, layout string, usage usageOf) bool {
	rank := buildSignalToRankFunc(layout != node.OneFileSystem, layout == node.SplitFileSystems)
	all := []*v1.Pod{x, y}
	rank[evictionapi.Signal(signal)](all, usage)
	return all[0] == x
}

// Evictions is the kubelet's eviction manager in a world.
type Evictions struct {
	world   node.Pressured
	manager eviction.Manager
	admit   lifecycle.PodAdmitHandler
	clock   *testingclock.FakeClock
	ended   []node.Evicted
}

// NewEvictions returns the manager of a node.
func NewEvictions(o node.Eviction, w node.Pressured, now time.Time) (*Evictions, error) {
	thresholds, err := thresholdsOf(o)
	if err != nil {
		return nil, err
	}
	e := &Evictions{world: w, clock: testingclock.NewFakeClock(now)}
	e.manager, e.admit = eviction.NewManager(e, eviction.Config{
		Thresholds: thresholds, PressureTransitionPeriod: o.Transition, MaxPodGracePeriodSeconds: o.MaxPodGraceSeconds,
	}, e.kill, e, e, &record.FakeRecorder{}, &v1.ObjectReference{}, e.clock, false)
	return e, nil
}

// Get implements the kubelet's provider of statistics, as does the method below.
func (e *Evictions) Get(context.Context, bool) (*statsapi.Summary, error) {
	e.clock.Step(time.Millisecond) // figures that are no newer than the last ones do not count
	return e.world.Summary(e.clock.Now()), nil
}

// GetCPUAndMemoryStats is not called.
func (e *Evictions) GetCPUAndMemoryStats(ctx context.Context) (*statsapi.Summary, error) {
	return e.Get(ctx, true)
}

// HasDedicatedImageFs implements the kubelet's provider of file systems, as does the method below.
func (e *Evictions) HasDedicatedImageFs(context.Context) (bool, error) {
	return e.world.Layout() != node.OneFileSystem, nil
}

// HasDedicatedContainerFs reports whether writable layers have a file system of their own.
func (e *Evictions) HasDedicatedContainerFs(context.Context) (bool, error) {
	return e.world.Layout() == node.SplitFileSystems, nil
}

// DeleteUnusedImages implements the kubelet's garbage collection of images, the next method the one of containers.
func (e *Evictions) DeleteUnusedImages(context.Context) error { e.world.ReclaimImages(); return nil }

// DeleteAllUnusedContainers removes dead containers.
func (e *Evictions) DeleteAllUnusedContainers(context.Context) error {
	e.world.ReclaimContainers()
	return nil
}

func (e *Evictions) kill(pod *v1.Pod, _ bool, grace *int64, status func(*v1.PodStatus)) error {
	var s v1.PodStatus
	status(&s)
	e.ended = append(e.ended, node.Evicted{
		Pod: pod.Name, Reason: s.Reason, Message: s.Message, Grace: time.Duration(*grace) * time.Second,
	})
	e.world.End(pod.Name)
	return nil
}

// Sample has the manager inspect the node at a time, until it ends nothing more. It returns what it has ended, in
// order.
func (e *Evictions) Sample(ctx context.Context, at time.Time) ([]node.Evicted, error) {
	e.clock.SetTime(at)
	e.ended = nil
	manager := (*[2]unsafe.Pointer)(unsafe.Pointer(&e.manager))[1]
	for range 1 + len(e.world.Active()) {
		if ended, err := synchronize(manager, ctx, e, e.world.Active); err != nil || len(ended) == 0 {
			return e.ended, err
		}
	}
	return e.ended, fmt.Errorf("the kubelet ends more pods than there are: %v", e.ended)
}

// Conditions returns the conditions of the node that are true, sorted.
func (e *Evictions) Conditions() []string {
	var out []string
	for name, is := range map[v1.NodeConditionType]bool{
		v1.NodeMemoryPressure: e.manager.IsUnderMemoryPressure(), v1.NodeDiskPressure: e.manager.IsUnderDiskPressure(),
		v1.NodePIDPressure: e.manager.IsUnderPIDPressure(),
	} {
		if is {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out
}

// Admit returns the rejection of a pod, empty for none.
func (e *Evictions) Admit(ctx context.Context, pod *v1.Pod) string {
	r := e.admit.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
	if r.Admit {
		return ""
	}
	return r.Reason
}
