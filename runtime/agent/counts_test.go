package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/monitoring"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/manifests"
	"github.com/journalet/journalet/test/must"
)

// blockFirst blocks the appender at the first record.
type blockFirst struct{ blocked, release chan struct{} }

func (g blockFirst) Stored(rec *journaletv1.Record) {
	if rec.GetSeq() == 1 {
		close(g.blocked)
		<-g.release
	}
}

func TestQueuedRecordsAreCounted(t *testing.T) {
	a := &agent{cfg: config.Defaults(), facts: &config.NodeFacts{NodeName: "n"}, log: slog.New(slog.DiscardHandler)}
	var err error
	if a.bus, err = bus.Open(t.Context(), bus.Options{Dir: filepath.Join(t.TempDir(), "bus"), Node: "n",
		Log: a.log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.bus.Close(context.Background()) })
	g := blockFirst{make(chan struct{}), make(chan struct{})}
	a.host = host.New(host.Options{
		Node: "n", Epoch: 1, Journal: a.bus.Journal(), Snapshots: a.bus.Snapshots(), Deciders: fold.AllDeciders,
		Effects: g, Now: time.Now, Log: a.log,
	})
	a.bus.Journal().OnStored(a.host.Stored)
	if n := a.counts().Queued; n != 0 {
		t.Fatalf("%d queued, but nothing was appended", n)
	}
	health := messages.NewEvent(&journaletv1.RuntimeHealthChanged{})
	a.host.Outcome(messages.Runtime, health)
	<-g.blocked
	for range 20 {
		a.host.Outcome(messages.Runtime, health)
	}
	if n := a.counts().Queued; n < 20 {
		t.Errorf("%d queued, want 20 behind the blocked one", n)
	}
	close(g.release)
	must.OK(t, a.bus.Journal().Flush(t.Context()))
	if n := a.counts().Queued; n != 0 {
		t.Fatalf("%d queued, but all are stored", n)
	}
}

// slowPod is a pod that hangs at its first observation until release is closed.
type slowPod struct {
	*pod.Actor
	hangs, release chan struct{}
}

func (p slowPod) Decide(in actors.Input, emit actors.Emit) {
	close(p.hangs)
	<-p.release
}

func TestHangingPodIsCountedAndHidesNoOther(t *testing.T) {
	a := &agent{cfg: config.Defaults(), facts: &config.NodeFacts{NodeName: "n"}, log: slog.New(slog.DiscardHandler)}
	a.manifests = manifests.New(func(context.Context, string) ([]byte, error) { return nil, errors.New("there is none") })
	var err error
	a.bus, err = bus.Open(t.Context(), bus.Options{Dir: filepath.Join(t.TempDir(), "bus"), Node: "n", Log: a.log})
	must.OK(t, err)
	t.Cleanup(func() { _ = a.bus.Close(context.Background()) })
	slow := slowPod{pod.New("a"), make(chan struct{}), make(chan struct{})}
	a.host = host.New(host.Options{
		Node: "n", Epoch: 1, Journal: a.bus.Journal(), Snapshots: a.bus.Snapshots(), Effects: noEffects{}, Now: time.Now,
		Log: a.log,
		Deciders: func(ref messages.Ref) actors.Decider {
			if ref == messages.Pod("a") {
				return slow
			}
			return fold.AllDeciders(ref)
		},
	})
	a.bus.Journal().OnStored(a.host.Stored)
	recovered, err := a.host.Recover()
	must.OK(t, err)
	a.host.Start(recovered, &journaletv1.AgentStarted{Epoch: 1, Config: &journaletv1.AgentConfig{NodeName: "n"}})
	defer func() {
		close(slow.release)
		_ = a.host.Stop(context.Background())
	}()
	const n = 30
	for i := range n {
		uid := fmt.Sprintf("b%d", i)
		a.host.Outcome(messages.Pod(uid), running(uid))
	}
	a.host.Outcome(messages.Pod("a"), running("a"))
	<-slow.hangs
	must.OK(t, a.bus.Journal().Flush(t.Context()))
	if c := a.counts(); c.RunningPods != n || c.Unanswered != 1 {
		t.Errorf("%d pods run and %d do not answer, want %d and 1", c.RunningPods, c.Unanswered, n)
	}
}

