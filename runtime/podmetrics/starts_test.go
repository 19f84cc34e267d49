package podmetrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/monitoring"
)

// measured is a driver that measures the records of a test.
type measured struct {
	*Driver
	seq  uint64
	pods map[string]*corev1.Pod
}

func newMeasured() *measured {
	m := &measured{pods: map[string]*corev1.Pod{}}
	m.Driver = New(monitoring.NewMetrics(nil), func(uid string) *corev1.Pod { return m.pods[uid] })
	return m
}

// step stores a step at a second; cause is the record that it follows from. It returns its own number.
func (m *measured) step(second int64, actor messages.Ref, cause uint64, decisions ...proto.Message) uint64 {
	step := &journaletv1.Step{Cause: cause}
	for _, d := range decisions {
		step.Decisions = append(step.Decisions, messages.NewEvent(d))
	}
	return m.store(second, actor, &journaletv1.Record{Body: &journaletv1.Record_Step{Step: step}})
}

// fact stores a fact about an actor at a second.
func (m *measured) fact(second int64, actor messages.Ref, fact proto.Message) uint64 {
	return m.store(second, actor, &journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(fact)}})
}

func (m *measured) store(second int64, actor messages.Ref, rec *journaletv1.Record) uint64 {
	m.seq++
	rec.Seq, rec.Epoch, rec.Actor, rec.Time = m.seq, 1, actor.Proto(), &timestamppb.Timestamp{Seconds: second}
	m.Stored(rec)
	return m.seq
}

// page returns the metrics as text.
func (m *measured) page(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// has requires lines of the metrics.
func (m *measured) has(t *testing.T, lines ...string) {
	t.Helper()
	page := m.page(t)
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("no %q", line)
		}
	}
}

// hasNot requires that no line of the metrics begins with a text.
func (m *measured) hasNot(t *testing.T, begin string) {
	t.Helper()
	if strings.Contains(m.page(t), "\n"+begin) {
		t.Errorf("a line begins with %q", begin)
	}
}

// addPod adds a pod of the API server that was created at second 100, at second 110.
func (m *measured) addPod(uid string, spec corev1.PodSpec) uint64 {
	m.pods[uid] = &corev1.Pod{Spec: spec}
	return m.step(110, messages.Source("api"), 0, &journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_ADD, Pod: &journaletv1.PodRef{
			Uid: uid, CreatedAt: &timestamppb.Timestamp{Seconds: 100}, Api: &journaletv1.ApiPod{},
		}})
}

// ranContainer is a container as the runtime shows it; to is when it has ended, 0: it runs.
func ranContainer(name string, attempt uint32, from, to int64) *journaletv1.ContainerObservation {
	o := &journaletv1.ContainerObservation{
		Name: name, Attempt: attempt, State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING,
		StartedAt: &timestamppb.Timestamp{Seconds: from},
	}
	if to > 0 {
		o.State, o.FinishedAt = journaletv1.ContainerState_CONTAINER_STATE_EXITED, &timestamppb.Timestamp{Seconds: to}
	}
	return o
}

func TestTheLatencyOfAStartHasNoPullsAndNoInitContainers(t *testing.T) {
	m := newMeasured()
	m.addPod("a", corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Name: "init"}, {Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
		},
		Containers: []corev1.Container{{Name: "one"}, {Name: "two"}},
	})
	pod := messages.Pod("a")
	see := func(second int64, all ...*journaletv1.ContainerObservation) {
		m.fact(second, pod, &journaletv1.PodObserved{Uid: "a", Containers: all})
	}
	pull := func(second int64, image string) {
		m.step(second, pod, 0, &journaletv1.ImagePullRequested{Uid: "a", Image: image})
	}
	pulled := func(second int64, image string, took time.Duration) {
		m.step(second, messages.Image, 0, &journaletv1.ImagePullDecided{
			Uid: "a", Image: image, Duration: durationpb.New(took)})
	}
	// 5 s of pulls: two at once from 111 to 115, and one of 1 s that the image actor has repeated by itself.
	pull(111, "x")
	pull(112, "y")
	pulled(114, "x", 3*time.Second)
	pulled(115, "y", 3*time.Second)
	pulled(117, "y", time.Second)
	// 7 s of an init container in two attempts; the first one is seen twice.
	see(125, ranContainer("init", 0, 120, 122), ranContainer("sidecar", 0, 119, 120))
	see(126, ranContainer("init", 0, 120, 122), ranContainer("sidecar", 1, 121, 0))
	ended := ranContainer("init", 1, 125, 130)
	see(130, ended, ranContainer("one", 0, 130, 0))
	m.step(130, pod, 0, &journaletv1.PodStatusChanged{Phase: journaletv1.PodPhase_POD_PHASE_RUNNING})
	see(131, ended, ranContainer("one", 0, 130, 0), ranContainer("two", 0, 131, 0))
	see(132, ended, ranContainer("one", 0, 130, 0), ranContainer("two", 0, 131, 0))
	m.has(t, "kubelet_pod_start_sli_duration_seconds_sum 19", "kubelet_pod_start_sli_duration_seconds_count 1",
		`kubelet_pod_start_sli_duration_seconds_bucket{le="20"} 1`, "kubelet_pod_start_duration_seconds_sum 20")
	if len(m.starting) > 0 {
		t.Errorf("a start that has ended is waited for: %v", m.starting)
	}
}

