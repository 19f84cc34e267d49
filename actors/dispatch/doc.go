// Package dispatch decides which call on the container runtime runs next.
//
// It receives CallRequested and CallWithdrawn of every actor, CallFinished of the driver, RuntimeHealthChanged and
// AgentStarted. It decides CallDispatched and CallDropped, and CallRequested for a configuration of the runtime that
// is to be repeated (config.go). Its rules:
//
//   - Calls for one container are serial. A call for a sandbox excludes all other calls of its pod.
//   - A stop of a container overtakes the calls that are queued for it. Waiting for a grace period takes no slot.
//   - Start, stop and pull have a lane each, with a bound of its own, so that a hung stop or a slow pull never holds up
//     another pod.
//   - Images are removed one at a time.
//   - A hook excludes nothing, and waits only for a slot of its own lane.
//
// Inspections (status, lists) are not queued here: they change nothing. Start with order.go.
package dispatch
