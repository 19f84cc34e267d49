// Package cri performs the journal's calls on a CRI runtime and turns each into its one outcome. It decides nothing:
// actors decide what to call, in what order, and whether to try again. It may not forget a call: a call without a
// response is in doubt, and the driver inspects the runtime until it knows the outcome, however long that takes. Only
// the end of the agent leaves an intent without an outcome; the next run resolves it. Every object it creates carries
// the intent's id and the agent's id in annotations, so the driver finds its own objects and touches no others.
// It generates the same configurations as the kubelet (1.37). Start reading at Do in driver.go, then doubt.go,
// container.go and container_config.go.
package cri
