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

// sizing is a case of a pod whose containers get other resources while they run.
type sizing struct {
	Pod *corev1.Pod `json:"pod"`
	// Sizes are what containers have from then on, one resize after the other, by name.
	Sizes []map[string]corev1.ResourceRequirements `json:"sizes"`
	// Uses is what containers use of memory, in bytes.
	Uses map[string]uint64 `json:"uses,omitempty"`
}

// makeSizing makes up a pod and other resources for its containers.
func makeSizing(m *pods.Maker) string {
	p := m.Small()
	p.UID = "11112222333344445555666677778888"
	p.Spec.RestartPolicy = pods.Pick[corev1.RestartPolicy](m, "Always", "OnFailure", "Never")
	always := corev1.ContainerRestartPolicyAlways
	for i := range m.N(3) {
		c := corev1.Container{Name: fmt.Sprintf("i%d", i), Image: pods.GoodImages[0], RestartPolicy: &always}
		if i == 1 && m.Chance(30) {
			c.RestartPolicy = nil // it runs for good, and holds up the main ones
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
					if p.Spec.RestartPolicy != corev1.RestartPolicyNever && !(c.RestartPolicy == nil && c.Name[0] == 'i') && m.Chance(40) {
						policy = corev1.RestartContainer
					}
					c.ResizePolicy = append(c.ResizePolicy, corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: policy})
				}
			}
		}
	}
	s := sizing{Uses: map[string]uint64{}}
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
	data, err := yaml.Marshal(map[string]any{"sizes": s.Sizes, "uses": s.Uses})
	if err != nil {
		panic(fmt.Sprintf("a sizing is no YAML: %v", err))
	}
	return "pod:\n  " + indent2(text(p)) + "\n" + string(data)
}

// inUse begins the keys of what follows from a memory limit that is not above what is used.
const inUse = "a limit below what is used, "

// compareSizings holds the calls that follow from other resources to the kubelet's, and what is told of them then.
func compareSizings(c *testCase) {
	s := sizing{}
	_, text, ok := readStory(c.text)
	if yaml.Unmarshal([]byte(c.text), &s) != nil || s.Pod == nil || !ok || s.Pod.UID == "" {
		return // without a UID of its own, other resources make another pod
	}
	w := c.world(text)
	if w == nil {
		return
	}
	defer w.close()
	ctx := context.Background()
	for _, s := range []side{w.ours, w.theirs} {
		s.fake.Now = ticking() // two instances made at one time have no order in the kubelet
	}
	kl, err := kubelet.New(w.theirs.opts, w.theirs.fake)
	if err != nil {
		panic(fmt.Sprintf("no kubelet: %v", err))
	}
	if err := kl.Settle(ctx, w.parsed.Pod.DeepCopy()); err != nil {
		c.count("the kubelet does not come to rest with the first manifest")
		return
	}
	decider, err := agent.NewPod(ctx, w.ours.opts, w.ours.fake, w.parsed, nil)
	if err != nil {
		panic(fmt.Sprintf("our decider: %v", err))
	}
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

// with is a pod whose containers have other resources.
func (b *sizes) with(p *corev1.Pod, to map[string]corev1.ResourceRequirements) *corev1.Pod {
	p = p.DeepCopy()
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if size, ok := to[list[i].Name]; ok {
				list[i].Resources = *size.DeepCopy()
			}
			if limit, used := list[i].Resources.Limits[corev1.ResourceMemory], b.uses[list[i].Name]; !limit.IsZero() && uint64(limit.Value()) <= used {
				b.class = inUse
			}
		}
	}
	return p
}

// resize gives the pod another manifest on both sides, and compares; false if nothing more can be told.
func (b *sizes) resize(ctx context.Context, to *corev1.Pod) bool {
	parsed, ok := parsedOf(to)
	if !ok {
		b.count("refused")
		return false
	}
	before, beforeTheirs := len(b.ours.fake.Calls()), len(b.theirs.fake.Calls())
	if err := b.decider.Update(ctx, parsed); err != nil {
		b.differs("our decider fails", err, "no error")
		return false
	}
	if b.decider.Removed() {
		b.count("another incarnation")
		return false // the kubelet never hears of it: the API server refuses
	}
	switch err := b.kubelet.Settle(ctx, parsed.Pod.DeepCopy()); {
	case errors.Is(err, kubelet.ErrRestless):
		b.count("the kubelet does not come to rest")
		return false
	case err != nil:
		panic(fmt.Sprintf("the kubelet cannot sync: %v", err))
	}
	b.count("resizes")
	b.differs(b.class+"updates", strings.Join(updates(b.ours, before), "\n"), strings.Join(updates(b.theirs, beforeTheirs), "\n"))
	if !compareLines(b.testCase, b.class+"call", deeds(b.ours), deeds(b.theirs)) {
		return false
	}
	theirs, err := b.kubelet.APIStatus(ctx, parsed.Pod.DeepCopy(), false)
	if err != nil {
		panic(fmt.Sprintf("the kubelet has no status: %v", err))
	}
	b.differs(b.class+"reported resources", told(b.decider.View().Status), told(theirs))
	return true
}

// ticking is a clock that goes on with each look at it.
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

// updates are the changes of containers' resources from a call on, in their order.
func updates(s side, from int) []string {
	var out []string
	for _, call := range s.fake.Calls()[from:] {
		q, ok := call.(*runtimeapi.UpdateContainerResourcesRequest)
		if !ok {
			continue
		}
		r := q.GetLinux()
		// 0 is what a cgroup has that was told nothing.
		maps.DeleteFunc(r.Unified, func(name, value string) bool { return value == "0" && name != "memory.swap.max" })
		out = append(out, fmt.Sprintf("%s: shares %d, quota %d of %d, memory %d, with swap %d, oom score %d, unified %v", q.GetContainerId(),
			r.GetCpuShares(), r.GetCpuQuota(), r.GetCpuPeriod(), r.GetMemoryLimitInBytes(), r.GetMemorySwapLimitInBytes(), r.GetOomScoreAdj(), r.GetUnified()))
	}
	return out
}

// told is what a status says of containers' resources.
func told(s corev1.PodStatus) string {
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

// canonical writes equal quantities alike, and says nothing of none.
func canonical(list corev1.ResourceList) {
	for name, q := range list {
		list[name] = *resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI)
		if q.IsZero() {
			delete(list, name)
		}
	}
}
