package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/criproxy"
)

func at(millis int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(millis)) }

func ended(method string, begin, end int) criproxy.Call {
	return criproxy.Call{Method: method, Begin: at(begin), End: at(end)}
}

// onePod is a start of 100 ms: 10 ours, 50 the sandbox's, 5 a read's, 3 ours, 2 a read's, 30 the container's.
var onePod = podStart{
	written: at(0), running: at(100), floor: 80 * time.Millisecond,
	records: []record{{5, at(8), []string{"manifests_read"}}, {6, at(61), []string{"call_finished", "pod_observed"}}},
	calls: []criproxy.Call{
		ended("RunPodSandbox", 10, 60), ended("PodSandboxStatus", 55, 65), ended("ListContainers", 68, 75),
		ended("CreateContainer", 70, 80), ended("StartContainer", 80, 101),
	},
}

func TestStartTimeIsSplitIntoShares(t *testing.T) {
	runtime, reads, ours := onePod.share()
	if runtime != 80*time.Millisecond || reads != 7*time.Millisecond || ours != 13*time.Millisecond {
		t.Errorf("runtime %v, reads %v, ours %v", runtime, reads, ours)
	}
}

func TestStartTableNamesEveryRecordAndCall(t *testing.T) {
	var b bytes.Buffer
	onePod.write(&b)
	for _, want := range []string{
		"one pod alone, ms: 100.0", "ours 13.0",
		"8.0 ms until the manifest is read, 2.0 to the first call, 3.0 between the calls", "#5", "manifests_read",
		"call_finished, pod_observed", "| 55.0   | 10.0     | call   | PodSandboxStatus", "container running",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestBusyTimeEndsWithTheLastPod(t *testing.T) {
	b := burst{begin: at(0), last: 100 * time.Millisecond, calls: []criproxy.Call{
		ended("RunPodSandbox", 0, 60), ended("StartContainer", 90, 130), ended("ListContainers", 0, 9),
	}}
	if got := b.busy(); got != 70*time.Millisecond {
		t.Errorf("busy for %v", got)
	}
}
