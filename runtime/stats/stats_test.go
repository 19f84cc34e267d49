package stats

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/runtime/stats/usage"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

var update = flag.Bool("stats.update", false, "write the golden files again")

// machine writes the files of a fixture, which begin with lines such as "-- path --", and returns their directory.
func machine(t *testing.T, fixture string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", fixture))
	must.OK(t, err)
	root := t.TempDir()
	for part := range strings.SplitSeq("\n"+string(data), "\n-- ") {
		name, text, ok := strings.Cut(part, " --\n")
		if !ok {
			continue
		}
		at := filepath.Join(root, name)
		must.OK(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must.OK(t, os.WriteFile(at, []byte(strings.TrimSuffix(text, "\n")+"\n"), 0o600))
	}
	return root
}

// fakeRuntime is a runtime's connection that answers from memory.
type fakeRuntime struct {
	grpc.ClientConnInterface
	hang  chan struct{} // not nil: until it is closed nothing is answered
	pid   string
	calls atomic.Int32
}

func (f *fakeRuntime) Invoke(ctx context.Context, method string, _, reply any, _ ...grpc.CallOption) error {
	f.calls.Add(1)
	if f.hang != nil {
		select {
		case <-f.hang:
		case <-ctx.Done():
		}
		return context.DeadlineExceeded
	}
	n := func(v uint64) *cri.UInt64Value { return &cri.UInt64Value{Value: v} }
	switch r := reply.(type) {
	case *cri.ImageFsInfoResponse:
		r.ImageFilesystems = []*cri.FilesystemUsage{{
			FsId: &cri.FilesystemIdentifier{Mountpoint: "/no/such/dir"}, UsedBytes: n(7 << 20), InodesUsed: n(70),
		}}
	case *cri.ListContainerStatsResponse:
		r.Stats = []*cri.ContainerStats{{
			Attributes:    &cri.ContainerAttributes{Id: "c1"},
			WritableLayer: &cri.FilesystemUsage{Timestamp: 1, UsedBytes: n(12288), InodesUsed: n(5)},
		}, {
			Attributes: &cri.ContainerAttributes{Id: "kata"},
			Cpu:        &cri.CpuUsage{Timestamp: 1, UsageCoreNanoSeconds: n(9e9), UsageNanoCores: n(1e6)},
			Memory:     &cri.MemoryUsage{Timestamp: 1, WorkingSetBytes: n(1 << 20)},
		}}
	case *cri.ContainerStatusResponse:
		r.Info = map[string]string{"info": `{"pid": ` + f.pid + `}`}
	}
	return nil
}

// fakeStorage measures volumes; one of the name "hangs" never ends.
type fakeStorage struct{}

func (fakeStorage) Volume(ctx context.Context, _ *corev1.Pod, v *corev1.Volume) (storage.Measured, error) {
	if v.Name == "hangs" {
		<-ctx.Done()
		return storage.Measured{}, ctx.Err()
	}
	return storage.Measured{Bytes: 4096, Inodes: 2, FS: storage.FileSystem{
		Capacity: 1 << 30, Available: 1 << 29, Used: 1 << 29, Inodes: 1000, InodesFree: 900,
	}}, nil
}

func (fakeStorage) Logs(_ context.Context, _ *corev1.Pod, container string) (bounded.Usage, error) {
	if container == "" {
		return bounded.Usage{FileBytes: 10000, Inodes: 4}, nil
	}
	return bounded.Usage{FileBytes: 8192, Inodes: 2}, nil
}

func (fakeStorage) Hosts(context.Context, *corev1.Pod) (bounded.Usage, error) {
	return bounded.Usage{FileBytes: 512, Inodes: 1}, nil
}

func (fakeStorage) Provided(_ context.Context, uid string, _ int64) (storage.Provided, error) {
	if uid != "uid-1" {
		return storage.Provided{}, nil
	}
	return storage.Provided{Containers: map[string]bounded.Usage{"app": {FileBytes: 1000, DirBytes: 24, Inodes: 3}},
		Pod: bounded.Usage{FileBytes: 100, Inodes: 2}}, nil
}

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// web is a pod with one container and two volumes.
func web(cgroup string) Pod {
	return Pod{
		Manifest: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "uid-1"},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
			}},
		},
		Cgroup: cgroup, Sandbox: Object{"s1", created},
		Containers: []Container{{Object: Object{"c1", created.Add(time.Second)}, Name: "app", Image: "example.com/app:1",
			Started: created.Add(2 * time.Second)}},
	}
}

