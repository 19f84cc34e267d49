package load

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	manyPods = flag.Int("pods", 500, "pods of the recovery benchmark")
	idlePods = flag.Int("idle-pods", 150, "pods of the idle benchmark")
	profile  = flag.String("agent-profile", "", "file for a CPU profile of the agent during the idle benchmark")
)

// idleWindow is how long the agent's idle CPU is measured.
const idleWindow = 20 * time.Second

// BenchmarkRecovery kills the agent of a full node and starts it again with one more manifest. It measures, from the
// start of the process, when the agent serves the state of every pod, and when the new pod's container starts.
func BenchmarkRecovery(b *testing.B) {
	n := newNode(b)
	began := time.Now()
	n.run(*manyPods)
	burst := time.Since(began)
	records := n.metric("journalet_journal_records_total")
	var served, started time.Duration
	pods := *manyPods
	b.ResetTimer()
	for range b.N {
		n.kill()
		name := podName(pods)
		n.put(name, "", 1)
		began := time.Now()
		n.start()
		n.until("all pods' states served", func() (bool, string) {
			got := n.metric("kubelet_running_pods")
			return got >= pods, fmt.Sprintf("%d", got)
		})
		served += time.Since(began)
		n.await("the new pod running", func(r map[string]int) bool { return r[name] == 1 })
		started += n.at(name).Sub(began) // the runtime's time, usually earlier than now
		b.StopTimer()
		pods++
		n.settle(pods)
		b.StartTimer()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(served.Seconds()/float64(b.N), "s-served")
	b.ReportMetric(started.Seconds()/float64(b.N), "s-new-pod")
	b.ReportMetric(burst.Seconds(), "s-burst")
	b.ReportMetric(float64(records), "records")
	b.ReportMetric(float64(n.footprint().rss)/(1<<20), "MiB-RSS")
}

// BenchmarkIdle measures the CPU of an idle agent with many pods, in millicores.
func BenchmarkIdle(b *testing.B) {
	n := newNode(b)
	n.run(*idlePods)
	for range b.N {
		if *profile != "" {
			path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(idleWindow.Seconds()))
			go func() { _ = os.WriteFile(*profile, []byte(n.page(path)), 0o600) }()
		}
		before, woken := n.cpu(), n.switches()
		<-time.After(idleWindow)
		b.ReportMetric(float64((n.cpu()-before).Milliseconds())/idleWindow.Seconds(), "millicores")
		b.ReportMetric(float64(n.switches()-woken)/idleWindow.Seconds(), "wakeups/s")
	}
	b.ReportMetric(0, "ns/op")
}

// cpu returns the time that all threads of the agent ran, by the scheduler's clock.
func (n *node) cpu() time.Duration {
	return time.Duration(n.sum("schedstat", `^(\d+)`))
}

// switches returns how often its threads went to sleep, and so were woken.
func (n *node) switches() int { return n.sum("status", `(?m)^voluntary_ctxt_switches:\s+(\d+)$`) }

// sum adds up a number in a /proc file of each thread.
func (n *node) sum(file, expr string) int {
	n.tb.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/%s", n.cmd.Process.Pid, file))
	if err != nil || len(paths) == 0 {
		n.tb.Fatalf("no threads of the agent: %v", err)
	}
	total := 0
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			continue // the thread has ended
		}
		total += max(0, number(strings.TrimSpace(string(b)), expr))
	}
	return total
}
