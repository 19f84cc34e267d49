// Package reap ends what commands leave behind in containers: commands of exec probes, hooks and sessions, which the
// runtime starts for the agent. CRI ends the first process of such a command, not what this process has started (ADR
// 082).
//
// A session is one command from its begin to its end. Its first process is the process that the runtime puts into the
// container from outside. The package moves it into a cgroup of the session below the container's, so that everything
// it starts is known, however it detaches itself. A session that ends normally gives its processes back to the
// container; any other session leaves nothing behind. The package decides on no result: callers say how a session has
// ended.
//
// Start reading at session.go, then find.go (which process is its first), end.go (killed or kept), exec.go
// (ExecSync with a deadline of its own), reaper.go (what is known of containers) and machine.go (the kernel's side).
package reap
