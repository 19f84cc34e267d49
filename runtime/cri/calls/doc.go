// Package calls makes the calls that the runtime actor dispatches: it keeps the intents that are
// stored, performs one when its dispatch is stored, and hands in its one outcome. When and in which
// order is decided by actors/dispatch, how by runtime/cri. Start with executor.go.
package calls
