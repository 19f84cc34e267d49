// Package reap ends what commands leave behind that the agent has a runtime start in containers: of exec probes, of
// hooks, of sessions. CRI ends the first process of such a command and not what that has started (ADR 082).
//
// A session is one command from its begin to its end. Its first process is the one that the runtime puts into the
// container from outside. It is moved into a cgroup of the session below the container's, so that all that it starts is
// known, however it detaches itself. A session that ends normally gives its processes back to the container; of any
// other nothing is left. The package decides on no result: callers say how a session has ended.
//
// Start reading at session.go, then find.go (which process is its first), end.go (killed or kept), exec.go
// (ExecSync with a deadline of its own), reaper.go (what is known of containers) and machine.go (the kernel's side).
package reap
