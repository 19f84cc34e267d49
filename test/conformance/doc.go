// Package conformance is a suite of what a node agent relies on in a CRI runtime, no more: the states, codes, reasons,
// timestamps and events that its decisions are made from. It passes on runtime/sim and on containerd 2.x, and so keeps
// the simulation honest. It talks to nothing but the connection it is given, makes sandboxes of its own under unique
// names, and removes them. It may not import the agent or the simulation. Start reading at conformance.go.
package conformance
