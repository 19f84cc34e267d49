package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// kinds maps probes by kind.
type kinds = map[journaletv1.ProbeKind]*corev1.Probe

func delayed(s int32) func(*corev1.Probe) { return func(p *corev1.Probe) { p.InitialDelaySeconds = s } }
func every(s int32) func(*corev1.Probe)   { return func(p *corev1.Probe) { p.PeriodSeconds = s } }

func within(s int32) func(*corev1.Probe) { return func(p *corev1.Probe) { p.TimeoutSeconds = s } }

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestProbeRunsAfterDelayThenByPeriod(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.command = func(context.Context, string, int) (*runtimeapi.ExecSyncResponse, error) {
			pass(300 * time.Millisecond)
			return nil, nil
		}
		w.probe(t, kinds{readiness: exec(delayed(3), every(2))}, readiness)
		pass(10 * time.Second)
		same(t, "ran at", w.ranAt("a-0"), []time.Duration{3 * time.Second, 5 * time.Second, 7 * time.Second, 9 * time.Second})
		same(t, "reported", w.results(), []string{"Readiness of a-0 ok"})
	})
}

func TestSlowRunSkipsPeriods(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.command = func(context.Context, string, int) (*runtimeapi.ExecSyncResponse, error) {
			pass(2500 * time.Millisecond)
			return nil, nil
		}
		w.probe(t, kinds{readiness: exec(within(5))}, readiness)
		pass(7 * time.Second)
		same(t, "ran at", w.ranAt("a-0"), []time.Duration{0, 3 * time.Second, 6 * time.Second})
	})
}

func TestFirstRunIsOnTimeAndLaterRunsShareGrid(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, name := range []string{"a", "b", "c"} {
			w.pod(name, kinds{readiness: exec()})
		}
		d := w.start(t)
		ms := func(at ...time.Duration) (out []time.Duration) {
			for _, m := range at {
				out = append(out, m*time.Millisecond)
			}
			return out
		}
		pass(10 * time.Millisecond)
		d.Stored(stored("a", probesSet("a", readiness)))
		pass(303 * time.Millisecond)
		d.Stored(stored("b", probesSet("b", readiness)))
		pass(1 * time.Millisecond)
		d.Stored(stored("c", probesSet("c", readiness)))
		pass(4 * time.Second)
		same(t, "a ran at", w.ranAt("a-0"), ms(10, 1050, 2050, 3050, 4050))
		same(t, "b ran at", w.ranAt("b-0"), ms(313, 1350, 2350, 3350))
		same(t, "c ran at", w.ranAt("c-0"), ms(314, 1350, 2350, 3350))
	})
}

func TestProbeReportsOnlyChangesInKubeletWords(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.command = func(_ context.Context, _ string, n int) (*runtimeapi.ExecSyncResponse, error) {
			switch {
			case n <= 4: // two runs of two probes
				return exits(1, "no such file")
			case n <= 8:
				return nil, nil
			}
			return nil, context.DeadlineExceeded
		}
		two := func(p *corev1.Probe) { p.FailureThreshold = 3 }
		w.probe(t, kinds{liveness: exec(two), readiness: exec()}, liveness, readiness)
		pass(1500 * time.Millisecond)
		same(t, "reported at first", w.results(), []string{"Readiness probe failed: no such file"})
		pass(2 * time.Second)
		same(t, "reported then", w.results()[1:], []string{"Readiness of a-0 ok"})
		w.set(func() {
			w.command = func(context.Context, string, int) (*runtimeapi.ExecSyncResponse, error) { return exits(2, "gone") }
		})
		pass(10 * time.Second)
		same(t, "reported in the end", w.results()[2:],
			[]string{"Readiness probe failed: gone", "Liveness probe failed: gone"})
	})
}

func TestFailedLivenessAndFinishedStartupProbesStop(t *testing.T) {
	for _, kind := range []journaletv1.ProbeKind{startup, liveness} {
		for code, want := range map[int32]int{0: 1, 1: 1} {
			t.Run(fmt.Sprint(Title(kind), code), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					w.command = func(context.Context, string, int) (*runtimeapi.ExecSyncResponse, error) { return exits(code, "") }
					w.probe(t, kinds{kind: exec()}, kind)
					pass(5500 * time.Millisecond)
					if kind == liveness && code == 0 {
						want = 6 // a healthy one continues
					}
					same(t, "runs", len(w.ranAt("a-0")), want)
				})
			})
		}
	}
}

func TestRestartRepeatsNoReportAndNoDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, name := range []string{"old", "young", "open"} {
			w.pod(name, kinds{readiness: exec(delayed(60), every(10))})
		}
		d := w.driver()
		result := func(pod string, ok bool) *journaletv1.ProbeResult {
			return &journaletv1.ProbeResult{Uid: pod, Container: "main", ContainerId: pod + "-0", Kind: readiness, Success: ok}
		}
		seed := func(pod string, age time.Duration, ok bool) {
			s := probesSet(pod, readiness)
			s.StartedAt = timestamppb.New(time.Now().Add(-age))
			d.Seed(pod, s, []*journaletv1.ProbeResult{result(pod, ok)})
		}
		seed("old", time.Hour, true)
		seed("young", 50*time.Second, true)
		seed("open", time.Hour, false)
		d.SeedPending(result("open", true)) // in the journal, but not in the state
		start(t, d)
		// A decision early in the new run does not undo the seeding.
		again := probesSet("old", readiness)
		again.StartedAt = timestamppb.New(time.Now().Add(-time.Hour))
		d.Stored(stored("old", again))
		pass(12 * time.Second)
		if n := len(w.ranAt("old-0")); n == 0 {
			t.Error("a probe whose delay has passed did not run within its period")
		}
		same(t, "the young one ran at", w.ranAt("young-0"), []time.Duration{10 * time.Second})
		same(t, "reported", w.results(), []string(nil))
	})
}

func TestRestartSpreadsProbesOverPeriod(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d := w.driver()
		const pods = 100
		for i := range pods {
			name := fmt.Sprintf("p%d", i)
			w.pod(name, kinds{readiness: exec(every(10))})
			d.Seed(name, probesSet(name, readiness), nil)
		}
		start(t, d)
		pass(9999 * time.Millisecond)
		tenths := make([]int, 10)
		for i := range pods {
			at := w.ranAt(fmt.Sprintf("p%d-0", i))
			if len(at) != 1 {
				t.Fatalf("p%d ran at %v", i, at)
			}
			tenths[at[0]/time.Second]++
		}
		if slices.Max(tenths) > 3*pods/10 || slices.Min(tenths) == 0 {
			t.Errorf("runs in each tenth of the period: %v", tenths)
		}
	})
}

// hanging returns a world where the commands of instances "hangs..." hang until their timeouts, and others succeed.
func hanging() *world {
	w := newWorld()
	w.command = func(ctx context.Context, id string, _ int) (*runtimeapi.ExecSyncResponse, error) {
		if strings.HasPrefix(id, "hangs") {
			<-ctx.Done()
			return nil, statusOf(ctx.Err())
		}
		return nil, nil
	}
	return w
}