func newStats(t *testing.T, root string, unified bool, rt *fakeRuntime, pods ...Pod) *Stats {
	t.Helper()
	s := New(Options{
		Node: "node-1", Pods: func() []Pod { return pods }, Conn: rt, Storage: fakeStorage{}, RootDir: root,
		Reader: usage.NewReader(root, unified), PodsCgroup: func() string { return "/kubepods" },
		Proc: filepath.Join(root, "proc"), RuntimePID: func() int { return 2 },
	})
	s.maxWait, s.signalWait = time.Minute, time.Minute
	return s
}

// volatile are times.
var volatile = regexp.MustCompile(`"(time|startTime)": "[^"]*"`)

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must.OK(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	must.OK(t, err)
	if string(got) != string(want) {
		t.Errorf("%s differs: run the test with -stats.update and read the difference:\n%s", path, got)
	}
}

func TestSummaryOfBothVersionsOfCgroups(t *testing.T) {
	for name, c := range map[string]struct {
		unified bool
		cgroup  string
	}{"v2": {true, "/kubepods/burstable/poduid-1"}, "v1": {false, ""}} {
		t.Run(name, func(t *testing.T) {
			s := newStats(t, machine(t, name+".txt"), c.unified, &fakeRuntime{}, web(c.cgroup))
			s.Summary(t.Context())
			s.last = nil // a second reading has what is slow
			out := s.Summary(t.Context())
			out.Node.Fs = nil // of the machine that runs the test
			for _, fs := range []*api.FsStats{out.Pods[0].Containers[0].Logs, out.Pods[0].EphemeralStorage} {
				fs.AvailableBytes, fs.CapacityBytes, fs.Inodes, fs.InodesFree = nil, nil, nil, nil
			}
			data, err := json.MarshalIndent(out, "", " ")
			must.OK(t, err)
			golden(t, name+".json", append(volatile.ReplaceAll(data, []byte(`"$1": "T"`)), '\n'))
		})
	}
}

