package oracle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/test/oracle/agent"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/node"
)

// evictionCase is a node with its thresholds, its pods, and what these use from step to step.
type evictionCase struct {
	Layout             string            `json:"layout,omitempty"`
	Hard               map[string]string `json:"hard,omitempty"`
	Soft               map[string]string `json:"soft,omitempty"`
	Grace              map[string]string `json:"grace,omitempty"`
	Reclaim            map[string]string `json:"reclaim,omitempty"`
	TransitionSeconds  int64             `json:"transitionSeconds,omitempty"`
	MaxPodGraceSeconds int64             `json:"maxPodGraceSeconds,omitempty"`
	DeadBytes          int64             `json:"deadBytes,omitempty"`
	ImageBytes         int64             `json:"imageBytes,omitempty"`
	Pods               []corev1.Pod      `json:"pods,omitempty"`
	Steps              []evictionStep    `json:"steps,omitempty"`
}

// evictionStep is what is used for a while.
type evictionStep struct {
	// Seconds is how long it lasts: tens.
	Seconds int64 `json:"seconds,omitempty"`
	// Others is what others than the pods take, by name: memory, pods, node, images, nodeInodes, imageInodes, tasks.
	Others map[string]int64 `json:"others,omitempty"`
	// Uses is what each pod uses, by name; a missing pod was not measured.
	Uses map[string]podUse `json:"uses,omitempty"`
	// Unmeasured are the signals without figures.
	Unmeasured []string `json:"unmeasured,omitempty"`
}

// podUse is what a pod with one container uses: bytes of memory, of its layer, its log and its volume, as many inodes
// as the files say, and tasks.
type podUse struct {
	Memory int64 `json:"memory,omitempty"`
	Layer  int64 `json:"layer,omitempty"`
	Log    int64 `json:"log,omitempty"`
	Volume int64 `json:"volume,omitempty"`
	Inodes int64 `json:"inodes,omitempty"`
	Tasks  int64 `json:"tasks,omitempty"`
}

// How much there is of everything: bytes, and numbers of inodes and tasks.
const (
	evictionBytes  = 1000 << 20
	evictionNumber = 1000
)

func evictionCapacity(signal string) int64 {
	if pressure.Signal(signal).Bytes() {
		return evictionBytes
	}
	return evictionNumber
}

func (k *evictionCase) options() node.Eviction {
	return node.Eviction{
		Layout: cmp.Or(k.Layout, node.OneFileSystem), Hard: k.Hard, Soft: k.Soft, Grace: k.Grace, Reclaim: k.Reclaim,
		Transition:         time.Duration(cmp.Or(k.TransitionSeconds, 300)) * time.Second,
		MaxPodGraceSeconds: k.MaxPodGraceSeconds,
	}
}

// compareEviction compares the thresholds, the order of the pods, and what happens to them.
func compareEviction(c *testCase) {
	k := evictionCase{}
	if yaml.UnmarshalStrict([]byte(c.text), &k) != nil || !k.valid() {
		return
	}
	o := k.options()
	mine, err := agent.Thresholds(o, evictionCapacity)
	theirs, theirErr := kubelet.Thresholds(o, evictionCapacity)
	switch {
	case err != nil && theirErr != nil:
		c.count("rejected")
		return
	case err != nil || theirErr != nil:
		c.differs("only one side rejects: ours "+fmt.Sprint(err != nil), err, theirErr)
		return
	}
	c.differs("thresholds", namesOf(k.Layout, mine), namesOf(k.Layout, theirs))
	k.compareOrder(c)
	k.compareEnds(c)
}

// valid reports whether shrinking has left a case that both sides can take.
func (k *evictionCase) valid() bool {
	names := map[string]bool{}
	for i := range k.Pods {
		p := &k.Pods[i]
		p.UID = types.UID("uid-" + p.Name)
		if names[p.Name] = true; p.Name == "" || p.Spec.Priority == nil || len(p.Spec.Containers) != 1 {
			return false
		}
	}
	// Of equal pods the kubelet ends the first one, ours that with the first UID.
	sorted := slices.IsSortedFunc(k.Pods, func(x, y corev1.Pod) int { return cmp.Compare(x.Name, y.Name) })
	bad := slices.ContainsFunc(k.Steps, func(s evictionStep) bool { return s.Seconds <= 0 || s.Seconds%10 != 0 })
	return !bad && sorted && len(names) == len(k.Pods) && k.TransitionSeconds%10 == 0 && k.TransitionSeconds >= 0 &&
		slices.Contains([]string{"", node.OneFileSystem, node.OwnImages, node.SplitFileSystems}, k.Layout)
}

