package load

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var (
	changes = flag.Int("changes", 10_000, "manifest changes of the flood")
	events  = flag.Int("events", 100_000, "runtime events of the flood")
	crowd   = flag.Int("crowd", 800, "manifests put into the folder at once")
)

// Bounds of what a flood may leave behind, over what a small one left.
const (
	// maxHeapGrowth has room for what the store keeps of the block that it writes to, which is 8 MiB and goes when
	// nothing is written for some seconds. What 10,000 changes write is more.
	maxHeapGrowth = 16 << 20
	// maxRSSGrowth leaves room for what the collector has not given back, and for the journal's write buffers.
	maxRSSGrowth = 96 << 20
	// maxMoreGoroutines: floods start nothing that stays.
	maxMoreGoroutines = 20
)

func (n *node) compare(before footprint) {
	n.tb.Helper()
	after := n.footprint()
	n.tb.Logf("before: %v; after: %v", before, after)
	if after.heap-before.heap > maxHeapGrowth || after.rss-before.rss > maxRSSGrowth || after.goroutines-before.goroutines > maxMoreGoroutines {
		n.tb.Errorf("a flood leaves more behind than %d MiB of heap, %d MiB resident and %d goroutines", maxHeapGrowth>>20, maxRSSGrowth>>20, maxMoreGoroutines)
	}
}

const (
	// floodedPods are the files that change, half of them with a UID of their own.
	floodedPods = 20
	// maxReadsPerSecond is how often one file is read. While its folder is never quiet that is once in 200 ms; a writer
	// that is held up by the machine makes it quiet for the 10 ms that are waited for, now and then.
	maxReadsPerSecond = 25
	// maxRecordsPerRead bounds what follows from one reading of one file: its pod's end, the next one's start.
	maxRecordsPerRead = 45
)

func uidOf(i int) string {
	if i%2 == 0 {
		return ""
	}
	return fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
}

func TestAFloodOfManifestChangesIsReadAsFewAndEndsAtTheLast(t *testing.T) {
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
	if most := floodedPods * (2 + int(took.Seconds()*maxReadsPerSecond)); read > most {
		t.Errorf("%d changes of %d files in %v were read %d times, which %d would do: they are not taken together",
			*changes, floodedPods, took, read, most)
	}
	if wrote > read*maxRecordsPerRead {
		t.Errorf("%d readings became %d records", read, wrote)
	}
}

// reads counts the manifests that the agent says it has read since it was started.
func (n *node) reads() int { return strings.Count(n.said(), `msg="manifest read"`) }

const (
	// stormPods are the pods that the events are about.
	stormPods = 50
	// maxStormRecords: an observation like the last is no event, so a storm that shows nothing new is none either.
	maxStormRecords = 10
)

func TestAStormOfRuntimeEventsThatShowNothingNewIsNoNews(t *testing.T) {
	n := newNode(t)
	n.run(stormPods)
	rt := cri.NewRuntimeServiceClient(n.cri)
	list, err := rt.ListContainers(t.Context(), &cri.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var all []*cri.ContainerEventResponse
	for _, c := range list.GetContainers() {
		s, err := rt.PodSandboxStatus(t.Context(), &cri.PodSandboxStatusRequest{PodSandboxId: c.GetPodSandboxId()})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &cri.ContainerEventResponse{
			ContainerId: c.GetId(), ContainerEventType: cri.ContainerEventType_CONTAINER_STOPPED_EVENT, PodSandboxStatus: s.GetStatus(),
		})
	}
	storm := func(events int) {
		for i := range events {
			if err := n.front.Send(all[i%len(all)]); err != nil {
				t.Fatal(err)
			}
		}
	}
	storm(*events / 10)
	n.settle(stormPods)
	before, records, looks := n.footprint(), n.metric("journalet_journal_records_total"), n.inspections.Load()
	storm(*events)
	n.settle(stormPods)
	n.compare(before)
	wrote, looked := n.metric("journalet_journal_records_total")-records, n.inspections.Load()-looks
	t.Logf("%d events: %d looks, %d records", *events, looked, wrote)
	if wrote > maxStormRecords {
		t.Errorf("%d events that show nothing new became %d records", *events, wrote)
	}
	if looked > int64(*events)/2 {
		t.Errorf("%d events became %d looks: hints are not taken together", *events, looked)
	}
	// What the storm stands before is not lost in it.
	if err := n.rt.Kill(list.GetContainers()[0].GetId(), 1); err != nil {
		t.Fatal(err)
	}
	n.until("the killed container's successor", func() (bool, string) {
		now, err := rt.ListContainers(t.Context(), &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
			PodSandboxId: list.GetContainers()[0].GetPodSandboxId(),
			State:        &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
		}})
		return err == nil && len(now.GetContainers()) == 1, fmt.Sprintf("%v, %v", now.GetContainers(), err)
	})
}

func TestACrowdOfManifestsAtOnceAllRun(t *testing.T) {
	n := newNode(t)
	n.run(*crowd)
	t.Logf("%d pods: %v; %d times an actor lagged", *crowd, n.footprint(), strings.Count(n.said(), "lags behind"))
}

func TestAnAgentServesProfilesOnlyWhenAskedTo(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{{nil, "404"}, {[]string{"--profiling"}, "goroutine profile"}} {
		n := newNode(t)
		n.startWith(c.args...)
		n.until("health", func() (bool, string) { got := n.page("/healthz"); return got == "ok", got })
		if got := n.page("/debug/pprof/goroutine?debug=1"); !strings.Contains(got, c.want) {
			t.Errorf("with %v it answers %.80q, want %q", c.args, got, c.want)
		}
	}
}
