package monitoring

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/test/must"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func serve(t *testing.T, o Options) string {
	t.Helper()
	o.Address, o.Log = "127.0.0.1:0", quiet
	s, err := Listen(o)
	must.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Addr()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	must.OK(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	return resp.StatusCode, string(b)
}

func healthy() error { return nil }

func unhealthy() error { return errors.New("stalled since 12:00\nno space") }

func TestHealthIsOkOrNamesTheFailedChecks(t *testing.T) {
	url := serve(t, Options{
		Health: NewChecks(quiet, Check{"journal", healthy}, Check{"pleg", healthy}),
		Ready:  NewChecks(quiet, Check{"runtime", unhealthy}),
	})
	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"/healthz", 200, "ok"},
		{"/livez", 200, "ok"},
		{"/healthz?verbose", 200, "[+]ping ok\n[+]journal ok\n[+]pleg ok\nhealthz check passed\n"},
		{"/readyz", 500, "[+]ping ok\n[+]journal ok\n[+]pleg ok\n[-]runtime failed: stalled since 12:00 no space\n" +
			"readyz check failed: runtime\n"},
		{"/metrics", 404, "404 page not found\n"},
		{"/debug/pprof/", 404, "404 page not found\n"},
	} {
		if code, body := get(t, url+c.path); code != c.code || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.body)
		}
	}
}

func TestHangingCheckIsNamedAndRunsOnlyOnce(t *testing.T) {
	release := make(chan struct{})
	var runs atomic.Int32
	checks := NewChecks(quiet,
		Check{"hangs", func() error { runs.Add(1); <-release; return nil }},
		Check{"panics", func() error { panic("boom") }},
		Check{"fine", healthy},
	)
	for range 2 {
		r := checks.Run()
		if r[0].Err == nil || r[1].Err == nil || r[2].Err != nil {
			t.Fatalf("results are %v", r)
		}
	}
	if err := checks.Err(); err == nil || !strings.Contains(err.Error(), "hangs: no response") ||
		!strings.Contains(err.Error(), "panics: "+defect.Message) || strings.Contains(err.Error(), "boom") {
		t.Errorf("the error is %v", err)
	}
	if runs.Load() != 1 {
		t.Errorf("the hanging check runs %d times at once", runs.Load())
	}
	close(release)
}

func TestSlowCheckFailsOnlyBeyondTheToleratedTime(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	checks := NewChecks(quiet, Check{"slow", func() error { <-release; return nil }}, Check{"fine", healthy})
	must.OK(t, checks.Within(time.Hour))
	if err := checks.Within(time.Millisecond); err == nil || !strings.HasPrefix(err.Error(), "slow: no response for") {
		t.Errorf("the error is %v", err)
	}
	if err := NewChecks(quiet, Check{"broken", unhealthy}).Within(time.Hour); err == nil {
		t.Error("a check that fails is tolerated")
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s, err := Listen(Options{Address: "127.0.0.1:0", Log: quiet})
	must.OK(t, err)
	counted := &countedListener{Listener: s.l}
	s.l = counted
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	for range maxConnections + 16 { // they send nothing
		c, err := net.Dial("tcp", s.Addr())
		must.OK(t, err)
		defer c.Close()
	}
	resp, err := http.Get("http://" + s.Addr() + "/livez") // once the first of them are closed
	must.OK(t, err)
	must.OK(t, resp.Body.Close())
	if n := counted.most.Load(); n != maxConnections {
		t.Errorf("%d connections were open at once, the limit is %d", n, maxConnections)
	}
	stop()
	must.OK(t, <-served)
}

// countedListener counts its open connections. One that closes counts no more before the next can be accepted:
// http.Server reports it as closed only afterwards.
type countedListener struct {
	net.Listener
	open, most atomic.Int64
}

func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.most.Store(max(l.most.Load(), l.open.Add(1)))
	return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

func TestErrorOfAPortInUseNamesTheFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	_, err = Listen(Options{Address: l.Addr().String(), Flag: "--healthz-port", Log: quiet})
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) ||
		!strings.Contains(err.Error(), "--healthz-port") {
		t.Errorf("the error is %v", err)
	}
}