// running is an observation of a pod with a ready sandbox.
func running(uid string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodObserved{Uid: uid, Sandboxes: []*journaletv1.SandboxObservation{{
		Id: "s", State: journaletv1.SandboxState_SANDBOX_STATE_READY,
	}}})
}

const simulatedPod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: a, image: "docker.io/library/busybox:1.36", imagePullPolicy: IfNotPresent}
  volumes:
  - {name: data, emptyDir: {}}
`

func TestVolumesAreCountedByPluginAndState(t *testing.T) {
	volume := func(name string, s corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: s}
	}
	m := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		volume("up", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		volume("failed", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		volume("inline", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d.example.com"}}),
		volume("claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}),
	}}}
	state := func(stage journaletv1.PodStage) *journaletv1.PodState {
		s := &journaletv1.PodState{Stage: stage, Volumes: map[string]*journaletv1.VolumeRecord{}}
		for name, v := range map[string]journaletv1.VolumeStage{
			"up": journaletv1.VolumeStage_VOLUME_STAGE_SET_UP, "failed": journaletv1.VolumeStage_VOLUME_STAGE_ABSENT,
			"claim": journaletv1.VolumeStage_VOLUME_STAGE_SET_UP,
		} {
			s.Volumes[name] = &journaletv1.VolumeRecord{Name: name, Stage: v}
		}
		return s
	}
	c := monitoring.Counts{Volumes: map[monitoring.VolumeCount]int{}}
	countVolumes(&c, state(journaletv1.PodStage_POD_STAGE_RUNNING), m)
	countVolumes(&c, state(journaletv1.PodStage_POD_STAGE_TERMINATED), m) // not torn down yet
	rejected := state(journaletv1.PodStage_POD_STAGE_RUNNING)
	rejected.Rejected = true
	countVolumes(&c, rejected, m)
	countVolumes(&c, state(journaletv1.PodStage_POD_STAGE_RUNNING), nil)
	want := map[monitoring.VolumeCount]int{
		{Plugin: "kubernetes.io/empty-dir", State: monitoring.DesiredVolumes}:         2,
		{Plugin: "kubernetes.io/csi:d.example.com", State: monitoring.DesiredVolumes}: 1,
		{Plugin: "N/A", State: monitoring.DesiredVolumes}:                             1,
		{Plugin: "kubernetes.io/empty-dir", State: monitoring.ActualVolumes}:          2,
		{Plugin: "N/A", State: monitoring.ActualVolumes}:                              2,
	}
	if !maps.Equal(c.Volumes, want) {
		t.Errorf("counted %v, want %v", c.Volumes, want)
	}
}

// The running agent fills every metric. Failed calls, lagging and quarantined actors and queued records are 0 on a
// healthy node: they have tests of their own.
func TestEveryMetricIsFilled(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	cfg := config.Defaults()
	cfg.ContainerRuntimeEndpoint, cfg.RootDir, cfg.HostnameOverride = simScheme,
		filepath.Join(t.TempDir(), "root"), "node-1"
	cfg.StaticPodPath, cfg.HealthzPort, cfg.PodCIDR = t.TempDir(), int32(port), "10.1.0.0/24"
	must.OK(t, os.WriteFile(filepath.Join(cfg.StaticPodPath, "web.yaml"), []byte(simulatedPod), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	want := map[string]string{}
	for _, line := range []string{
		"journalet_journal_records_total", "journalet_journal_append_seconds_count", `journalet_actors{kind="pod"}`,
		"journalet_journal_record_bytes_total", "journalet_journal_sync_seconds_count", "journalet_journal_last_record",
		"journalet_journal_first_record", `journalet_store_bytes{store="journal"}`,
		`journalet_store_bytes{store="manifests"}`,
		`journalet_actors{kind="node"}`, `journalet_build_info{node="node-1",version="dev"}`,
		"kubelet_running_pods", `kubelet_running_containers{container_state="running"}`,
		"kubelet_pleg_relist_duration_seconds_count", "kubelet_pleg_relist_interval_seconds_count",
		"kubelet_pleg_last_seen_seconds", "kubelet_cgroup_version", "kubelet_started_pods_total",
		`kubelet_started_containers_total{container_type="container"}`, "kubelet_pod_start_duration_seconds_count",
		`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="0-10MB"}`,
		`kubelet_runtime_operations_total{operation_type="start_container"}`,
		`volume_manager_total_volumes{plugin_name="kubernetes.io/empty-dir",state="actual_state_of_world"}`,
		`kubelet_pod_worker_duration_seconds_count{operation_type="create"}`,
		`storage_operation_duration_seconds_count{migrated="false",operation_name="volume_mount",status="success",` +
			`volume_plugin="kubernetes.io/empty-dir"}`,
		`kubelet_runtime_operations_total{operation_type="update_runtime_config"}`,
		`kubelet_runtime_operations_duration_seconds_count{operation_type="start_container"}`,
	} {
		want[line] = "[1-9]"
	}
	for _, line := range []string{"journalet_mailbox_lagging", "journalet_actors_quarantined", "journalet_pods_unanswered",
		"journalet_journal_queued", "journalet_mailbox_backlog", "journalet_start_fold_seconds",
		"journalet_start_last_record",
		"journalet_observers_connections", "journalet_observers_waiting_records", "journalet_observers_lag_seconds",
		"journalet_observers_missed_records_total", "journalet_observers_events_total", "journalet_traces_exported_total",
		"journalet_traces_dropped_total", "journalet_traces_export_errors_total",
		`journalet_store_bytes{store="snapshots"}`} {
		want[line] = "[0-9]"
	}
	deadline := time.After(time.Minute)
	for {
		body := scrape(port)
		missing := ""
		for name, value := range want {
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + " " + value).MatchString(body) {
				missing += "\n" + name
			}
		}
		if missing == "" {
			isCatalog(t, body)
			return
		}
		select {
		case err := <-done:
			done <- err
			t.Fatalf("the agent ended: %v", err)
		case <-deadline:
			t.Fatalf("not filled: %s\nin\n%s", missing, ours(body))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// notYet are metrics that a young and healthy node without probes and credential provider plugins does not have.
var notYet = []string{"kubelet_runtime_operations_errors_total", "prober_probe_total", "prober_probe_duration_seconds",
	"journalet_snapshots_timestamp_seconds", "kubelet_credential_provider_plugin_errors_total",
	"kubelet_credential_provider_plugin_duration", "kubelet_started_containers_errors_total",
	"kubelet_admission_rejections_total", "kubelet_evictions", "kubelet_pod_requests_total",
	"kubelet_pod_requests_list_total", "kubelet_pod_requests_get_total", "kubelet_pod_requests_watch_total",
	"kubelet_pod_resources_endpoint_requests_total", "kubelet_pod_resources_endpoint_requests_list",
	"kubelet_pod_resources_endpoint_requests_get", "kubelet_pod_resources_endpoint_requests_get_allocatable",
	"kubelet_pod_resources_endpoint_errors_list", "kubelet_pod_resources_endpoint_errors_get",
	"kubelet_pod_resources_endpoint_errors_get_allocatable", "kubelet_podcertificate_states"}

// isCatalog compares a scrape with the catalog of metrics. It ignores metrics of the Go runtime and the process.
func isCatalog(t *testing.T, body string) {
	t.Helper()
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(body, -1) {
		if !regexp.MustCompile(`^(go|process|promhttp)_`).MatchString(m[1]) {
			got[m[1]] = m[2]
		}
	}
	for _, m := range monitoring.NewMetrics(nil).Catalog() {
		if got[m.Name] != m.Type && !slices.Contains(notYet, m.Name) {
			t.Errorf("%s of the catalog is a %q in the scrape, want a %s", m.Name, got[m.Name], m.Type)
		}
		delete(got, m.Name)
	}
	if len(got) > 0 {
		t.Errorf("metrics that are not in the catalog: %v", got)
	}
}

func scrape(port int) string {
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// ours leaves out Go's metrics and the help.
func ours(body string) string {
	var out []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "journalet_") || strings.HasPrefix(line, "kubelet_") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
