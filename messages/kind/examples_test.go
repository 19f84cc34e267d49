package kind

import (
	"github.com/journalet/journalet/messages/journaletv1"
)

func examplesOfNode() []example {
	other, problem := &journaletv1.OtherMachine{}, []*journaletv1.ManifestProblem{{}}
	return []example{
		{&journaletv1.AgentStarted{KubeletState: &journaletv1.KubeletState{}}, Progress},
		{&journaletv1.AgentStarted{KubeletState: &journaletv1.KubeletState{Problems: []string{"x"}}}, Warning},
		{&journaletv1.RuntimeHealthChanged{RuntimeReady: true, NetworkReady: true}, Progress},
		{&journaletv1.RuntimeHealthChanged{RuntimeReady: true}, Failure},
		{&journaletv1.RuntimeHealthChanged{NetworkReady: true}, Failure},
		{&journaletv1.ApiServerContact{Reachable: true}, Progress},
		{&journaletv1.ApiServerContact{}, Warning},
		{&journaletv1.ApiServerContact{Reachable: true, Message: "the clocks differ"}, Warning},
		{&journaletv1.CertificateChanged{}, Info},
		{&journaletv1.CertificateChanged{Message: "x"}, Warning},
		{&journaletv1.NodeObserved{}, Info},
		{&journaletv1.NodeObserved{OtherMachine: other}, Warning},
		{&journaletv1.NodeRegistered{}, Progress},
		{&journaletv1.NodeRegistered{OtherMachine: other}, Warning},
		{&journaletv1.PressureObserved{}, Info},
		{&journaletv1.PressureObserved{Thresholds: []*journaletv1.ThresholdMet{{}}}, Warning},
		{&journaletv1.NodePressureDecided{}, Info},
		{&journaletv1.NodePressureDecided{Conditions: []string{"MemoryPressure"}}, Warning},
		{&journaletv1.EvictionProgressed{}, Info},
		{&journaletv1.EvictionProgressed{Stage: journaletv1.EvictionStage_EVICTION_STAGE_MEASURING}, Info},
		{&journaletv1.EvictionProgressed{Stage: journaletv1.EvictionStage_EVICTION_STAGE_SETTLING}, Info},
		{&journaletv1.EvictionProgressed{Stage: journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMED}, Info},
		{&journaletv1.EvictionProgressed{Stage: journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMING}, Warning},
		{&journaletv1.EvictionProgressed{Stage: journaletv1.EvictionStage_EVICTION_STAGE_ENDING}, Warning},
		{&journaletv1.DevicesObserved{Changed: []*journaletv1.Device{{Healthy: true}}}, Info},
		{&journaletv1.DevicesObserved{Changed: []*journaletv1.Device{{Healthy: true}, {}}}, Warning},
		{&journaletv1.DevicesObserved{Message: "the plugin has gone"}, Warning},
		{&journaletv1.PreferredDevicesRead{}, Info},
		{&journaletv1.PreferredDevicesRead{Message: "no answer"}, Warning},
		{&journaletv1.ManifestsRead{Changed: []*journaletv1.ManifestFile{{}}}, Info},
		{&journaletv1.ManifestsRead{Changed: []*journaletv1.ManifestFile{{}, {Problems: problem}}}, Failure},
		{&journaletv1.ManifestsRead{Changed: []*journaletv1.ManifestFile{{Unreadable: true}}}, Failure},
		{&journaletv1.ImagePullDecided{}, Info},
		{&journaletv1.ImagePullDecided{Error: journaletv1.CallError_CALL_ERROR_REGISTRY_UNAVAILABLE}, Failure},
		{&journaletv1.OperatorPullDecided{}, Info},
		{&journaletv1.OperatorPullDecided{Error: journaletv1.CallError_CALL_ERROR_RUNTIME}, Failure},
		{&journaletv1.ImagesCollected{WantedBytes: 2, FreedBytes: 2}, Info},
		{&journaletv1.ImagesCollected{WantedBytes: 2, FreedBytes: 1}, Failure},
		{&journaletv1.ImageRemovalDecided{}, Info},
		{&journaletv1.ImageRemovalDecided{Message: "in use"}, Warning},
	}
}

