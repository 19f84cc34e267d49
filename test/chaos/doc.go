// Package chaos holds the tests that break things under a running agent on a real containerd, at moments that nobody
// chose: the agent is killed, containerd is killed, one pod's calls hang, the disk is full, the node reboots, a power cut
// takes the journal's end. After each, every pod must be what its manifest says, no container of an unchanged pod may have
// been replaced or have run twice, nothing may be left over or doubled on the runtime or in the agent's folders, restarts
// must be counted as they were, and the journal must be whole. The tests are built only with the tag "chaos", need root,
// and own the lab that LAB_NAME names, because they kill its containerd: nothing else may run on it. `make chaos` runs them
// at full length, `make chaos-short` as part of `make test`. A failure names its seed; -chaos.seed gives the same choices
// again, though not the same moments. Nothing may import this package. Start reading at check_test.go, which says what must
// hold, then at any of the files that are named for what they break; the agent under test is package test/node.
package chaos
