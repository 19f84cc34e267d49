// Command bench measures two node agents as nodes of a cluster, in turn: ours and the kubelet of the same release, on
// one container runtime and one control plane, with one configuration file. It sees what a user of the cluster sees, by
// a watch of pods, and counts requests in the API server's audit log. Each round has one agent on a node of its own:
//
//	start, burst, idle, restart, exits, deletion
//
// With -csi it has pods with volumes of a CSI driver (volumes.go): start, burst, deletion.
//
// It prints one JSON object for each of them, which `bench -table` of test/bench prints side by side; test/bench/run.sh
// calls both for SCENARIOS=cluster. Every pod of the runtime is removed before a round.
//
// Start with round.go. agent.go starts and kills agents, pods.go and sightings.go create and watch pods, audit.go
// counts requests, machine.go reads /proc.
package main
