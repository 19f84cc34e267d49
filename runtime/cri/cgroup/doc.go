// Package cgroup makes, changes and removes the cgroups of pods and the tree above them, kubepods with a branch for each class
// of service, on cgroup v1 and v2, as cgroupfs or through systemd. It decides nothing: what a pod's cgroup holds follows from its
// manifest alone, and when one is made or goes is part of calls that the journal asked for (ADR 021). It may not talk to the container runtime,
// and it never removes a cgroup in which something runs, but at the end of its own pod. Start reading at name.go and values.go, which are pure,
// then tree.go; where cgroups are, and what holds where they cannot be made, is in places.go.
package cgroup
