// Package agent starts and stops the parts of the agent in order: bus, host and drivers. A start folds the journal, a
// stop records AgentStopped. It holds no other logic. Start with Run in agent.go.
package agent
