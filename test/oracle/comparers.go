package oracle

// comparers returns all comparers, roughly in the order of a pod's lifecycle.
func comparers() []comparer {
	return []comparer{
		{name: "decode", share: 300, generate: generateManifest, compare: compareDecode, kept: keptIn("decode")},
		{name: "config", share: 100, generate: generateWithInit, compare: compareConfigs, kept: keptIn("config")},
		{name: "env", share: 100, generate: generateEnv, compare: compareEnv, kept: keptIn("env"), known: "config"},
		{name: "contents", share: 100, generate: generateContents, compare: compareContents, kept: keptIn("contents")},
		{name: "mounts", share: 100, generate: generateMounts, compare: compareConfigs, known: "config"},
		{name: "cgroup", share: 100, generate: generatePod, compare: compareCgroups},
		{name: "memory-volume", share: 50, generate: generatePod, compare: compareMemoryVolumes},
		{name: "history", share: 100, generate: generateHistory, compare: compareHistories, kept: keptIn("history")},
		{name: "lifecycle", share: 50, generate: generateLifecycle, compare: compareHistories, kept: keptIn("lifecycle"),
			known: "history"},
		{name: "restarts", share: 50, generate: generateRuns, compare: compareRestarts},
		{name: "resize", share: 60, generate: generateResizes, compare: compareResizes, kept: keptIn("resize")},
		{name: "allocate", share: 60, generate: generateAllocations, compare: compareAllocations, kept: keptIn("allocate")},
		{name: "restart-all", share: 30, generate: generateRestartAll, compare: compareRestartAll},
		{name: "grace", share: 2, generate: generateGrace, compare: compareGrace, kept: keptIn("grace")},
		{name: "message", share: 30, generate: generateMessage, compare: compareMessages, kept: keptIn("message")},
		{name: "admission", share: 50, generate: generateAdmission, compare: compareAdmission, kept: keptIn("admission")},
		{name: "credentials", share: 200, generate: generateCredentials, compare: compareCredentials,
			kept: keptIn("credentials")},
		{name: "merge", share: 200, generate: generateMerge, compare: compareMerges, kept: keptIn("merge")},
		{name: "managers", share: 30, generate: generateManagers, compare: compareManagers, kept: keptIn("managers")},
		{name: "preemption", share: 100, generate: generatePreemption, compare: comparePreemption},
		{name: "eviction", share: 60, generate: generateEviction, compare: compareEviction, kept: keptIn("eviction")},
	}
}