// namesOf returns thresholds as text. The kubelet's of containerfs count twice where these are another one's.
func namesOf[T agent.Threshold | kubelet.Threshold](layout string, all []T) string {
	var out []string
	for _, t := range all {
		if text := fmt.Sprintf("%+v", t); layout == node.SplitFileSystems || !strings.Contains(text, "containerfs.") {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// compareOrder has the kubelet judge our order of pods, for each signal.
func (k *evictionCase) compareOrder(c *testCase) {
	if len(k.Steps) == 0 {
		return
	}
	w := k.world()
	w.step = &k.Steps[0]
	s := w.Summary(evictionBegin)
	layout := w.Layout()
	for _, signal := range pressure.Signals {
		all := w.Active()
		agent.Rank(all, string(signal), layout, s)
		for i := range max(0, len(all)-1) {
			x, y := all[i], all[i+1]
			if kubelet.Before(x, y, string(signal), layout, w.usage(s)) {
				continue
			}
			key := "order"
			switch requests := x.Spec.Containers[0].Resources.Requests; {
			case !w.measured(x) || !w.measured(y):
				key = "order of a pod that was not measured"
			case signal.Resource() == "inodes" && !(requests.StorageEphemeral().IsZero() &&
				y.Spec.Containers[0].Resources.Requests.StorageEphemeral().IsZero()):
				key = "order by inodes of pods that request storage"
			}
			c.differs(key, fmt.Sprintf("%s, %s: %s before %s", signal, layout, x.Name, y.Name), y.Name+" first")
		}
	}
}

var evictionBegin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// evictionPeriod is the kubelet's. Ours samples each second, which makes no difference to what lasts for tens of them.
const evictionPeriod = 10 * time.Second

// compareEnds plays the steps for both sides: the pods that end, the conditions of the node, and admission.
func (k *evictionCase) compareEnds(c *testCase) {
	o := k.options()
	w, v := k.world(), k.world()
	now := evictionBegin
	ours, err := agent.NewEvictions(o, w, now)
	check("our node", err)
	theirs, err := kubelet.NewEvictions(o, v, now)
	check("the kubelet's manager", err)
	ended, before, last, swung := 0, []string(nil), time.Time{}, false
	for i := range k.Steps {
		w.step, v.step = &k.Steps[i], &k.Steps[i]
		for end := now.Add(time.Duration(w.step.Seconds) * time.Second); now.Before(end); now = now.Add(evictionPeriod) {
			mine, most, err := ours.Sample(context.Background(), now)
			check("our node", err)
			other, err := theirs.Sample(context.Background(), now)
			check("the kubelet's manager", err)
			for second := time.Second; second < evictionPeriod; second += time.Second {
				late, more, err := ours.Sample(context.Background(), now.Add(second))
				check("our node", err)
				mine, most = append(mine, late...), max(most, more)
			}
			ended += len(mine)
			recent := now.Sub(last) <= evictionPeriod
			swung = swung || recent || i > 0 && k.Steps[i-1].Seconds == 10
			if len(mine)+len(other) > 0 {
				last = now
			}
			if key := k.whyOther(i, w, v, recent); !same(mine, other, most == 1 && !w.reclaimed) {
				c.differs("pods that end"+key, fmt.Sprintf("%v: %v", now.Sub(evictionBegin), mine), fmt.Sprint(other))
				return
			}
			if k.otherConditions(c, ours, theirs, &before, swung) {
				return
			}
		}
		k.compareAdmission(c, ours, theirs, before)
	}
	c.count("cases with as many pods that end: " + fmt.Sprint(min(ended, 3)))
}

// whyOther returns what may explain a difference of a step. recent is set if a pod has ended just before.
func (k *evictionCase) whyOther(i int, w, v *evictionWorld, recent bool) string {
	switch {
	case slices.ContainsFunc(k.Steps[:i+1], func(s evictionStep) bool { return len(s.Unmeasured) > 0 }):
		return " around a signal that was not measured"
	case len(w.step.Uses) < len(k.Pods):
		return " when one was not measured"
	case w.reclaimed || v.reclaimed:
		return " after something else was removed"
	case i > 0 && k.Steps[i-1].Seconds == 10 || recent:
		return " within 10 s of the last crossing"
	case w.step.inodesWithRequests(k):
		return " for inodes, of those that request storage"
	}
	return ""
}

func (s *evictionStep) inodesWithRequests(k *evictionCase) bool {
	inodes := func(m map[string]string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(m)), func(x string) bool { return strings.Contains(x, "inodes") })
	}
	return (inodes(k.Hard) || inodes(k.Soft)) && slices.ContainsFunc(k.Pods, func(p corev1.Pod) bool {
		return !p.Spec.Containers[0].Resources.Requests.StorageEphemeral().IsZero()
	})
}

// leastStop is what both sides give a container at least (kubelet: minimumGracePeriodInSeconds).
const leastStop = 2 * time.Second

// same compares the pods that ended. If several thresholds act, the kubelet's message and grace period may belong to
// any of them, and after images were removed the message names what was available before.
func same(mine, theirs []node.Evicted, exactly bool) bool {
	return slices.EqualFunc(mine, theirs, func(x, y node.Evicted) bool {
		x.Grace, y.Grace = max(x.Grace, leastStop), max(y.Grace, leastStop)
		return x == y || !exactly && x.Pod == y.Pod && x.Reason == y.Reason
	})
}

// otherConditions reports whether the conditions differ. Ours of a moment ago may hold for a sample more: they count
// from the end of the last crossing.
func (k *evictionCase) otherConditions(c *testCase, ours *agent.Evictions, theirs *kubelet.Evictions, before *[]string,
	swung bool,
) bool {
	mine, other, last := ours.Conditions(), theirs.Conditions(), *before
	*before = other
	if slices.Equal(mine, other) {
		return false
	}
	more := slices.DeleteFunc(slices.Clone(mine), func(x string) bool { return slices.Contains(other, x) })
	key := "conditions"
	switch {
	case len(more) == len(mine)-len(other) && !slices.ContainsFunc(more, func(x string) bool {
		return !slices.Contains(last, x)
	}):
		key = "conditions that end a moment later"
	case slices.ContainsFunc(k.Steps, func(s evictionStep) bool { return len(s.Unmeasured) > 0 }):
		key = "conditions around a signal that was not measured"
	case swung && len(k.Reclaim) > 0:
		key = "conditions after a swing"
	}
	c.differs(key, mine, other)
	return key == "conditions"
}

// compareAdmission compares whom the node still takes.
func (k *evictionCase) compareAdmission(c *testCase, ours *agent.Evictions, theirs *kubelet.Evictions, now []string) {
	if !slices.Equal(ours.Conditions(), now) {
		return
	}
	for _, p := range newcomers() {
		mine, err := ours.Admit(p)
		check("our admission", err)
		c.differs("admission of "+p.Name, mine, theirs.Admit(context.Background(), p))
	}
}

const configSource, ofAPIServer = "kubernetes.io/config.source", "api"

// newcomers are pods that a node under pressure may reject.
func newcomers() []*corev1.Pod {
	with := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := evictionPod(name, 0)
		change(p)
		return p
	}
	tolerates := func(key string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}
		}
	}
	return []*corev1.Pod{
		with("a pod without requests", func(*corev1.Pod) {}),
		with("a pod that tolerates memory pressure", tolerates(corev1.TaintNodeMemoryPressure)),
		with("a pod that tolerates disk pressure", tolerates(corev1.TaintNodeDiskPressure)),
		with("a pod with requests", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}),
		with("a critical pod", func(p *corev1.Pod) { p.Spec.Priority = new(int32(2_000_000_000)) }),
		with("a static pod", func(p *corev1.Pod) { p.Annotations[configSource] = "file" }),
	}
}

func evictionPod(name string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name),
			Annotations: map[string]string{configSource: ofAPIServer},
		},
		Spec: corev1.PodSpec{
			Priority:   &priority,
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/app:1"}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}