func examplesOfPods() []example {
	instance := func(attempt uint32, code int32) *journaletv1.ContainerObservation {
		return &journaletv1.ContainerObservation{Name: "a", Attempt: attempt, ExitCode: code,
			State: journaletv1.ContainerState_CONTAINER_STATE_EXITED}
	}
	observed := func(all ...*journaletv1.ContainerObservation) *journaletv1.PodObserved {
		return &journaletv1.PodObserved{Containers: all}
	}
	finished := func(code journaletv1.CallError) *journaletv1.CallFinished {
		return &journaletv1.CallFinished{Error: code}
	}
	claim := func(health journaletv1.DeviceHealth) *journaletv1.ClaimHealthObserved {
		return &journaletv1.ClaimHealthObserved{Devices: []*journaletv1.ClaimDeviceHealth{{Health: health}}}
	}
	waiting := func(reason string) *journaletv1.PodStatusChanged {
		return &journaletv1.PodStatusChanged{Waiting: map[string]*journaletv1.ContainerWaiting{"a": {Reason: reason}}}
	}
	condition := func(kind, reason string, status bool) *journaletv1.PodStatusChanged {
		return &journaletv1.PodStatusChanged{Phase: journaletv1.PodPhase_POD_PHASE_RUNNING,
			Conditions: []*journaletv1.Condition{{Type: kind, Reason: reason, Status: status}}}
	}
	object := func(state journaletv1.ObjectState) *journaletv1.ObjectsRead {
		return &journaletv1.ObjectsRead{Objects: []*journaletv1.ObjectRead{{State: state}}}
	}
	return []example{
		{finished(journaletv1.CallError_CALL_ERROR_UNSPECIFIED), Info},
		{finished(journaletv1.CallError_CALL_ERROR_RUNTIME), Failure},
		{finished(journaletv1.CallError_CALL_ERROR_WITHDRAWN), Info},
		{finished(journaletv1.CallError_CALL_ERROR_NOT_DONE), Info},
		{finished(journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT), Info},
		{&journaletv1.CallDropped{}, Info},
		{&journaletv1.OomKillObserved{Scope: journaletv1.OomScope_OOM_SCOPE_CONTAINER}, Warning},
		{claim(journaletv1.DeviceHealth_DEVICE_HEALTH_HEALTHY), Info},
		{claim(journaletv1.DeviceHealth_DEVICE_HEALTH_UNKNOWN), Info},
		{claim(journaletv1.DeviceHealth_DEVICE_HEALTH_UNHEALTHY), Warning},
		{&journaletv1.DeviceHealthDecided{}, Info},
		{&journaletv1.DeviceHealthDecided{Devices: []*journaletv1.HealthOfDevice{{}}}, Warning},
		{observed(), Info},
		{observed(instance(0, 0)), Info},
		{observed(instance(0, 1)), Warning},
		{observed(instance(1, 0), instance(0, 1)), Info},
		{&journaletv1.ProbeResult{Success: true}, Progress},
		{&journaletv1.ProbeResult{Success: true, Message: "redirected to another host"}, Warning},
		{&journaletv1.ProbeResult{}, Warning},
		{object(journaletv1.ObjectState_OBJECT_STATE_PRESENT), Info},
		{object(journaletv1.ObjectState_OBJECT_STATE_MISSING), Info},
		{object(journaletv1.ObjectState_OBJECT_STATE_UNREADABLE), Warning},
		{&journaletv1.SessionEnded{ExitCode: new(int32)}, Info},
		{&journaletv1.SessionEnded{Message: "the stream broke"}, Warning},
		{&journaletv1.LogRotated{}, Info},
		{&journaletv1.LogRotated{Message: "no space"}, Warning},
		{&journaletv1.ApiDeleteFinished{}, Info},
		{&journaletv1.ApiDeleteFinished{Message: "forbidden"}, Warning},
		{&journaletv1.PodsKeptOut{Source: "file"}, Info},
		{&journaletv1.PodsKeptOut{Source: "file", Pods: []string{"default/web"}}, Warning},
		{&journaletv1.AdmissionDecided{Admitted: true}, Info},
		{&journaletv1.AdmissionDecided{Admitted: true, Reason: "PodFeatureUnsupported"}, Warning},
		{&journaletv1.AdmissionDecided{}, Failure},
		{&journaletv1.AdmissionDeferred{HolderUid: "b"}, Info},
		{&journaletv1.AdmissionDeferred{HolderUid: "b", Reason: "NodeDrained"}, Warning},
		{&journaletv1.AdmissionDeferred{}, Warning},
		{&journaletv1.ResizeDecided{Allocated: true}, Progress},
		{&journaletv1.ResizeDecided{}, Warning},
		{&journaletv1.AllContainersRestarting{}, Warning},
		{&journaletv1.AllContainersRestarting{AllStopped: true}, Progress},
		{waiting(""), Info},
		{waiting("ContainerCreating"), Info},
		{waiting("CrashLoopBackOff"), Warning},
		{condition("Ready", "", true), Progress},
		{condition("Ready", "ContainersNotReady", false), Info},
		{condition("PodResizePending", "Infeasible", true), Warning},
		{condition("PodResizeInProgress", "", true), Info},
		{condition("PodResizeInProgress", "Error", true), Warning},
		{&journaletv1.PodStatusChanged{Phase: journaletv1.PodPhase_POD_PHASE_FAILED}, Failure},
		{&journaletv1.PodTerminated{Phase: journaletv1.PodPhase_POD_PHASE_SUCCEEDED}, Progress},
		{&journaletv1.PodTerminated{Phase: journaletv1.PodPhase_POD_PHASE_FAILED}, Failure},
		{&journaletv1.PodTerminating{}, Progress},
		{&journaletv1.PodTerminating{Reason: "Preempted"}, Warning},
		{&journaletv1.PodTerminating{Failed: true, Reason: "Evicted"}, Failure},
	}
}
