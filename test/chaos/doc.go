// Package chaos holds tests that break things under a running agent on a real containerd, at random moments: the
// agent is killed, containerd is killed, one pod's calls hang, the disk is full, the node reboots, a power cut
// truncates the journal. Afterwards every pod must match its manifest. No container of an unchanged pod may have been
// replaced or have run twice. Nothing may be left over or doubled on the runtime or in the agent's directories.
// Restart counts must be right, and the journal complete. One test replaces the last release by this version and back.
//
// With a cluster, whatever is part of it is killed while Deployments, StatefulSets and Jobs change: the agent,
// containerd, etcd and the programs of Kubernetes, and the API server is frozen. In each calm everything must be as
// desired: by the API server, the runtime, the disk, and by what the containers themselves have recorded (witness).
//
// The tests are built only with the tag "chaos" and need root. They kill the containerd of the lab that LAB_NAME names,
// so nothing else may run on it. `make chaos` runs them at full length, `make chaos-short` and `make nightly` in a
// short form. That with a cluster has the tag "cluster", too, and a target of its own, `make chaos-cluster`: it needs
// the programs that `make cluster` builds. A failure names its seed; -chaos.seed repeats its choices, though not its
// timing. Without the flag the seed is the same each time, with -chaos.seed=0 it is a new one. Nothing may import this
// package. Start reading at check_test.go, which checks what must hold, and with a cluster at cluster_test.go. The
// agent under test is package test/node.
package chaos
