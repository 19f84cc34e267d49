// Package host runs the deciders: it spawns an actor for each, delivers records in journal order,
// records what is decided, and rebuilds an actor that failed.
//
// Under the protoactor shell (shell.go, mailbox.go) lies a plain core that needs neither it nor a
// bus: a cell (cell.go) is one actor's handling of one record, and fold.go is the canonical fold
// that recovery, replay and the rebuilding of one actor share. The host decides nothing itself and
// performs no effect: stored records go to the drivers through Options.Effects. Start with cell.go.
package host