func TestStartsOfNoLatencyAreNotMeasured(t *testing.T) {
	one := []corev1.Container{{Name: "one"}}
	for name, start := range map[string]func(m *measured){
		"of a pod with a claim": func(m *measured) {
			claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}
			m.addPod("a", corev1.PodSpec{Containers: one, Volumes: []corev1.Volume{{Name: "v", VolumeSource: claim}}})
			m.fact(120, messages.Pod("a"), &journaletv1.PodObserved{Uid: "a",
				Containers: []*journaletv1.ContainerObservation{ranContainer("one", 0, 119, 0)}})
		},
		"of a pod that ran before": func(m *measured) {
			m.addPod("a", corev1.PodSpec{Containers: one})
			m.fact(120, messages.Pod("a"), &journaletv1.PodObserved{Uid: "a",
				Containers: []*journaletv1.ContainerObservation{ranContainer("one", 0, 109, 0)}})
		},
		"of a static pod": func(m *measured) {
			m.step(110, messages.Source("file"), 0, &journaletv1.PodUpdated{
				Operation: journaletv1.PodOperation_POD_OPERATION_ADD,
				Pod:       &journaletv1.PodRef{Uid: "a", CreatedAt: &timestamppb.Timestamp{Seconds: 100}}})
			m.fact(120, messages.Pod("a"), &journaletv1.PodObserved{Uid: "a",
				Containers: []*journaletv1.ContainerObservation{ranContainer("one", 0, 119, 0)}})
		},
		"of a pod that has failed": func(m *measured) {
			m.addPod("a", corev1.PodSpec{Containers: one})
			m.step(112, messages.Pod("a"), 0, &journaletv1.PodStatusChanged{Phase: journaletv1.PodPhase_POD_PHASE_FAILED})
			m.fact(120, messages.Pod("a"), &journaletv1.PodObserved{Uid: "a",
				Containers: []*journaletv1.ContainerObservation{ranContainer("one", 0, 119, 0)}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeasured()
			start(m)
			m.has(t, "kubelet_pod_start_sli_duration_seconds_count 0")
			m.step(121, messages.Pod("a"), 0, &journaletv1.PodStatusChanged{Phase: journaletv1.PodPhase_POD_PHASE_RUNNING})
			if len(m.starting) > 0 {
				t.Error("it is still waited for")
			}
		})
	}
}

