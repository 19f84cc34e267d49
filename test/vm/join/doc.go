// Package join has kubeadm join an emulated machine to a control plane on this one, with the agent in the kubelet's
// place (ADR 060): under systemd and cgroup v2, as the cluster's second node. The API server reaches the node by a
// network interface that QEMU creates.
//
// The tests are built only with the tag "vm", need root and the programs of test/cluster, and are part of `make vm`.
// Nothing may import this package. Start reading at join_test.go.
package join
