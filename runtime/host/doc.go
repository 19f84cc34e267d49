// Package host runs the deciders: it spawns an actor for each, delivers records in the journal's order, records the
// decisions, and rebuilds a failed actor.
//
// The protoactor shell (shell.go, mailbox.go) wraps the cells and the fold of runtime/fold, which need neither
// protoactor nor a bus. The host takes no decision and performs no effect: it passes stored records to the drivers
// through Options.Effects. Start with host.go.
package host
