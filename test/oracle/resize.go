package oracle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/agent"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// resizeCase is a case of a pod whose running containers are resized.
type resizeCase struct {
	Pod *corev1.Pod `json:"pod"`
	// Sizes holds the containers' new resources, by name, for each resize.
	Sizes []map[string]corev1.ResourceRequirements `json:"sizes"`
	// Uses is the memory that containers use, in bytes.
	Uses map[string]uint64 `json:"uses,omitempty"`
}

// generateResizes returns a pod and other resources for its containers.
func generateResizes(m *pods.Generator) string {
	p := m.Small()
	p.UID = "11112222333344445555666677778888"
	p.Spec.RestartPolicy = pods.Pick[corev1.RestartPolicy](m, "Always", "OnFailure", "Never")
	always := corev1.ContainerRestartPolicyAlways
	for i := range m.N(3) {
		c := corev1.Container{Name: fmt.Sprintf("i%d", i), Image: pods.GoodImages[0], RestartPolicy: &always}
		if i == 1 && m.Chance(30) {
			c.RestartPolicy = nil // it runs forever, so the main containers do not start
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	var names []string
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c := &list[i]
			names = append(names, c.Name)
			c.Resources = m.Size()
			c.ResizePolicy = nil
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if m.Chance(40) {
					policy := corev1.NotRequired
					ordinaryInit := c.RestartPolicy == nil && c.Name[0] == 'i'
					if p.Spec.RestartPolicy != corev1.RestartPolicyNever && !ordinaryInit && m.Chance(40) {
						policy = corev1.RestartContainer
					}
					c.ResizePolicy = append(c.ResizePolicy,
						corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: policy})
				}
			}
		}
	}
	s := resizeCase{Uses: map[string]uint64{}}
	for range 1 + m.N(3) {
		sizes := map[string]corev1.ResourceRequirements{}
		for _, name := range names {
			if m.Chance(60) {
				sizes[name] = m.Size()
			}
		}
		s.Sizes = append(s.Sizes, sizes)
	}
	if m.Chance(20) {
		s.Uses[pods.Pick(m, names...)] = uint64(pods.Pick(m, 1<<20, 64<<20, 64<<20+1, 500<<20))
	}
	return podAnd(p, map[string]any{"sizes": s.Sizes, "uses": s.Uses})
}

// inUse begins the keys of differences that follow from a memory limit not above the usage.
const inUse = "a limit below the usage, "

// compareResizes compares the calls of resizes, and the resources that are reported then.
func compareResizes(c *testCase) {
	s := resizeCase{}
	_, text, ok := readHistory(c.text)
	if yaml.Unmarshal([]byte(c.text), &s) != nil || s.Pod == nil || !ok || s.Pod.UID == "" {
		return // without a UID in the manifest, other resources are another pod
	}
	w := c.world(text)
	if w == nil {
		return
	}
	defer w.close()
	ctx := context.Background()
	for _, s := range []side{w.ours, w.theirs} {
		s.fake.Now = ticking() // the kubelet has no order for two instances created at one time
	}
	kl := w.newKubelet()
	if err := kl.Settle(ctx, w.parsed.Pod.DeepCopy()); err != nil {
		c.count("the kubelet does not settle with the first manifest")
		return
	}
	decider := w.newDecider(nil)
	for name, bytes := range s.Uses {
		w.ours.fake.Use(name, bytes)
		w.theirs.fake.Use(name, bytes)
	}
	both := &sizes{testCase: c, world: w, kubelet: kl, decider: decider, uses: s.Uses}
	now := s.Pod
	for _, to := range s.Sizes {
		now = both.with(now, to)
		if !both.resize(ctx, now) {
			return
		}
	}
}

// sizes are both sides of a pod that is resized.
type sizes struct {
	*testCase
	*world
	kubelet *kubelet.Kubelet
	decider *agent.Pod
	uses    map[string]uint64
	// class begins the keys of differences.
	class string
}

