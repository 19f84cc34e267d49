// Package replay runs the deciders again over a recorded journal: it compares what they decide with what was recorded
// (Check), and shows the state of an actor at any record (StateAt). It reads, and touches nothing: no driver, bus,
// network or clock. Start with check.go.
package replay