// Three times as many probes as workers begin to hang together, for a minute each.
func TestHangingProbesDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := hanging()
		d := w.start(t)
		w.pod("good", kinds{readiness: exec()})
		d.Stored(stored("good", probesSet("good", readiness)))
		pass(1500 * time.Millisecond)
		const many = 3 * Workers
		for i := range many {
			name := fmt.Sprintf("hangs%d", i)
			w.pod(name, kinds{readiness: exec(within(60))})
			d.Stored(stored(name, probesSet(name, readiness)))
		}
		pass(5 * time.Minute)
		var want []time.Duration
		for s := range 302 {
			want = append(want, time.Duration(s)*time.Second)
		}
		same(t, "the good one ran at", w.ranAt("good-0"), want)
		// Hanging probes still fail, each after its full timeout.
		pass(5 * time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		reported := map[string]bool{}
		for _, r := range w.reported {
			reported[r.GetUid()] = true
		}
		if len(reported) != many+1 {
			t.Errorf("results of %d pods were reported, want %d", len(reported), many+1)
		}
		for _, r := range w.observed {
			if strings.HasPrefix(r.Pod, "hangs") && (r.Success || r.Unknown || r.Took < time.Minute) {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// With one worker in each lane, the first hanging run moves to the slow lane, and the second is canceled and repeated
// after it.
func TestCanceledRunIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := hanging()
		d := New(Options{Conn: w, Manifest: w.manifest, Sink: w.sink, Workers: 1, SlowWorkers: 1})
		start(t, d)
		rarely := func(p *corev1.Probe) { p.PeriodSeconds, p.TimeoutSeconds = 600, 10 }
		for _, name := range []string{"hangs1", "hangs2", "good", "gone"} {
			w.pod(name, kinds{readiness: exec(rarely)})
			d.Stored(stored(name, probesSet(name, readiness)))
			pass(100 * time.Millisecond)
		}
		d.Stored(stored("gone", probesSet("gone")))
		d.mu.Lock()
		same(t, "waiting", len(d.lanes.quick.waiting), 2)
		d.mu.Unlock()
		pass(30 * time.Second)
		same(t, "the first ran at", w.ranAt("hangs1-0"), []time.Duration{0})
		// The runtime has 2 s beyond the timeout to respond.
		same(t, "the second", w.ranAt("hangs2-0"), []time.Duration{time.Second, 12 * time.Second})
		same(t, "the third", w.ranAt("good-0"), []time.Duration{2 * time.Second})
		same(t, "one that was removed while it waited", w.ranAt("gone-0"), []time.Duration{})
		same(t, "reported", w.results(), []string{
			"Readiness of good-0 ok", "Readiness probe failed: command timed out after 10s",
			"Readiness probe failed: command timed out after 10s",
		})
		d.mu.Lock()
		defer d.mu.Unlock()
		same(t, "left over", d.lanes.load(), 0)
	})
}

// A pod whose probes all hang uses at most its share, in both lanes.
func TestPodIsLimitedToItsShareOfWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := hanging()
		d := w.start(t)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "many", Namespace: "default"}}
		for i := range 2 * Workers {
			pod.Spec.Containers = append(pod.Spec.Containers,
				corev1.Container{Name: fmt.Sprintf("c%d", i), ReadinessProbe: exec(within(60))})
		}
		w.set(func() { w.pods["many"] = pod })
		for i := range pod.Spec.Containers {
			s := probesSet("many", readiness)
			s.Container, s.ContainerId = pod.Spec.Containers[i].Name, fmt.Sprintf("hangs-%d", i)
			d.Stored(stored("many", s))
		}
		w.pod("good", kinds{readiness: exec()})
		d.Stored(stored("good", probesSet("good", readiness)))
		pass(10*time.Second + time.Millisecond)
		same(t, "runs of the good one", len(w.ranAt("good-0")), 11)
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, l := range []lane{d.lanes.quick, d.lanes.slow} {
			if l.byPod["many"] > Workers/podShare {
				t.Errorf("it uses %d workers of %d", l.byPod["many"], l.workers)
			}
		}
	})
}

func TestRemovedProbeIsCanceledAndNotReported(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var canceled atomic.Bool
		w.command = func(ctx context.Context, _ string, _ int) (*runtimeapi.ExecSyncResponse, error) {
			<-ctx.Done()
			canceled.Store(true)
			return exits(1, "")
		}
		d := w.probe(t, kinds{readiness: exec(within(60))}, readiness)
		pass(time.Second)
		d.Stored(stored("a", probesSet("a")))
		pass(time.Minute)
		if !canceled.Load() || len(w.results()) > 0 || len(w.ranAt("a-0")) != 1 {
			t.Errorf("canceled %t, reported %v, ran at %v", canceled.Load(), w.results(), w.ranAt("a-0"))
		}
	})
}

