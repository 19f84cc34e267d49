package load

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/measure"
	"github.com/journalet/journalet/test/must"
)

// exitPods is how many pods end in BenchmarkExit, one after another.
const exitPods = 50

// BenchmarkExit measures how long it takes from the end of a container, of a pod that is not restarted, until an
// observer is shown the pod's phase.
func BenchmarkExit(b *testing.B) {
	var took []float64
	for range b.N {
		n := newNode(b)
		for i := range exitPods {
			n.putWith(podName(i), podUID(i), 0, corev1.RestartPolicyNever)
		}
		n.start()
		n.awaitAll(exitPods)
		phases := n.observe()
		for i := range exitPods {
			phases.await(b, podUID(i), "POD_PHASE_RUNNING") // what was recorded so far
		}
		containers := n.containers()
		for i := range exitPods {
			began := time.Now()
			must.OK(b, n.rt.Kill(containers[podUID(i)], 0))
			phases.await(b, podUID(i), "POD_PHASE_SUCCEEDED")
			took = append(took, float64(time.Since(began))/float64(time.Millisecond))
		}
		n.kill()
	}
	p50, _ := measure.Median(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(p50, "ms-exit")
}

// podUID returns the UID in a pod's manifest, so that events about it are known as such.
func podUID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

// containers returns the ids of the running containers, by their pods' UIDs.
func (n *node) containers() map[string]string {
	n.tb.Helper()
	list, err := cri.NewRuntimeServiceClient(n.cri).ListContainers(n.tb.Context(), &cri.ListContainersRequest{})
	must.OK(n.tb, err)
	ids := map[string]string{}
	for _, c := range list.GetContainers() {
		ids[c.GetLabels()["io.kubernetes.pod.uid"]] = c.GetId()
	}
	return ids
}

// phases follows the phases of pods.
type phases struct {
	lines chan phaseLine
	now   map[string]string // by UID, as shown so far
}

// phaseLine is the part of an event that is used here.
type phaseLine struct {
	Author string // pod/<uid>
	Data   struct{ Phase string }
}

// observe follows the journal as a user does, from its first record on.
func (n *node) observe() *phases {
	n.tb.Helper()
	cmd := exec.Command(program, "observe", "--root-dir", filepath.Join(n.dir, "root"),
		"--event", "pod_status_changed", "--from", "1", "-o", "json")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	must.OK(n.tb, err)
	must.OK(n.tb, cmd.Start())
	p := &phases{lines: make(chan phaseLine), now: map[string]string{}}
	ended := make(chan struct{})
	go func() {
		defer close(p.lines)
		readPhases(out, p.lines, ended)
	}()
	n.tb.Cleanup(func() {
		close(ended)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	return p
}

// readPhases passes on each event that names a phase, until the output or the benchmark ends.
func readPhases(from io.Reader, to chan<- phaseLine, ended <-chan struct{}) {
	for in := bufio.NewScanner(from); in.Scan(); {
		var l phaseLine
		if json.Unmarshal(in.Bytes(), &l) != nil || l.Data.Phase == "" {
			continue // a status that changed in something else
		}
		select {
		case to <- l:
		case <-ended:
			return
		}
	}
}

// await blocks until a pod is shown in a phase.
func (p *phases) await(tb testing.TB, uid, phase string) {
	tb.Helper()
	late := time.After(waitTimeout)
	for p.now["pod/"+uid] != phase {
		select {
		case l, ok := <-p.lines:
			if !ok {
				tb.Fatalf("`journalet observe` ended before it showed pod %s in %s", uid, phase)
			}
			p.now[l.Author] = l.Data.Phase
		case <-late:
			tb.Fatalf("pod %s is not %s within %s, but %q", uid, phase, waitTimeout, p.now["pod/"+uid])
		}
	}
}