// CRI-O starts no process for a sandbox: a process of a container is in the network namespace, too.
func TestNetworkIsReadByAContainerWhereTheSandboxHasNoProcess(t *testing.T) {
	root, pod := t.TempDir(), "sys/fs/cgroup/kubepods/burstable/poduid-1/"
	for name, text := range map[string]string{
		pod + "crio-s1.scope/cgroup.procs": "", pod + "crio-c1.scope/cgroup.procs": "7\n",
		"proc/7/net/dev": "head\nhead\n  eth0: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n",
	} {
		must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must.OK(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	s := newStats(t, root, true, &fakeRuntime{}, web("/kubepods/burstable/poduid-1"))
	n := s.Summary(t.Context()).Pods[0].Network
	if n == nil || n.RxBytes == nil || *n.RxBytes != 10 || *n.TxBytes != 20 {
		t.Errorf("the pod's network is %+v", n)
	}
}

// A volume and a runtime that hang delay no other figure, and everything together only for so long.
func TestWhatHangsDelaysNoOtherFigure(t *testing.T) {
	rt := &fakeRuntime{hang: make(chan struct{})}
	defer close(rt.hang)
	p := web("/kubepods/burstable/poduid-1")
	p.Manifest.Spec.Volumes = append([]corev1.Volume{{Name: "hangs",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}, p.Manifest.Spec.Volumes...)
	s := newStats(t, machine(t, "v2.txt"), true, rt, p)
	s.maxWait = MaxWait
	for end := time.Now().Add(time.Minute); ; { // what is slow may need another request
		begun := time.Now()
		out := s.Summary(t.Context())
		strict.Within(t, "a summary beside what hangs", time.Since(begun), 10*MaxWait)
		pod := &out.Pods[0]
		if out.Node.Runtime != nil || pod.Containers[0].Rootfs != nil {
			t.Error("the runtime hangs and is said to have answered")
		}
		if len(pod.VolumeStats) == 1 && pod.VolumeStats[0].Name == "scratch" && pod.Containers[0].CPU != nil &&
			pod.Containers[0].Logs != nil && pod.Network != nil && out.Node.Fs != nil {
			break
		}
		if strict.Time() || time.Now().After(end) {
			t.Fatalf("a figure is missing beside what hangs: %+v", pod)
		}
	}
	before := rt.calls.Load()
	s.Summary(t.Context())
	if now := rt.calls.Load(); now != before {
		t.Errorf("a runtime that hangs is asked again, %d times", now-before)
	}
}

// Many who ask at once cost one reading, and nobody who asks costs nothing.
func TestConcurrentRequestsShareOneReading(t *testing.T) {
	var lists atomic.Int32
	s := newStats(t, machine(t, "v2.txt"), true, &fakeRuntime{})
	s.opts.Pods = func() []Pod { lists.Add(1); return []Pod{web("/kubepods/burstable/poduid-1")} }
	if lists.Load() != 0 || len(s.rates) != 0 {
		t.Error("something is measured while nobody asks")
	}
	now := time.Now()
	s.opts.Now = func() time.Time { return now }
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { s.Summary(t.Context()); s.CPUAndMemory(t.Context()); s.Top(t.Context(), true) })
	}
	all.Wait()
	if n := lists.Load(); n != 1 {
		t.Errorf("%d readings for 150 who ask", n)
	}
	now = now.Add(Fresh)
	s.Top(t.Context(), false)
	if n := lists.Load(); n != 2 {
		t.Errorf("%d readings after a second", n)
	}
}

// The average counts from the reading before, and never over a window that is too long or a counter that went back.
func TestAveragesNeedTwoReadings(t *testing.T) {
	r, at := rates{}, created
	if r.add("c", 1000, at) != nil {
		t.Error("an average of one reading")
	}
	for _, step := range []struct {
		after time.Duration
		used  uint64
		want  int64
	}{
		{2 * time.Second, 1000 + 1e9, 5e8}, {time.Millisecond, 1000 + 1e9, 5e8}, {time.Second, 1000 + 1e9, 0},
		{time.Second, 5, -1}, {0, 6, -1}, {time.Second, 1e6 + 5, 1e6}, {MaxWindow + 1, 1e9, -1},
	} {
		at = at.Add(step.after)
		got := r.add("c", step.used, at)
		if (got == nil) != (step.want < 0) || got != nil && int64(*got) != step.want {
			t.Errorf("%+v: got %v", step, got)
		}
	}
	if r.drop(at.Add(MaxWindow + 1)); len(r) != 0 {
		t.Errorf("%d readings are kept for nothing", len(r))
	}
}

// The first time somebody asks, CPU time is read twice, so that there is an average at once.
func TestFirstAnswerHasAnAverage(t *testing.T) {
	root := machine(t, "v2.txt")
	s := newStats(t, root, true, &fakeRuntime{}, web("/kubepods/burstable/poduid-1"))
	begun := time.Now()
	out := s.Top(t.Context(), false)
	c := out.Pods[0].Containers[0]
	if c.CPU == nil || c.CPU.UsageNanoCores == nil || time.Now().Before(begun.Add(FirstPause)) {
		t.Errorf("%+v after %s", c.CPU, time.Since(begun))
	}
}

// A container whose cgroup is elsewhere is found by its process, which the runtime is asked for once.
func TestCgroupElsewhereIsFoundByItsProcess(t *testing.T) {
	root := machine(t, "v2.txt")
	must.OK(t, os.MkdirAll(filepath.Join(root, "proc/7"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(root, "proc/7/cgroup"), []byte("0::/system.slice/containerd.service\n"), 0o600))
	rt := &fakeRuntime{pid: "7"}
	p := web("")
	p.Containers[0].ID = "elsewhere"
	s := newStats(t, root, true, rt, p)
	for range 3 {
		out := s.Top(t.Context(), false)
		if c := out.Pods[0].Containers[0]; c.Memory == nil || *c.Memory.UsageBytes != 50331648 {
			t.Fatalf("%+v", c)
		}
		s.last = nil
	}
	if n := rt.calls.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// Of a container without a cgroup on the node, the runtime's own figures count.
func TestContainerInAVirtualMachineHasTheRuntimesFigures(t *testing.T) {
	p := web("")
	p.Containers[0].ID = "kata"
	s := newStats(t, machine(t, "v2.txt"), true, &fakeRuntime{pid: "0"}, p)
	c := s.Top(t.Context(), false).Pods[0].Containers[0]
	if c.CPU == nil || *c.CPU.UsageNanoCores != 1e6 || c.Memory == nil || *c.Memory.WorkingSetBytes != 1<<20 {
		t.Errorf("%+v", c)
	}
}

// Nothing that is in a cgroup's directory blocks a reading or makes it long.
func TestHostileFilesCostNothing(t *testing.T) {
	root := machine(t, "v2.txt")
	dir := filepath.Join(root, "sys/fs/cgroup/kubepods/burstable/poduid-1/cri-containerd-c1.scope")
	for name, plant := range map[string]func(path string) error{
		"memory.max":     func(p string) error { return unix.Mkfifo(p, 0o600) },
		"memory.current": func(p string) error { return os.Symlink("/proc/self/status", p) },
		"cpu.pressure":   func(p string) error { return os.WriteFile(p, make([]byte, 1<<20), 0o600) },
		"io.pressure":    func(p string) error { return os.WriteFile(p, []byte("some avg10=NaN total=-1\nfull\n"), 0o600) },
		"cpu.stat":       func(p string) error { return os.WriteFile(p, []byte("usage_usec 99999999999999999999\n"), 0o600) },
		"cgroup.procs":   func(p string) error { return os.Mkdir(p, 0o755) },
		"pids.current":   os.Remove,
	} {
		path := filepath.Join(dir, name)
		must.OK(t, os.Remove(path))
		if name == "pids.current" {
			continue
		}
		must.OK(t, plant(path))
	}
	s := newStats(t, root, true, &fakeRuntime{}, web("/kubepods/burstable/poduid-1"))
	out := s.Summary(t.Context())
	c := out.Pods[0].Containers[0]
	if c.Memory != nil || c.CPU == nil || *c.CPU.UsageCoreNanoSeconds != 0 || c.CPU.PSI != nil ||
		out.Pods[0].ProcessStats != nil {
		t.Errorf("%+v", c)
	}
	if _, err := json.Marshal(out); err != nil {
		t.Error(err)
	}
	must.OK(t, os.RemoveAll(dir)) // it vanishes between two readings
	s.last = nil
	if c := s.Top(t.Context(), false).Pods[0].Containers[0]; c.CPU != nil {
		t.Errorf("a cgroup that is gone has %+v", c.CPU)
	}
}

// The node alone costs no reading of pods.
func TestNodeIsReadWithoutItsPods(t *testing.T) {
	s := newStats(t, machine(t, "v2.txt"), true, &fakeRuntime{})
	s.opts.Pods = func() []Pod { t.Error("pods are listed"); return nil }
	n := s.Node(t.Context()).Node
	if n.CPU == nil || n.CPU.UsageNanoCores == nil || n.Memory == nil || n.Network == nil || len(n.SystemContainers) != 2 {
		t.Errorf("%+v", n)
	}
}

func TestVolumesNameTheirClaims(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	for want, source := range map[string]corev1.VolumeSource{
		"data": {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
		// kubelet: the claim that the control plane creates for the pod.
		"web-v": {Ephemeral: &corev1.EphemeralVolumeSource{}}, "": {CSI: &corev1.CSIVolumeSource{}},
	} {
		got := renderVolume(p, &corev1.Volume{Name: "v", VolumeSource: source}, &storage.Measured{}, time.Now()).PVCRef
		if (got == nil) != (want == "") || got != nil && *got != (api.PVCReference{Name: want, Namespace: "ns"}) {
			t.Errorf("claim %+v, want %q", got, want)
		}
	}
}
