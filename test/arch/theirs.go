package arch

import "strings"

// theirs are the names in comments and documents that no code of the repository has.
var theirs = func() map[string]bool {
	out := map[string]bool{}
	for _, owner := range []string{
		// The kubelet and what it is built from.
		`computeInitContainerActions computePodActions computePodResizeAction containerBackOffPeriod getPhase imageBackOff
		maxMsgSize maxProbeRetries maxRespBodyLength minimumGracePeriodInSeconds podContainerManagerImpl
		qosContainerManagerImpl sortPendingResizes validateMemoryResizeAction validateResizePolicy ErrPostStartHook
		HandlePodRemoves HandlePodUpdates MaxPerPodContainerCount MaxPodTerminationMessageLogLength MaxShares MilliCPUToCPU
		MinMilliCPULimit MinQuotaPeriod MinShares RestartingAllContainers SyncTerminatingPod SystemCriticalPriority
		UnexpectedAdmissionError ValidatePodResize`,
		// Kubernetes' API and the kubelet's configuration.
		`allocatedResources hostnameOverride nodeStatus AppArmor ConfigMaps`,
		// CRI, containerd and runc.
		`image_id stats_collect_period restrict_oom_score_adj Container.Delete ImageService K8sContainerdNamespace
		SystemdCgroup`,
		// Go modules.
		`encoding.CodecV2 nats.go CodecV2 NodeCreater NodeOpendirHandler NodeOpener NodeWrapChilder`,
		// Linux.
		`io_uring oom_score_adj sockaddr_un CAP_SYS_RESOURCE eMMC GiB`,
		// Examples.
		`camelCase snake_case namespace_name_uid pod1_2 SandboxGone SOURCE_FILE TestName TestStop2
		TestStopIsRepeatedWithTheRemainingGracePeriod`,
		// What exists at run time: an actor, a directory of the agent.
		`runtime/0 bus/credentials`,
	} {
		for _, name := range strings.Fields(owner) {
			out[name] = true
		}
	}
	return out
}()
