// Package calls performs the calls that the runtime actor dispatches. It keeps stored intents, performs one when its
// dispatch is stored, and records its one outcome. actors/dispatch decides when to call and in what order, runtime/cri
// how. Start with executor.go.
package calls