func TestMetricsAreServedUnderTheKubeletsNames(t *testing.T) {
	m := NewMetrics(nil)
	m.Appended(3*time.Millisecond, 300)
	m.Appended(3*time.Millisecond, 200)
	m.Synced(2 * time.Millisecond)
	m.Folded(time.Second, 8)
	m.Relisted(20 * time.Millisecond)
	m.Relisted(20 * time.Millisecond)
	m.Operation("start_container", time.Second, nil)
	m.Operation("start_container", time.Second, errors.New("no"))
	m.Build("1.0.0", "node-1")
	m.Kubernetes("v1.37.1+journalet.1.0.0")
	m.PodStarted(true, true)
	m.PodStarted(false, false)
	m.ContainerStarted("container", "")
	m.ContainerStarted("container", "RunContainerError")
	m.ImagePulled(100<<20, 2*time.Second)
	m.ImagePulled(1<<40, 2*time.Second)
	m.PodRan(1500 * time.Millisecond)
	for _, reason := range []string{"OutOfcpu", "OutOfhugepages-3Mi", "canary", "Evicted", "TopologyAffinityError",
		"UnexpectedAdmissionError"} {
		m.Rejected(reason)
	}
	m.OrphanFound()
	m.PodResources("v1", "GetAllocatableResources", errors.New("no"))
	m.PodResources("v1alpha1", "List", nil)
	m.CgroupVersion(2)
	m.Count(func() Counts {
		return Counts{
			Actors: map[string]int{"pod": 3}, Lagging: 1, Quarantined: 5, Unanswered: 6, Queued: 7,
			RunningPods: 2, Containers: map[string]int{"running": 4},
			Backlog: 8, FirstRecord: 9, LastRecord: 10, Bytes: map[string]uint64{"journal": 11},
			Volumes:      map[VolumeCount]int{{"kubernetes.io/nfs", ActualVolumes}: 16},
			Certificates: map[CertificateCount]int{{"example.com/ca", "fresh"}: 17},
			SnapshotsAt:  time.UnixMilli(1500), Observers: 12, Waiting: 13, Lag: 1500 * time.Millisecond, Missed: 14, Sent: 15,
		}
	})
	code, body := get(t, serve(t, Options{Metrics: m})+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	for _, line := range []string{
		"journalet_journal_records_total 2",
		"journalet_journal_append_seconds_count 2",
		"journalet_journal_record_bytes_total 500",
		"journalet_journal_sync_seconds_count 1",
		"journalet_start_fold_seconds 1",
		`kubelet_admission_rejections_total{reason="Evicted"} 1`,
		`kubelet_admission_rejections_total{reason="TopologyAffinityError"} 1`,
		`kubelet_admission_rejections_total{reason="UnexpectedAdmissionError"} 1`,
		`kubelet_admission_rejections_total{reason="Other"} 1`,
		`volume_manager_total_volumes{plugin_name="kubernetes.io/nfs",state="actual_state_of_world"} 16`,
		`kubelet_podcertificate_states{signer_name="example.com/ca",state="fresh"} 17`,
		`kubernetes_build_info{build_date="",compiler="` + runtime.Compiler +
			`",git_commit="",git_tree_state="",git_version="v1.37.1+journalet.1.0.0",go_version="` + runtime.Version() +
			`",major="1",minor="37",platform="` + runtime.GOOS + "/" + runtime.GOARCH + `"} 1`,
		`kubelet_pod_resources_endpoint_requests_total{server_api_version="v1alpha1"} 1`,
		`kubelet_pod_resources_endpoint_requests_list{server_api_version="v1alpha1"} 1`,
		`kubelet_pod_resources_endpoint_requests_get_allocatable{server_api_version="v1"} 1`,
		`kubelet_pod_resources_endpoint_errors_get_allocatable{server_api_version="v1"} 1`,
		"journalet_start_last_record 8",
		"journalet_mailbox_backlog 8",
		"journalet_journal_first_record 9",
		"journalet_journal_last_record 10",
		`journalet_store_bytes{store="journal"} 11`,
		"journalet_snapshots_timestamp_seconds 1.5",
		"journalet_observers_connections 12",
		"journalet_observers_waiting_records 13",
		"journalet_observers_lag_seconds 1.5",
		"journalet_observers_missed_records_total 14",
		"journalet_observers_events_total 15",
		`journalet_actors{kind="pod"} 3`,
		"journalet_mailbox_lagging 1",
		"journalet_actors_quarantined 5",
		"journalet_pods_unanswered 6",
		"journalet_journal_queued 7",
		`journalet_build_info{node="node-1",version="1.0.0"} 1`,
		"kubelet_running_pods 2",
		`kubelet_running_containers{container_state="running"} 4`,
		"kubelet_pleg_relist_duration_seconds_count 2",
		"kubelet_pleg_relist_interval_seconds_count 1",
		"kubelet_pleg_last_seen_seconds 1.",
		"kubelet_started_pods_total 2",
		"kubelet_started_pods_errors_total 1",
		"kubelet_started_user_namespaced_pods_total 1",
		"kubelet_started_user_namespaced_pods_errors_total 1",
		`kubelet_started_containers_total{container_type="container"} 2`,
		`kubelet_started_containers_errors_total{code="RunContainerError",container_type="container"} 1`,
		`kubelet_image_pull_duration_seconds_sum{image_size_in_bytes="100MB-500MB"} 2`,
		`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="GT100GB"} 1`,
		"kubelet_pod_start_duration_seconds_sum 1.5",
		`kubelet_admission_rejections_total{reason="OutOfcpu"} 1`,
		`kubelet_admission_rejections_total{reason="OutOfExtendedResources"} 1`,
		`kubelet_admission_rejections_total{reason="Other"} 1`,
		"kubelet_orphaned_runtime_pods_total 1",
		"kubelet_cgroup_version 2",
		`kubelet_runtime_operations_total{operation_type="start_container"} 2`,
		`kubelet_runtime_operations_errors_total{operation_type="start_container"} 1`,
		`kubelet_runtime_operations_duration_seconds_count{operation_type="start_container"} 2`,
		"go_goroutines",
	} {
		if !strings.Contains(body, "\n"+line) {
			t.Errorf("no %q", line)
		}
	}
}

func TestProfilingIsServedOnlyIfEnabled(t *testing.T) {
	if code, _ := get(t, serve(t, Options{Profiling: true})+"/debug/pprof/cmdline"); code != http.StatusOK {
		t.Errorf("code %d", code)
	}
}

// systemd returns what the service manager receives on the notification socket.
func systemd(t *testing.T, watchdog time.Duration) <-chan string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must.OK(t, err)
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	t.Setenv("WATCHDOG_PID", "")
	states := make(chan string, 1000)
	go func() {
		defer close(states)
		b := make([]byte, 4096)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			states <- string(b[:n])
		}
	}()
	t.Cleanup(func() { c.Close() })
	return states
}

