package oracle

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/test/oracle/node"
	"github.com/journalet/journalet/test/oracle/pods"
)

// evictionWorld is the node of one side.
type evictionWorld struct {
	test   *evictionCase
	step   *evictionStep
	active []*corev1.Pod
	// dead and images are bytes that nothing needs. reclaimed is set once some of them were removed.
	dead, images int64
	reclaimed    bool
}

func (k *evictionCase) world() *evictionWorld {
	w := &evictionWorld{test: k, step: &evictionStep{}, dead: k.DeadBytes, images: k.ImageBytes}
	for i := range k.Pods {
		w.active = append(w.active, &k.Pods[i])
	}
	return w
}

// Layout implements node.Pressured, as do the methods below.
func (w *evictionWorld) Layout() string { return w.test.options().Layout }

// Active returns the pods that have not ended.
func (w *evictionWorld) Active() []*corev1.Pod { return slices.Clone(w.active) }

// ReclaimImages removes unused images.
func (w *evictionWorld) ReclaimImages() {
	w.reclaimed = w.reclaimed || w.images > 0
	w.images = 0
}

// ReclaimContainers removes dead containers.
func (w *evictionWorld) ReclaimContainers() {
	w.reclaimed = w.reclaimed || w.dead > 0
	w.dead = 0
}

// End ends a pod, with all it holds.
func (w *evictionWorld) End(pod string) {
	w.active = slices.DeleteFunc(w.active, func(p *corev1.Pod) bool { return p.Name == pod })
}

func (w *evictionWorld) measured(p *corev1.Pod) bool { _, ok := w.step.Uses[p.Name]; return ok }

// usage finds the figures of pods in a summary.
func (w *evictionWorld) usage(s *api.Summary) func(*corev1.Pod) (api.PodStats, bool) {
	return func(p *corev1.Pod) (api.PodStats, bool) {
		i := slices.IndexFunc(s.Pods, func(x api.PodStats) bool { return x.PodRef.UID == string(p.UID) })
		if i < 0 {
			return api.PodStats{}, false
		}
		return s.Pods[i], true
	}
}

// Summary measures the node and its pods.
func (w *evictionWorld) Summary(at time.Time) *api.Summary {
	s, now := &api.Summary{}, metav1.NewTime(at)
	var all podUse
	for _, p := range w.active {
		use, ok := w.step.Uses[p.Name]
		if !ok {
			continue
		}
		s.Pods = append(s.Pods, statsOf(p, use, now))
		all.Memory, all.Layer, all.Tasks = all.Memory+use.Memory, all.Layer+use.Layer, all.Tasks+use.Tasks
		all.Log, all.Inodes = all.Log+use.Log+use.Volume, all.Inodes+use.Inodes
	}
	node := &s.Node
	has := func(signal string) bool { return !slices.Contains(w.step.Unmeasured, signal) }
	if has("memory.available") {
		node.Memory = memoryStats(w.step.Others["memory"]+all.Memory, now)
	}
	if has("allocatableMemory.available") {
		node.SystemContainers = []api.ContainerStats{
			{Name: api.SystemContainerPods, Memory: memoryStats(w.step.Others["pods"]+all.Memory, now)},
		}
	}
	if has("pid.available") {
		most, running := int64(evictionNumber), min(evictionNumber, w.step.Others["tasks"]+all.Tasks)
		node.Rlimit = &api.RlimitStats{Time: now, MaxPID: &most, NumOfRunningProcesses: &running}
	}
	node.Runtime = &api.RuntimeStats{}
	w.fileSystems(node, all, now, has)
	return s
}