// with returns the pod with other resources of its containers.
func (b *sizes) with(p *corev1.Pod, to map[string]corev1.ResourceRequirements) *corev1.Pod {
	p = p.DeepCopy()
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if size, ok := to[list[i].Name]; ok {
				list[i].Resources = *size.DeepCopy()
			}
			limit := list[i].Resources.Limits[corev1.ResourceMemory]
			if !limit.IsZero() && uint64(limit.Value()) <= b.uses[list[i].Name] {
				b.class = inUse
			}
		}
	}
	return p
}

// resize updates the pod on both sides, and compares. It returns false after a difference or a rejection.
func (b *sizes) resize(ctx context.Context, to *corev1.Pod) bool {
	parsed, ok := parsedOf(to)
	if !ok {
		b.count("rejected")
		return false
	}
	before, beforeTheirs := len(b.ours.fake.Calls()), len(b.theirs.fake.Calls())
	if err := b.decider.Update(ctx, parsed); err != nil {
		b.differs("our decider fails", err, "no error")
		return false
	}
	if b.decider.Removed() {
		b.count("another incarnation")
		return false // the API server rejects it, so the kubelet never gets it
	}
	err := b.kubelet.Settle(ctx, parsed.Pod.DeepCopy())
	if errors.Is(err, kubelet.ErrUnsettled) {
		b.count("the kubelet does not settle")
		return false
	}
	check("the kubelet cannot sync", err)
	b.count("resizes")
	b.differs(b.class+"updates",
		strings.Join(updates(b.ours, before), "\n"), strings.Join(updates(b.theirs, beforeTheirs), "\n"))
	inClass := func(_, what string) string { return b.class + what }
	if !(&both{testCase: b.testCase, world: b.world, key: inClass}).compareCalls() {
		return false
	}
	theirs, err := b.kubelet.APIStatus(ctx, parsed.Pod.DeepCopy(), false)
	check("the kubelet has no status", err)
	b.differs(b.class+"resources reported", reported(b.decider.View().Status), reported(theirs))
	return true
}

// ticking returns a clock that advances with each reading.
func ticking() func() time.Time {
	var ticks atomic.Int64
	return func() time.Time { return begin.Add(time.Duration(ticks.Add(1)) * time.Millisecond) }
}

func parsedOf(p *corev1.Pod) (manifest.Parsed, bool) {
	all, problems := manifest.Decode(manifestPath, []byte(text(p)), manifest.Options{NodeName: nodeName})
	if len(problems) > 0 || len(all) != 1 {
		return manifest.Parsed{}, false
	}
	return all[0], true
}

// updates returns the updates of containers' resources from a call on, in order.
func updates(s side, from int) []string {
	var out []string
	for _, call := range s.fake.Calls()[from:] {
		q, ok := call.(*runtimeapi.UpdateContainerResourcesRequest)
		if !ok {
			continue
		}
		r := q.GetLinux()
		// A new cgroup has 0.
		maps.DeleteFunc(r.Unified, func(name, value string) bool { return value == "0" && name != "memory.swap.max" })
		out = append(out, fmt.Sprintf("%s: shares %d, quota %d of %d, memory %d, with swap %d, oom score %d, unified %v",
			q.GetContainerId(), r.GetCpuShares(), r.GetCpuQuota(), r.GetCpuPeriod(), r.GetMemoryLimitInBytes(),
			r.GetMemorySwapLimitInBytes(), r.GetOomScoreAdj(), r.GetUnified()))
	}
	return out
}

// reported returns the containers' resources in a status.
func reported(s corev1.PodStatus) string {
	var out []string
	for _, x := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		out = append(out, fmt.Sprintf("%s: allocated %s, has %s", x.Name, listed(x.AllocatedResources), sized(x.Resources)))
	}
	return strings.Join(out, "\n")
}

func sized(r *corev1.ResourceRequirements) string {
	if r == nil {
		return "nothing"
	}
	return listed(r.Requests) + " to " + listed(r.Limits)
}

func listed(list corev1.ResourceList) string {
	var out []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := list[name]; ok {
			out = append(out, fmt.Sprintf("%s %s", name, resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI)))
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// canonical formats equal quantities alike, and drops zeros.
func canonical(list corev1.ResourceList) {
	for name, q := range list {
		list[name] = *resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI)
		if q.IsZero() {
			delete(list, name)
		}
	}
}
