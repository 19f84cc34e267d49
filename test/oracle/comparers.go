package oracle

// comparers are all of them, in the order of a pod's life.
func comparers() []comparer {
	return []comparer{
		{name: "decode", share: 300, make: makeManifest, compare: compareDecode, kept: keptIn("decode")},
		{name: "config", share: 100, make: makeGood, compare: compareConfigs, kept: keptIn("config")},
		{name: "cgroup", share: 100, make: makeGood, compare: compareCgroups},
		{name: "history", share: 100, make: makeStory, compare: compareHistories, kept: keptIn("history")},
		{name: "lifecycle", share: 50, make: makeLater, compare: compareHistories, kept: keptIn("lifecycle")},
		{name: "restarts", share: 50, make: makeLife, compare: compareRestarts},
		{name: "resize", share: 60, make: makeSizing, compare: compareSizings, kept: keptIn("resize")},
		{name: "allocate", share: 60, make: makeAllocation, compare: compareAllocations, kept: keptIn("allocate")},
		{name: "restart-all", share: 30, make: makeAnew, compare: compareAnew},
		{name: "grace", share: 2, make: makeFarewell, compare: compareFarewells, kept: keptIn("grace")},
		{name: "message", share: 30, make: makeMessage, compare: compareMessages, kept: keptIn("message")},
		{name: "admission", share: 50, make: makeCrowd, compare: compareAdmission, kept: keptIn("admission")},
		{name: "preemption", share: 100, make: makeRivals, compare: comparePreemption},
	}
}
