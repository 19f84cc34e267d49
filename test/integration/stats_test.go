//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/runtime/api/stream"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

const (
	// burnBytes is what the test's pod writes to memory, and burnNanos the least that it uses of a CPU on a machine that
	// runs other tests as well.
	burnBytes = 32 << 20
	burnNanos = 10_000_000
	mebi      = 1 << 20
)

// get returns what the agent's socket serves at a path.
func (a *agent) get(path string) string {
	a.T.Helper()
	pathname, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	must.OK(a.T, err)
	c := stream.New(filepath.Join(a.Root, stream.SocketName))
	defer c.Close()
	ctx, cancel := node.Bounded()
	defer cancel()
	r, err := c.Get(ctx, pathname, values)
	must.OK(a.T, err)
	defer r.Body.Close()
	data, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	must.OK(a.T, err)
	return string(data)
}

// summary returns the Summary, and the pod in it; nil while it is not there.
func (a *agent) summary(pod string) (*api.Summary, *api.PodStats) {
	a.T.Helper()
	s := new(api.Summary)
	must.OK(a.T, json.Unmarshal([]byte(a.get("/stats/summary")), s))
	for i := range s.Pods {
		if a.ShortName(s.Pods[i].PodRef.Name) == pod {
			return s, &s.Pods[i]
		}
	}
	return s, nil
}

// ofRuntime returns what the runtime reports of a container.
func ofRuntime(t *testing.T, id string) *cri.ContainerStats {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	list, err := cri.NewRuntimeServiceClient(setup.Runtime.Conn()).ListContainerStats(ctx, &cri.ListContainerStatsRequest{
		Filter: &cri.ContainerStatsFilter{Id: node.BareID(id)},
	})
	must.OK(t, err)
	if len(list.GetStats()) != 1 {
		t.Fatalf("the runtime has %d containers %s", len(list.GetStats()), id)
	}
	return list.GetStats()[0]
}

// A pod that burns CPU and memory shows in the Summary, in the metrics and in top, with the runtime's figures.
func TestStatisticsShowWhatAPodUses(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--cgroups-per-qos=true", "--cgroups-per-qos=false"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			burn := fmt.Sprintf("dd if=/dev/zero of=/layer bs=1M count=1; "+
				"dd if=/dev/zero of=/dev/shm/f bs=1M count=%d; while :; do :; done", burnBytes/mebi)
			a := started(t, onePod("burn", burn, scratch), flag)
			p := a.pod("burn", "ready", ready)
			id := container(p, "main").ContainerID
			before := ofRuntime(t, id)
			var pod *api.PodStats
			var sum *api.Summary
			eventually(t, node.Soon, "the pod's use in the Summary", func() error {
				sum, pod = a.summary("burn")
				if pod == nil || len(pod.Containers) != 1 || pod.CPU == nil || pod.Memory == nil ||
					*pod.Memory.WorkingSetBytes < burnBytes || pod.CPU.UsageNanoCores == nil ||
					*pod.CPU.UsageNanoCores < burnNanos || len(pod.VolumeStats) != 1 || pod.Containers[0].Rootfs == nil ||
					*pod.Containers[0].Rootfs.UsedBytes < mebi {
					return fmt.Errorf("%+v", pod)
				}
				return nil
			})
			checkSummary(t, sum, pod)
			checkAgainstRuntime(t, before, &pod.Containers[0], ofRuntime(t, id))
			a.checkMetrics(p.Name)
			a.checkTop(p.Name)
			a.Verified()
		})
	}
}

// checkSummary checks that every figure that this machine has is there.
func checkSummary(t *testing.T, s *api.Summary, pod *api.PodStats) {
	t.Helper()
	c := &pod.Containers[0]
	if pod.Network == nil || pod.Network.Name != "eth0" || *pod.Network.RxBytes == 0 {
		t.Errorf("network: %+v", pod.Network)
	}
	if c.Logs == nil || pod.EphemeralStorage == nil || pod.ProcessStats == nil || *pod.ProcessStats.ProcessCount < 1 {
		t.Errorf("files and processes: %+v", pod)
	}
	if *pod.VolumeStats[0].UsedBytes == 0 || *pod.VolumeStats[0].CapacityBytes == 0 {
		t.Errorf("volumes: %+v", pod.VolumeStats)
	}
	if (c.CPU.PSI == nil) != (s.Node.IO == nil) {
		t.Errorf("pressure of the container %v, of the node %v", c.CPU.PSI, s.Node.IO)
	}
	n := &s.Node
	if n.CPU == nil || n.Memory == nil || n.Fs == nil || n.Runtime == nil || n.Runtime.ImageFs == nil || n.Rlimit == nil ||
		n.Network == nil {
		t.Errorf("node: %+v", n)
	}
	names := map[string]bool{}
	for _, c := range n.SystemContainers {
		names[c.Name] = c.CPU != nil && c.Memory != nil
	}
	for _, name := range []string{api.SystemContainerKubelet, api.SystemContainerRuntime, api.SystemContainerPods} {
		if !names[name] {
			t.Errorf("no figures of the system container %s: %v", name, names)
		}
	}
}

