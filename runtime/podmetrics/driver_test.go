package podmetrics

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestWhatHappensToPodsIsCounted(t *testing.T) {
	d := newMeasured()
	stored := func(seconds int64, actor messages.Ref, decisions ...proto.Message) {
		rec := &journaletv1.Record{Actor: actor.Proto(), Time: &timestamppb.Timestamp{Seconds: seconds}}
		step := &journaletv1.Step{}
		for _, m := range decisions {
			step.Decisions = append(step.Decisions, messages.NewEvent(m))
		}
		rec.Body = &journaletv1.Record_Step{Step: step}
		d.Stored(rec)
	}
	updated := func(uid string, o journaletv1.PodOperation) proto.Message {
		return &journaletv1.PodUpdated{Operation: o, Pod: &journaletv1.PodRef{Uid: uid}}
	}
	phase := func(p journaletv1.PodPhase) proto.Message { return &journaletv1.PodStatusChanged{Phase: p} }
	const add, remove = journaletv1.PodOperation_POD_OPERATION_ADD, journaletv1.PodOperation_POD_OPERATION_REMOVE
	const running = journaletv1.PodPhase_POD_PHASE_RUNNING
	stored(10, messages.Source("api"), updated("a", add), updated("b", add), updated("c", add))
	stored(11, messages.Node, &journaletv1.AdmissionDecided{Uid: "a", Admitted: true},
		&journaletv1.AdmissionDecided{Uid: "b", Reason: "OutOfcpu"})
	stored(11, messages.Pod("a"), phase(journaletv1.PodPhase_POD_PHASE_PENDING))
	stored(11, messages.Pod("b"), phase(journaletv1.PodPhase_POD_PHASE_FAILED))
	stored(12, messages.Pod("a"), phase(running))
	stored(13, messages.Pod("a"), phase(running)) // its readiness
	stored(14, messages.Source("api"), updated("c", remove))
	stored(14, messages.Pod("a"), &journaletv1.PodTerminating{Reason: "VolumeAttachmentLimitExceeded", Failed: true})
	stored(14, messages.Pod("a"), &journaletv1.PodTerminating{Reason: "Evicted", Failed: true})
	stored(15, messages.Pod("d"), &journaletv1.OrphanFound{Uid: "d"})
	if len(d.starting) > 0 {
		t.Errorf("pods that have ended are waited for: %v", d.starting)
	}

	call := func(code journaletv1.CallError, req *journaletv1.CallRequested) {
		d.CallFinished(req, &journaletv1.CallFinished{Error: code}, time.Second)
	}
	const ok = journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	call(ok, &journaletv1.CallRequested{Work: &journaletv1.CallRequested_RunSandbox{
		RunSandbox: &journaletv1.RunSandbox{UserNamespace: &journaletv1.UserNamespace{}}}})
	call(journaletv1.CallError_CALL_ERROR_RUNTIME, &journaletv1.CallRequested{
		Work: &journaletv1.CallRequested_RunSandbox{RunSandbox: &journaletv1.RunSandbox{}}})
	start := func(code journaletv1.CallError, s *journaletv1.StartContainer) {
		call(code, &journaletv1.CallRequested{Work: &journaletv1.CallRequested_StartContainer{StartContainer: s}})
	}
	// The first start finds no image, the second one has it.
	start(journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT, &journaletv1.StartContainer{})
	start(ok, &journaletv1.StartContainer{})
	// The agent has withdrawn it, and a restart interrupted the other: both are done again, if at all.
	start(journaletv1.CallError_CALL_ERROR_WITHDRAWN, &journaletv1.StartContainer{})
	call(journaletv1.CallError_CALL_ERROR_NOT_DONE, &journaletv1.CallRequested{
		Work: &journaletv1.CallRequested_RunSandbox{RunSandbox: &journaletv1.RunSandbox{}}})
	// One start in two parts.
	start(ok, &journaletv1.StartContainer{Init: true, Part: journaletv1.StartPart_START_PART_CREATE})
	start(ok, &journaletv1.StartContainer{Init: true, Part: journaletv1.StartPart_START_PART_START})
	start(journaletv1.CallError_CALL_ERROR_CONFIG, &journaletv1.StartContainer{Ephemeral: true})
	call(journaletv1.CallError_CALL_ERROR_REGISTRY_UNAVAILABLE, &journaletv1.CallRequested{
		Work: &journaletv1.CallRequested_PullImage{PullImage: &journaletv1.PullImage{}}})

	d.has(t,
		"kubelet_pod_start_duration_seconds_sum 2", "kubelet_pod_start_duration_seconds_count 1",
		`kubelet_admission_rejections_total{reason="OutOfcpu"} 1`,
		`kubelet_admission_rejections_total{reason="VolumeAttachmentLimitExceeded"} 1`,
		"kubelet_orphaned_runtime_pods_total 1",
		"kubelet_started_pods_total 2", "kubelet_started_pods_errors_total 1",
		"kubelet_started_user_namespaced_pods_total 1", "kubelet_started_user_namespaced_pods_errors_total 0",
		`kubelet_started_containers_total{container_type="container"} 1`,
		`kubelet_started_containers_total{container_type="init_container"} 1`,
		`kubelet_started_containers_total{container_type="ephemeral_container"} 1`,
		`kubelet_started_containers_errors_total{code="CreateContainerConfigError",container_type="ephemeral_container"} 1`,
		`kubelet_runtime_operations_errors_total{operation_type="pull_image"} 1`,
		`kubelet_runtime_operations_errors_total{operation_type="run_podsandbox"} 1`,
		`kubelet_runtime_operations_errors_total{operation_type="start_container"} 1`)
	body := d.page(t)
	if strings.Contains(body, `reason="Evicted"`) {
		t.Error("an eviction is a rejection")
	}
	if strings.Contains(body, "kubelet_image_pull_duration_seconds_count") {
		t.Error("a failed pull is measured")
	}
}
