// Package sim is a container runtime that exists only in memory, behind the real CRI gRPC API (runtime.v1). It is for
// tests, and for a trial without root (`--container-runtime-endpoint sim://`). It keeps sandboxes, containers, images
// and events as containerd 2.x does, with the same states, codes and reasons (the suite in test/conformance runs on
// both), and adds what a real runtime can't offer: a clock that a test moves, faults by method, crashes, and processes
// that die on command. What a container does is a guess from its command line (behaviour.go, shell.go, commands.go). It
// starts no process, touches no cgroup, network or mount; on disk it writes container logs below a log directory that
// exists already, reads files through host path mounts, and writes through them only with Options.WriteMounts. Sessions
// (streaming.go, session.go) are on a port of the loopback interface, which opens with the first. It holds no policy of
// the agent and imports none of it. Start reading at runtime.go, then sandbox.go, container.go and process.go;
// faults.go is what tests want first.
package sim
