// Package host runs the deciders: it spawns an actor for each, delivers records in the journal's order, records the
// decisions, and rebuilds a failed actor.
//
// The protoactor shell (shell.go, mailbox.go) wraps a core that needs neither protoactor nor a bus: a cell (cell.go)
// handles one actor's records, and fold.go is the canonical fold, which recovery, replay and the rebuild of one actor
// share. The host takes no decision and performs no effect: it passes stored records to the drivers through
// Options.Effects. Start with cell.go.
package host