// A command that the container cannot run is a failure of the container, not of the runtime.
func TestACommandThatCannotBeRunFails(t *testing.T) {
	const missing = "failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: unable to " +
		"start container process: exec: \"/nope\": stat /nope: no such file or directory"
	const short = "failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: unable to " +
		"start container process: fork/exec /proc/self/exe: resource temporarily unavailable"
	for message, fails := range map[string]bool{
		missing: true, short: false, "the shim is gone": false,
		"OCI runtime exec failed: exec failed: cannot exec in a stopped container": false,
	} {
		want := ""
		if fails {
			want = "Liveness probe failed: the command cannot be run: " + message
		}
		inBubble(t, func(t *testing.T, w *world) {
			w.command = func(context.Context, string, int) (*runtimeapi.ExecSyncResponse, error) {
				return nil, status.Error(codes.Unknown, message)
			}
			w.probe(t, kinds{liveness: exec(func(p *corev1.Probe) { p.FailureThreshold = 2 })}, liveness)
			pass(5500 * time.Millisecond)
			same(t, "reported after "+message, strings.Join(w.results(), "; "), want)
		})
	}
}

func TestUnknownRunDoesNotCount(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.command = func(_ context.Context, _ string, n int) (*runtimeapi.ExecSyncResponse, error) {
			if n == 1 || n == 5 {
				return exits(1, "failed") // one failure, then a run of three attempts, then another failure
			}
			return nil, errors.New("the runtime is unavailable")
		}
		two := func(p *corev1.Probe) { p.FailureThreshold = 2 }
		w.probe(t, kinds{readiness: exec(two)}, readiness)
		pass(1500 * time.Millisecond)
		same(t, "attempts", len(w.ranAt("a-0")), 1+maxAttempts)
		same(t, "reported", w.results(), []string(nil))
		pass(time.Second)
		same(t, "reported after the second failure", w.results(), []string{"Readiness probe failed: failed"})
		unknowns := 0
		for _, r := range w.observed {
			if r.Unknown {
				unknowns++
			}
		}
		same(t, "unknown runs", unknowns, 1)
	})
}

func TestADefectInOneProbeStopsNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.command = func(_ context.Context, id string, n int) (*runtimeapi.ExecSyncResponse, error) {
			if id == "a-0" && n <= 2 {
				panic("a defect")
			}
			return exits(1, "failed")
		}
		w.pod("b", kinds{readiness: exec()})
		d := w.probe(t, kinds{readiness: exec()}, readiness)
		d.Stored(stored("b", probesSet("b", readiness)))
		pass(1500 * time.Millisecond)
		same(t, "reported", w.results(), []string{"Readiness probe failed: failed"})
		pass(time.Second)
		same(t, "reported once it has no defect", len(w.results()), 2)
	})
}

func TestFailedReportIsRepeatedByNextRun(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.refuse = true
		w.probe(t, kinds{readiness: exec()}, readiness)
		pass(1500 * time.Millisecond)
		w.set(func() { w.refuse = false })
		pass(time.Second)
		same(t, "reported", w.results(), []string{"Readiness of a-0 ok"})
	})
}

