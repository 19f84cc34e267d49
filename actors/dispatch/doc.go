// Package dispatch decides which call on the container runtime is made next.
//
// It receives CallRequested and CallWithdrawn of every actor, CallFinished of its driver,
// RuntimeHealthChanged and AgentStarted, and decides CallDispatched and CallDropped. Its rules:
// calls for one container are serial; calls for a sandbox exclude the pod's others; a stop of a
// container overtakes what is queued for it, and waiting out a grace period takes no slot; across
// pods there are lanes for start, stop and pull, each with a bound of its own, so that a hung stop
// or a slow pull never holds up another pod. A hook excludes nothing and waits for nothing but a slot of its own lane. Looking (status, lists) is no call of this kind: it
// changes nothing and is never queued. Start with order.go.
package dispatch
