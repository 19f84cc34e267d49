package stats

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/runtime/stats/usage"
	"github.com/journalet/journalet/test/must"
)

// benchPods is how many pods the benchmark measures, each with one container.
const benchPods = 150

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	must.OK(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkOf150Pods measures 150 pods with real cgroups of this machine, without processes, each with a cgroup of the
// pod and one of a container, and encodes the answer.
func BenchmarkOf150Pods(b *testing.B) {
	var pods []Pod
	for i := range benchPods {
		p := web(fmt.Sprintf("/journalet-bench-%d/pod%d", os.Getpid(), i))
		p.Manifest.Name, p.Manifest.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
		p.Containers[0].ID = fmt.Sprintf("c%d", i)
		m, err := manager.New(&cgroups.Cgroup{Path: p.Cgroup + "/" + p.Containers[0].ID, Resources: &cgroups.Resources{}})
		must.OK(b, err)
		must.OK(b, m.Apply(-1))
		b.Cleanup(func() { _ = m.Destroy() })
		pods = append(pods, p)
	}
	b.Cleanup(func() {
		for i := range benchPods {
			if m, err := manager.New(&cgroups.Cgroup{Path: pods[i].Cgroup, Resources: &cgroups.Resources{}}); err == nil {
				_ = m.Destroy()
			}
		}
		if m, err := manager.New(&cgroups.Cgroup{
			Path: fmt.Sprintf("/journalet-bench-%d", os.Getpid()), Resources: &cgroups.Resources{},
		}); err == nil {
			_ = m.Destroy()
		}
	})
	s := New(Options{
		Node: "node-1", Pods: func() []Pod { return pods }, Conn: &fakeRuntime{}, Storage: fakeStorage{}, RootDir: "/",
		Reader: usage.NewReader("/", cgroups.IsCgroup2UnifiedMode()),
	})
	for _, c := range []struct {
		name string
		read func() *api.Summary
	}{
		{"top", func() *api.Summary { return s.Top(b.Context(), false) }},
		{"top-wide", func() *api.Summary { return s.Top(b.Context(), true) }},
		{"cpu-and-memory", func() *api.Summary { return s.CPUAndMemory(b.Context()) }},
		{"summary", func() *api.Summary { return s.Summary(b.Context()) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.read()
			bytes, before := 0, cpuTime(b)
			for b.Loop() {
				s.last = nil
				data, err := json.Marshal(c.read())
				must.OK(b, err)
				bytes = len(data)
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
			b.ReportMetric(float64(bytes), "bytes")
		})
	}
	b.Run("first-top", func(b *testing.B) {
		before := cpuTime(b)
		for b.Loop() {
			s.last, s.rates = nil, rates{}
			s.Top(b.Context(), false)
		}
		b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
	})
}