func TestWhatAPodHasUnderWayIsMeasuredByWhatLedToIt(t *testing.T) {
	m := newMeasured()
	pod := messages.Pod("a")
	finish := func(second int64, cause uint64, index int) uint64 {
		return m.fact(second, pod, &journaletv1.CallFinished{IntentId: messages.DecisionID(1, cause, pod, index)})
	}
	sandbox := func() proto.Message { return messages.NewCall(&journaletv1.RunSandbox{}) }
	start := func() proto.Message { return messages.NewCall(&journaletv1.StartContainer{}) }

	// create: its admission, two calls at once, a pull, and a start, from 110 to 120.
	added := m.addPod("a", corev1.PodSpec{})
	m.step(110, pod, added, &journaletv1.AdmissionRequested{Uid: "a"})
	admitted := m.step(111, messages.Node, added, &journaletv1.AdmissionDecided{Uid: "a", Admitted: true})
	m.step(111, pod, admitted, sandbox(), sandbox())
	finish(112, admitted, 1)
	ran := finish(113, admitted, 0)
	m.step(113, pod, ran, &journaletv1.ImagePullRequested{Uid: "a", Image: "x"})
	pulled := m.step(118, messages.Image, 0, &journaletv1.ImagePullDecided{Uid: "a", Image: "x"})
	m.step(118, pod, pulled, start())
	seen := m.fact(119, pod, &journaletv1.PodObserved{Uid: "a"})
	finish(120, pulled, 0)
	m.step(120, pod, seen, &journaletv1.PodStatusChanged{}) // it has not handled the outcome yet
	m.hasNot(t, `kubelet_pod_worker_duration_seconds_count{operation_type="create"}`)
	fired := m.fact(130, pod, &journaletv1.TimerFired{})
	m.step(130, pod, fired, start()) // sync: from 130 to 133
	m.has(t, `kubelet_pod_worker_duration_seconds_sum{operation_type="create"} 10`)
	started := finish(133, fired, 0)
	m.step(133, pod, started, &journaletv1.BackOffStarted{})
	m.has(t, `kubelet_pod_worker_duration_seconds_sum{operation_type="sync"} 3`)

	// update: stopped from 200 to 205; terminated: cleaned from 205 to 206.
	removed := m.step(200, messages.Source("api"), 0, &journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_REMOVE, Pod: &journaletv1.PodRef{Uid: "a"}})
	m.step(200, pod, removed, messages.NewCall(&journaletv1.StopContainer{}))
	stopped := finish(205, removed, 0)
	m.step(205, pod, stopped, &journaletv1.PodTerminated{}, messages.NewCall(&journaletv1.CleanPod{}))
	finish(206, stopped, 1)
	m.step(207, messages.Source("api"), 0, &journaletv1.PodForgotten{Uid: "a"})
	m.has(t, `kubelet_pod_worker_duration_seconds_sum{operation_type="update"} 5`,
		`kubelet_pod_worker_duration_seconds_sum{operation_type="terminated"} 1`,
		`kubelet_pod_worker_duration_seconds_count{operation_type="create"} 1`,
		`kubelet_pod_worker_duration_seconds_count{operation_type="sync"} 1`)
	if len(m.working.pods) > 0 || len(m.working.calls) > 0 {
		t.Errorf("kept: pods %v, calls %v", m.working.pods, m.working.calls)
	}
}

func TestWorkThatLedToNothingEnds(t *testing.T) {
	m := newMeasured()
	pod := messages.Pod("a")
	call := func(second int64, cause uint64) {
		m.step(second, pod, cause, messages.NewCall(&journaletv1.SetUpVolumes{}))
		m.fact(second+2, pod, &journaletv1.CallFinished{IntentId: messages.DecisionID(1, cause, pod, 0)})
	}
	call(100, m.fact(100, pod, &journaletv1.ObjectsRead{}))
	// An hour later, and no step has shown that the pod has handled the outcome.
	updated := m.step(3700, messages.Source("api"), 0, &journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_UPDATE, Pod: &journaletv1.PodRef{Uid: "a"}})
	call(3700, updated)
	m.step(3702, pod, m.seq, &journaletv1.PodStatusChanged{})
	m.has(t, `kubelet_pod_worker_duration_seconds_sum{operation_type="sync"} 2`,
		`kubelet_pod_worker_duration_seconds_sum{operation_type="update"} 2`)

	// An orphan, which no source forgets.
	call(3800, m.fact(3800, messages.Pod("a"), &journaletv1.PodDirectoryFound{}))
	m.step(3802, pod, 0, &journaletv1.PodFinished{})
	if len(m.working.pods) > 0 {
		t.Error("a pod that has finished is waited for")
	}

	rejected := newMeasured()
	added := rejected.addPod("b", corev1.PodSpec{})
	rejected.step(110, messages.Pod("b"), added, &journaletv1.AdmissionRequested{Uid: "b"})
	rejected.step(111, messages.Node, added, &journaletv1.AdmissionDecided{Uid: "b"})
	if len(rejected.working.pods) > 0 {
		t.Error("a rejected pod is waited for")
	}
	rejected.hasNot(t, "kubelet_pod_worker_duration_seconds_count")
}