// fileSystems fills in what is left of each file system.
func (w *evictionWorld) fileSystems(n *api.NodeStats, all podUse, now metav1.Time, has func(string) bool) {
	local, layers, images := all.Log, all.Layer+w.dead, w.images
	onNode, onImages := w.step.Others["node"]+local, w.step.Others["images"]
	inodesOfNode, inodesOfImages := w.step.Others["nodeInodes"], w.step.Others["imageInodes"]
	fs := func(name string, used, inodes int64) *api.FsStats {
		out := &api.FsStats{Time: now}
		if has(name + ".available") {
			capacity, left := uint64(evictionBytes), uint64(max(0, evictionBytes-used))
			out.CapacityBytes, out.AvailableBytes = &capacity, &left
		}
		if has(name + ".inodesFree") {
			total, free := uint64(evictionNumber), uint64(max(0, evictionNumber-inodes))
			out.Inodes, out.InodesFree = &total, &free
		}
		return out
	}
	r := n.Runtime
	switch w.Layout() {
	case node.OwnImages:
		n.Fs = fs("nodefs", onNode, inodesOfNode+all.Inodes)
		r.ImageFs = fs("imagefs", onImages+layers+images, inodesOfImages+all.Inodes)
		r.ContainerFs = r.ImageFs
	case node.SplitFileSystems:
		n.Fs = fs("nodefs", onNode+layers, inodesOfNode+all.Inodes)
		r.ImageFs = fs("imagefs", onImages+images, inodesOfImages)
		r.ContainerFs = fs("containerfs", onNode+layers, inodesOfNode+all.Inodes)
	default:
		n.Fs = fs("nodefs", onNode+layers+images, inodesOfNode+all.Inodes)
		r.ImageFs = fs("imagefs", onNode+layers+images, inodesOfNode+all.Inodes)
		r.ContainerFs = n.Fs
	}
}

func memoryStats(used int64, now metav1.Time) *api.MemoryStats {
	set := uint64(min(used, evictionBytes))
	left := uint64(evictionBytes) - set
	return &api.MemoryStats{Time: now, AvailableBytes: &left, WorkingSetBytes: &set}
}

// statsOf returns the figures of a pod. Half of its inodes are in its layer, a quarter each in its log and its volume.
func statsOf(p *corev1.Pod, use podUse, now metav1.Time) api.PodStats {
	fs := func(bytes, inodes int64) *api.FsStats {
		b, i := uint64(bytes), uint64(inodes)
		return &api.FsStats{Time: now, UsedBytes: &b, InodesUsed: &i}
	}
	memory, tasks := uint64(use.Memory), uint64(use.Tasks)
	half, quarter := use.Inodes-use.Inodes/4*2, use.Inodes/4
	out := api.PodStats{
		PodRef: api.PodReference{Name: p.Name, Namespace: p.Namespace, UID: string(p.UID)},
		Memory: &api.MemoryStats{Time: now, WorkingSetBytes: &memory}, ProcessStats: &api.ProcessStats{ProcessCount: &tasks},
		Containers: []api.ContainerStats{{
			Name: p.Spec.Containers[0].Name, Memory: &api.MemoryStats{Time: now, WorkingSetBytes: &memory},
			Rootfs: fs(use.Layer, half), Logs: fs(use.Log, quarter),
		}},
	}
	for i := range p.Spec.Volumes {
		out.VolumeStats = append(out.VolumeStats,
			api.VolumeStats{Name: p.Spec.Volumes[i].Name, FsStats: *fs(use.Volume, quarter)})
	}
	return out
}

// generateEviction returns a node that runs short of one thing or two.
func generateEviction(m *pods.Generator) string {
	k := evictionCase{
		Layout: pods.Pick(m, node.OneFileSystem, node.OwnImages, node.SplitFileSystems),
		Hard:   map[string]string{}, Soft: map[string]string{}, Grace: map[string]string{}, Reclaim: map[string]string{},
		TransitionSeconds: pods.Pick[int64](m, 30, 60, 300), MaxPodGraceSeconds: pods.Pick[int64](m, 0, 5, 20),
	}
	// Of several that act, but for memory, the kubelet takes any.
	signal := pods.Pick(m, "memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available",
		"imagefs.inodesFree", "pid.available")
	signals := []string{signal}
	if m.Chance(25) && signal != "memory.available" {
		signals = append(signals, "memory.available")
	}
	for _, signal := range signals {
		k.addThresholds(m, signal)
	}
	if m.Chance(30) {
		k.DeadBytes, k.ImageBytes = int64(m.N(80))<<20, int64(m.N(80))<<20
	}
	for i := range 1 + m.N(5) {
		k.Pods = append(k.Pods, *generateEvictable(m, fmt.Sprintf("p%d", i)))
	}
	for range 1 + m.N(5) {
		k.Steps = append(k.Steps, k.generateStep(m, signals))
	}
	return toYAML(k)
}