func TestFirstWarningOfAHealthyProbeIsReported(t *testing.T) {
	good, bad, warns := outcome{success, ""}, outcome{failure, "no"}, outcome{warning, "moved"}
	result := func(kind journaletv1.ProbeKind, ok bool, message string) *journaletv1.ProbeResult {
		return &journaletv1.ProbeResult{Kind: kind, Success: ok, Message: message}
	}
	for name, c := range map[string]struct {
		kind    journaletv1.ProbeKind
		before  []*journaletv1.ProbeResult // of an earlier run of the agent
		refused int                        // reports that fail
		runs    []outcome
		want    []string
	}{
		"from the beginning": {kind: liveness, runs: []outcome{warns, warns, warns},
			want: []string{"Liveness probe warning: moved"}},
		"later": {kind: liveness, runs: []outcome{good, good, warns, good, warns},
			want: []string{"Liveness probe warning: moved"}},
		"with the first result": {kind: readiness, runs: []outcome{warns, warns},
			want: []string{"Readiness probe warning: moved"}},
		"after the first result": {kind: readiness, runs: []outcome{good, warns, warns},
			want: []string{"", "Readiness probe warning: moved"}},
		"not before it is healthy": {kind: readiness, before: []*journaletv1.ProbeResult{result(readiness, false, "no")},
			runs: []outcome{bad, warns, bad, warns, good}, want: []string{""}},
		"after a failed report": {kind: liveness, refused: 1, runs: []outcome{warns, warns, warns},
			want: []string{"Liveness probe warning: moved"}},
		"not again after a restart": {kind: liveness, runs: []outcome{warns, warns},
			before: []*journaletv1.ProbeResult{result(readiness, true, ""), result(liveness, true, "a warning")}},
		"of another probe than before the restart": {kind: liveness, runs: []outcome{warns},
			before: []*journaletv1.ProbeResult{result(readiness, true, "a warning")},
			want:   []string{"Liveness probe warning: moved"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.pod("a", kinds{c.kind: exec(func(p *corev1.Probe) {
				if c.before != nil {
					p.SuccessThreshold = 2
				}
			})})
			d := w.driver()
			d.Seed("a", probesSet("a", c.kind), c.before)
			d.loadPending(t.Context())
			p := d.probes[containerKey{"a", "main"}][c.kind]
			for i, out := range c.runs {
				w.set(func() { w.refuse = i < c.refused })
				d.report(t.Context(), p, out)
			}
			var got []string
			for _, r := range w.reported {
				got = append(got, r.GetMessage())
				if !r.GetSuccess() {
					t.Errorf("a failure was reported: %v", r)
				}
			}
			same(t, "reported", got, c.want)
		})
	}
}

func TestUnreadableManifestIsRetried(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.noManifest = true
		d := w.probe(t, kinds{readiness: exec()}, readiness)
		for range 25 { // other events wake the scheduler
			pass(100 * time.Millisecond)
			d.signal()
		}
		pass(50 * time.Millisecond)
		same(t, "reads of the manifest", w.manifestReads, 3)
		w.set(func() { w.noManifest = false })
		pass(time.Second)
		same(t, "reported", w.results(), []string{"Readiness of a-0 ok"})
	})
}

func TestUnchangedProbeContinues(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d := w.probe(t, kinds{liveness: exec(every(4)), readiness: exec(every(4))}, liveness, readiness)
		pass(time.Second)
		d.Stored(stored("a", probesSet("a", readiness)))
		pass(4 * time.Second)
		same(t, "ran at", w.ranAt("a-0"), []time.Duration{0, 0, 4 * time.Second})
		// A new instance is probed from the beginning.
		next := probesSet("a", readiness)
		next.ContainerId = "a-1"
		d.Stored(stored("a", next))
		pass(time.Second)
		same(t, "the next one ran at", w.ranAt("a-1"), []time.Duration{5 * time.Second})
		same(t, "reported", w.results(), []string{"Readiness of a-0 ok", "Readiness of a-1 ok"})
	})
}

func TestTerminatedPodIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d := w.probe(t, kinds{readiness: exec()}, readiness)
		pass(1500 * time.Millisecond)
		d.Stored(decided("a", messages.NewEvent(&journaletv1.PodTerminated{Uid: "a"})))
		pass(5 * time.Second)
		same(t, "observed", len(w.observed), 2)
		same(t, "forgot", w.forgot, []string{"a"})
		if len(d.probes)+len(d.due)+len(d.names)+len(d.pending)+len(d.containers)+d.lanes.load() > 0 {
			t.Errorf("left over: %+v", d)
		}
	})
}

// A probe of a pod on the node's network follows the node's address, without another setting of the probe.
func TestProbeOnTheNodesNetworkDialsTheAddressThatTheNodeHasNow(t *testing.T) {
	now := []string{"192.0.2.1", "2001:db8::1"}
	d := New(Options{
		Conn: newWorld(), Manifest: newWorld().manifest, Sink: newWorld().sink, HostIPs: func() []string { return now },
	})
	on, off := target{node: true}, target{host: "10.0.0.1"}
	same(t, "on the node", d.resolve(on).host, "192.0.2.1")
	now = []string{"198.51.100.7"}
	same(t, "after a change", d.resolve(on).host, "198.51.100.7")
	same(t, "in a network of its own", d.resolve(off).host, "10.0.0.1")
	now = nil
	same(t, "without an address", d.resolve(on).host, "")
}
