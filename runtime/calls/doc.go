// Package calls performs the calls that the runtime actor dispatches. It keeps stored intents, performs one when its
// dispatch is stored, and records its one outcome. actors/dispatch decides when to call and in what order, and workers
// know how: runtime/cri at the container runtime, runtime/plugins/devices and runtime/dra at plugins. Start with
// executor.go; works.go has what all works share.
package calls