// checkAgainstRuntime compares with what the runtime reported before and after.
func checkAgainstRuntime(t *testing.T, before *cri.ContainerStats, c *api.ContainerStats, after *cri.ContainerStats) {
	t.Helper()
	low, high := before.GetCpu().GetUsageCoreNanoSeconds().GetValue(), after.GetCpu().GetUsageCoreNanoSeconds().GetValue()
	if got := *c.CPU.UsageCoreNanoSeconds; got < low || got > high {
		t.Errorf("%d ns of CPU, want between the runtime's %d and %d", got, low, high)
	}
	want, got := int64(after.GetMemory().GetWorkingSetBytes().GetValue()), int64(*c.Memory.WorkingSetBytes)
	if diff := got - want; max(diff, -diff) > 4*mebi {
		t.Errorf("a working set of %d bytes, the runtime has %d", got, want)
	}
	rootfs := after.GetWritableLayer().GetUsedBytes().GetValue()
	if *c.Rootfs.UsedBytes > rootfs+mebi {
		t.Errorf("a layer of %d bytes, the runtime has %d", *c.Rootfs.UsedBytes, rootfs)
	}
}

// value returns the value of a sample of a metric with these labels.
func value(t *testing.T, text, name, labels string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + `\{[^}]*` + labels + `[^}]*\} (\S+)`).FindStringSubmatch(text)
	if m == nil {
		t.Errorf("no %s with %s", name, labels)
		return 0
	}
	v, err := strconv.ParseFloat(m[1], 64)
	must.OK(t, err)
	return v
}

func (a *agent) checkMetrics(pod string) {
	a.T.Helper()
	resource, cadvisor := a.get("/metrics/resource"), a.get("/metrics/cadvisor")
	for _, c := range []struct{ text, name, labels string }{
		{resource, "container_cpu_usage_seconds_total", `container="main"`},
		{resource, "pod_cpu_usage_seconds_total", `pod="` + pod},
		{cadvisor, "container_cpu_usage_seconds_total", `container="main"`},
		{cadvisor, "container_network_receive_bytes_total", `interface="eth0".*pod="` + pod},
		{cadvisor, "container_start_time_seconds", `container="main"`}, {cadvisor, "machine_memory_bytes", ""},
		{cadvisor, "container_fs_usage_bytes", `container="main"`},
	} {
		if value(a.T, c.text, c.name, c.labels) <= 0 {
			a.T.Errorf("%s is not above 0", c.name)
		}
	}
	for _, text := range []string{resource, cadvisor} {
		if v := value(a.T, text, "container_memory_working_set_bytes", `container="main"`); v < burnBytes {
			a.T.Errorf("a working set of %g bytes", v)
		}
	}
}

// checkTop checks the rows of top, which has a first reading to compare with.
func (a *agent) checkTop(pod string) {
	a.T.Helper()
	for _, args := range [][]string{
		{"top"}, {"top", "pods", "--containers", "--no-headers"}, {"top", pod, "-o", "wide"}, {"top", "node"},
		{"top", "-o", "yaml"},
	} {
		out, errs, code := a.CLI(args...)
		if code != 0 || errs != "" {
			a.T.Errorf("%v: %d %s", args, code, errs)
		}
		if args[len(args)-1] != "top" {
			continue
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		row := strings.Fields(lines[len(lines)-1])
		if len(lines) != 2 || len(row) != 3 || row[0] != pod || row[1] == "0m" || len(row[2]) < len("32Mi") {
			a.T.Errorf("top prints:\n%s", out)
		}
	}
	if _, errs, code := a.CLI("top", "nobody"); code == 0 || !strings.Contains(errs, "not found") {
		a.T.Errorf("top of no pod: %d %s", code, errs)
	}
}
