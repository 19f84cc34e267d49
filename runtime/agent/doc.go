// Package agent puts the parts together and takes them apart again: bus, host and drivers, in the
// order that makes a start a fold and a stop a line in the journal. It holds no logic of its own
// beyond that order. Start with Run in agent.go.
package agent
