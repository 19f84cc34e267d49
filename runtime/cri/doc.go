// Package cri performs the journal's calls on a CRI runtime and turns each into its one outcome. It decides nothing:
// what to do, in which order and whether to try again is the actors' business. It may not forget a call: an answer
// that does not come leaves the call in doubt, and the driver looks at the world until it knows, however long that
// takes; only the end of the agent leaves an intent without an outcome, for the next run to look after. What it makes
// carries the intent's id and the agent's in annotations, so that it finds its own and touches nothing else. Configurations
// are what the kubelet (1.36) generates. Start reading at Perform in driver.go, then doubt.go, container.go and
// container_config.go.
package cri
