package load

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

var (
	changes = flag.Int("changes", 10_000, "manifest changes of the flood")
	events  = flag.Int("events", 100_000, "runtime events of the flood")
	crowd   = flag.Int("crowd", 800, "manifests written at once")
)

// Bounds of the agent's growth by a flood, compared with a small one.
const (
	// maxHeapGrowth includes the store's cache of its current block: 8 MiB, freed some seconds after the last write.
	// 10,000 changes write more than that.
	maxHeapGrowth = 16 << 20
	// maxRSSGrowth includes memory that the collector has not returned, and the journal's write buffers. How much that is
	// depends on the machine's speed: it is held on a quiet one.
	maxRSSGrowth = 96 << 20
	// maxMoreGoroutines is small: floods start nothing that stays.
	maxMoreGoroutines = 20
)

func (n *node) compare(before footprint) {
	n.tb.Helper()
	var after footprint
	what := fmt.Sprintf("%d MiB of heap and %d goroutines at most beside the %v before the flood", maxHeapGrowth>>20,
		maxMoreGoroutines, before)
	n.until(what, func() (bool, string) {
		after = n.footprint()
		return after.heap-before.heap <= maxHeapGrowth && after.goroutines-before.goroutines <= maxMoreGoroutines,
			after.String()
	})
	n.tb.Logf("before: %v; after: %v", before, after)
	if strict.Time() && after.rss-before.rss > maxRSSGrowth {
		n.tb.Errorf("after a flood the agent has over %d MiB of resident memory more", maxRSSGrowth>>20)
	}
}

const (
	// floodedPods counts the files that change, half of them with a UID in the manifest.
	floodedPods = 20
	// maxReadsPerSecond bounds the reads of one file. In a directory with constant writes that is once in 200 ms. Where
	// the machine delays the writer or the agent, each 10 ms without a write allow a read: more than maxReadsEver there
	// are nowhere.
	maxReadsPerSecond, maxReadsEver = 25, 100
	// maxRecordsPerRead bounds the records of one read of one file: its pod's end, the next one's start.
	maxRecordsPerRead = 45
)

func uidOf(i int) string {
	if i%2 == 0 {
		return ""
	}
	return fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
}

func TestFloodOfManifestChangesIsReadRarelyAndEndsAtTheLast(t *testing.T) {
	n := newNode(t)
	gen := 0
	flood := func(changes int) time.Duration {
		began := time.Now()
		for range changes / floodedPods {
			gen++
			for i := range floodedPods {
				n.put(podName(i), uidOf(i), gen)
			}
		}
		took := time.Since(began)
		n.await("the last generation of all", func(r map[string]int) bool {
			for i := range floodedPods {
				if r[podName(i)] != gen {
					return false
				}
			}
			return true
		})
		n.settle(floodedPods)
		return took
	}
	n.start()
	flood(*changes / 10)
	before, records, reads := n.footprint(), n.metric("journalet_journal_records_total"), n.reads()
	took := flood(*changes)
	n.compare(before)
	wrote, read := n.metric("journalet_journal_records_total")-records, n.reads()-reads
	t.Logf("%d changes in %v: read %d times, %d records", *changes, took.Round(time.Millisecond), read, wrote)
	perSecond := maxReadsEver
	if strict.Time() {
		perSecond = maxReadsPerSecond
	}
	if most := floodedPods * (2 + int(took.Seconds()*float64(perSecond))); read > most {
		t.Errorf("%d changes of %d files in %v were read %d times, want at most %d: changes are not batched",
			*changes, floodedPods, took, read, most)
	}
	if wrote > read*maxRecordsPerRead {
		t.Errorf("%d reads became %d records", read, wrote)
	}
}

// reads counts the manifests that the agent has read since its start, by its log.
func (n *node) reads() int { return strings.Count(n.log(), `msg="manifest read"`) }

const (
	// stormPods counts the pods that the events are about.
	stormPods = 50
	// maxStormRecords is small: an observation equal to the last one is not recorded.
	maxStormRecords = 10
)

func TestStormOfRuntimeEventsWithoutAChangeIsNotRecorded(t *testing.T) {
	n := newNode(t)
	n.run(stormPods)
	rt := cri.NewRuntimeServiceClient(n.cri)
	list, err := rt.ListContainers(t.Context(), &cri.ListContainersRequest{})
	must.OK(t, err)
	var all []*cri.ContainerEventResponse
	for _, c := range list.GetContainers() {
		s, err := rt.PodSandboxStatus(t.Context(), &cri.PodSandboxStatusRequest{PodSandboxId: c.GetPodSandboxId()})
		must.OK(t, err)
		all = append(all, &cri.ContainerEventResponse{
			ContainerId: c.GetId(), ContainerEventType: cri.ContainerEventType_CONTAINER_STOPPED_EVENT,
			PodSandboxStatus: s.GetStatus(),
		})
	}
	storm := func(events int) {
		for i := range events {
			must.OK(t, n.proxy.Send(all[i%len(all)]))
		}
	}
	storm(*events / 10)
	n.settle(stormPods)
	before, records, inspections := n.footprint(), n.metric("journalet_journal_records_total"), n.inspections.Load()
	storm(*events)
	n.settle(stormPods)
	n.compare(before)
	wrote, inspected := n.metric("journalet_journal_records_total")-records, n.inspections.Load()-inspections
	t.Logf("%d events: %d inspections, %d records", *events, inspected, wrote)
	if wrote > maxStormRecords {
		t.Errorf("%d events without a change became %d records", *events, wrote)
	}
	if inspected > int64(*events)/2 {
		t.Errorf("%d events became %d inspections: hints are not batched", *events, inspected)
	}
	// A change after the storm is not lost.
	must.OK(t, n.rt.Kill(list.GetContainers()[0].GetId(), 1))
	n.until("the killed container's restart", func() (bool, string) {
		now, err := rt.ListContainers(t.Context(), &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
			PodSandboxId: list.GetContainers()[0].GetPodSandboxId(),
			State:        &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
		}})
		return err == nil && len(now.GetContainers()) == 1, fmt.Sprintf("%v, %v", now.GetContainers(), err)
	})
}

func TestManyManifestsAtOnceAllRun(t *testing.T) {
	n := newNode(t)
	n.run(*crowd)
	t.Logf("%d pods: %v; %d times an actor lagged", *crowd, n.footprint(), strings.Count(n.log(), "lags behind"))
}

func TestAgentServesProfilesOnlyWithItsFlag(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{{nil, "404"}, {[]string{"--profiling"}, "goroutine profile"}} {
		n := newNode(t)
		n.startWith(c.args...)
		n.until("health", func() (bool, string) { got := n.page("/healthz"); return got == "ok", got })
		if got := n.page("/debug/pprof/goroutine?debug=1"); !strings.Contains(got, c.want) {
			t.Errorf("with %v it returns %.80q, want %q", c.args, got, c.want)
		}
	}
}