func (k *evictionCase) addThresholds(m *pods.Generator, signal string) {
	amount := func(percent int) string {
		switch {
		case m.Chance(3):
			return pods.Pick(m, "0", "-1", "x", "", "0%", "100%", "101%", "-1%", "%", "1m", "1500m", "1e3", "0.5%")
		case m.Chance(50):
			return fmt.Sprintf("%d%%", percent)
		case evictionCapacity(signal) == evictionBytes:
			return fmt.Sprintf("%dMi", 10*percent)
		}
		return fmt.Sprint(10 * percent)
	}
	hard := m.Chance(70)
	if hard {
		k.Hard[signal] = amount(10 + m.N(10))
	}
	if !hard || m.Chance(40) {
		k.Soft[signal], k.Grace[signal] = amount(20+m.N(10)), pods.Pick(m, "10s", "20s", "30s", "1m", "0s")
		if hard && k.Grace[signal] == "0s" {
			k.Grace[signal] = "10s" // a second hard one, whose pods get their own grace period here
		}
		if m.Chance(2) {
			k.Grace[signal] = pods.Pick(m, "", "x", "-1s")
		}
		if m.Chance(2) {
			delete(k.Grace, signal)
		}
	}
	if m.Chance(40) {
		k.Reclaim[signal] = amount(1 + m.N(10))
	}
	if m.Chance(1) {
		k.Reclaim["no.such"] = "1"
	}
}

func generateEvictable(m *pods.Generator, name string) *corev1.Pod {
	p := evictionPod(name, pods.Pick[int32](m, 0, 0, 0, -5, 10, 1000, 2_000_000_000))
	r := corev1.ResourceList{}
	if m.Chance(50) {
		r[corev1.ResourceMemory] = *resource.NewQuantity(int64(m.N(150))<<20, resource.BinarySI)
	}
	if m.Chance(40) {
		r[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(m.N(150))<<20, resource.BinarySI)
	}
	p.Spec.Containers[0].Resources.Requests = r
	if m.Chance(50) {
		p.Spec.TerminationGracePeriodSeconds = pods.Pick(m, new(int64(0)), new(int64(3)), new(int64(30)))
	}
	if m.Chance(4) {
		p.Annotations[configSource] = "file"
	}
	// What a summary of the kubelet has no figures of, hostPath, is left out.
	p.Spec.Volumes[0].VolumeSource = pods.Pick(m,
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages}},
		corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}},
		corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}},
	)
	return p
}

// generateStep fills the node more or less.
func (k *evictionCase) generateStep(m *pods.Generator, signals []string) evictionStep {
	s := evictionStep{
		Seconds: pods.Pick[int64](m, 20, 20, 30, 60, 120, 400), Others: map[string]int64{}, Uses: map[string]podUse{},
	}
	if m.Chance(10) {
		s.Seconds = 10
	}
	for _, what := range []string{"memory", "pods", "node", "images"} {
		s.Others[what] = int64(pods.Pick(m, 300, 500, 600, 700, 750, 800, 900)+m.N(50)) << 20
	}
	for _, what := range []string{"nodeInodes", "imageInodes", "tasks"} {
		s.Others[what] = int64(pods.Pick(m, 300, 500, 600, 700, 750, 800, 900) + m.N(50))
	}
	for i := range k.Pods {
		if m.Chance(3) {
			continue
		}
		mebi := func() int64 { return int64(m.N(150)) << 20 }
		s.Uses[k.Pods[i].Name] = podUse{
			Memory: mebi(), Layer: mebi(), Log: mebi(), Volume: mebi(), Inodes: int64(m.N(150)), Tasks: int64(m.N(150)),
		}
	}
	if m.Chance(3) {
		s.Unmeasured = []string{pods.Pick(m, signals...)}
	}
	return s
}
