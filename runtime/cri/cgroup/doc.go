// Package cgroup creates, changes and removes the cgroups of pods and the tree above them: kubepods with a cgroup for
// each QoS class, on cgroup v1 and v2, with cgroupfs or systemd. It decides nothing: a pod's limits follow from its
// manifest, and its cgroup is created and removed as part of calls in the journal (ADR 021). It may not talk to the
// container runtime. It removes a cgroup with running processes only at the end of its own pod. Start reading at
// name.go and values.go, which are pure, then tree.go. places.go finds the mount points, and reports where cgroups are
// impossible.
package cgroup