func TestSystemdIsNotifiedOfStartAndStop(t *testing.T) {
	states := systemd(t, 0)
	s := NewSystemd(healthy, quiet)
	s.Ready("3 pods")
	if got := <-states; got != "READY=1\nSTATUS=3 pods" {
		t.Errorf("notified %q", got)
	}
	s.Stopping()
	if got := <-states; got != "STOPPING=1" {
		t.Errorf("notified %q", got)
	}
}

func TestWatchdogIsPingedOnlyWhileAlive(t *testing.T) {
	states := systemd(t, 10*time.Millisecond)
	var failing atomic.Bool
	checked := make(chan struct{}, 1000)
	s := NewSystemd(func() error {
		checked <- struct{}{}
		if failing.Load() {
			return errors.New("stalled")
		}
		return nil
	}, quiet)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Watch(ctx); close(done) }()
	for range 3 {
		if got := <-states; got != "WATCHDOG=1" {
			t.Fatalf("notified %q", got)
		}
	}
	failing.Store(true)
	for len(checked) > 0 {
		<-checked
	}
	<-checked // may have begun before
	<-checked
	for len(states) > 0 {
		<-states
	}
	<-checked
	<-checked
	<-checked
	if len(states) > 0 {
		t.Errorf("notified %q while it hangs", <-states)
	}
	failing.Store(false)
	if got := <-states; got != "WATCHDOG=1" {
		t.Errorf("notified %q after it recovered", got)
	}
	cancel()
	<-done
}

func TestWithoutSystemdNothingHappens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "")
	s := NewSystemd(healthy, quiet)
	s.Ready("x")
	s.Watch(t.Context())
	s.Stopping()
}
