// Package describe puts events into words: one line an event, in the journal's order, with its cause; and the
// Kubernetes events that a kubelet would emit for the same records.
//
// It holds no state of actors and reads no journal: the caller passes events, and a Renderer fetches a cause that it
// has not seen. Start with describe.go.
package describe
