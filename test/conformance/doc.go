// Package conformance tests what a node agent relies on in a CRI runtime, no more: the states, codes, reasons,
// timestamps and events that its decisions depend on. runtime/sim and containerd 2.x both pass it, which keeps the
// simulated runtime true to the real one. The suite uses one connection to the runtime, creates sandboxes under unique
// names, and removes them. It may not import the agent or the simulation. Start reading at conformance.go.
package conformance
