package main

import "fmt"

// Goals of our agent as a node of a cluster, beside the kubelet of the same release: ahead in every row, and further.
const (
	ahead              = 1.0
	readyOfKubelets    = 0.8
	exitMs             = 100
	clusterRestartS    = 0.5
	clusterIdleOfTheir = 0.25
	csiOfKubelets      = 1.2
)

// clusterRows are the lines of SCENARIOS=cluster, in order: what test/cluster/bench has measured.
var clusterRows = []row{
	{label: "Node ready after the agent's start, s", scenario: "cluster_node", figure: "ready_s", spread: true,
		goal: ofKubelets(ahead)},
	{label: "burst: create to Running, p50, s", scenario: "cluster_burst", figure: "running_p50_s", spread: true,
		goal: ofKubelets(ahead)},
	{label: "burst: create to Running, last, s", scenario: "cluster_burst", figure: "running_last_s", spread: true,
		goal: ofKubelets(ahead)},
	{label: "burst: create to Ready, p50, s", scenario: "cluster_burst", figure: "ready_p50_s", spread: true,
		goal: ofKubelets(readyOfKubelets)},
	{label: "burst: create to Ready, last, s", scenario: "cluster_burst", figure: "ready_last_s", spread: true,
		goal: ofKubelets(readyOfKubelets)},
	{label: "exit of a container to its status, p50, ms", scenario: "cluster_exit", figure: "p50_ms", spread: true,
		goal: bothOf(always(exitMs), ofKubelets(ahead))},
	{label: "of that until the runtime reports it, p50, ms", scenario: "cluster_exit", figure: "runtime_p50_ms",
		spread: true},
	{label: "exit of a container to its status, p99, ms", scenario: "cluster_exit", figure: "p99_ms", spread: true,
		goal: ofKubelets(ahead)},
	{label: "the same while 20 pods start, p50, ms", scenario: "cluster_busy_exit", figure: "p50_ms", spread: true,
		goal: ofKubelets(ahead)},
	{label: "the same while 20 pods start, p99, ms", scenario: "cluster_busy_exit", figure: "p99_ms", spread: true,
		goal: ofKubelets(ahead)},
	{label: "delete to gone, p50, s", scenario: "cluster_delete", figure: "p50_s", spread: true, goal: ofKubelets(ahead)},
	{label: "delete to gone, last, s", scenario: "cluster_delete", figure: "last_s", spread: true,
		goal: ofKubelets(ahead)},
	{label: "burst with 2 CSI volumes each: create to Running, p50, s", scenario: "cluster_csi_burst",
		figure: "running_p50_s", spread: true, goal: ofKubelets(csiOfKubelets)},
	{label: "burst with 2 CSI volumes each: create to Running, last, s", scenario: "cluster_csi_burst",
		figure: "running_last_s", spread: true, goal: ofKubelets(csiOfKubelets)},
	{label: "agent CPU of that burst, s", scenario: "cluster_csi_burst", figure: "cpu_s"},
	{label: "delete with 2 CSI volumes each to gone, p50, s", scenario: "cluster_csi_delete", figure: "p50_s",
		spread: true, goal: ofKubelets(csiOfKubelets)},
	{label: "delete with 2 CSI volumes each to gone, last, s", scenario: "cluster_csi_delete", figure: "last_s",
		spread: true, goal: ofKubelets(csiOfKubelets)},
	{label: "idle with 2 CSI volumes each, agent, millicores", scenario: "cluster_csi_idle",
		figure: "cpu_millicores", spread: true},
	{label: "kill -9 and start to a new pod Running, s", scenario: "cluster_restart", figure: "running_s", spread: true,
		goal: bothOf(always(clusterRestartS), ofKubelets(ahead))},
	{label: "API requests of a pod", scenario: "cluster_requests", figure: "pod", goal: ofKubelets(ahead)},
	{label: "API requests of a pod: get", scenario: "cluster_requests", figure: "get"},
	{label: "API requests of a pod: patch", scenario: "cluster_requests", figure: "patch"},
	{label: "API requests of a pod: create", scenario: "cluster_requests", figure: "create"},
	{label: "API requests of a pod: delete", scenario: "cluster_requests", figure: "delete"},
	{label: "API requests of an idle hour, scaled", scenario: "cluster_idle", figure: "requests_hour",
		goal: ofKubelets(ahead)},
	{label: "agent CPU of the burst, s", scenario: "cluster_burst", figure: "cpu_s", goal: ofKubelets(ahead)},
	{label: "agent CPU of the deletion, s", scenario: "cluster_delete", figure: "cpu_s", goal: ofKubelets(ahead)},
	{label: "idle, agent, millicores", scenario: "cluster_idle", figure: "cpu_millicores", spread: true,
		goal: ofKubelets(clusterIdleOfTheir)},
	{label: "idle, runtime, millicores", scenario: "cluster_idle", figure: "runtime_millicores"},
	{label: "idle, shims, millicores", scenario: "cluster_idle", figure: "shim_millicores"},
	{label: "RSS after the burst, MiB", scenario: "cluster_burst", figure: "rss_mib", goal: ofKubelets(ahead)},
	{label: "private memory after the burst, MiB", scenario: "cluster_burst", figure: "private_mib",
		goal: ofKubelets(ahead)},
	{label: "idle, RSS, MiB", scenario: "cluster_idle", figure: "rss_mib", goal: ofKubelets(ahead)},
	{label: "idle, private memory, MiB", scenario: "cluster_idle", figure: "private_mib", goal: ofKubelets(ahead)},
	{label: "other work of the machine before, millicores", scenario: "cluster_quiet", figure: "others_millicores",
		spread: true},
	{label: "other work of the machine, idle, millicores", scenario: "cluster_idle", figure: "others_millicores",
		spread: true},
}

// bothOf returns the lower of two bounds, or the only known bound.
func bothOf(a, b goal) goal {
	return func(bl *block, r row) (float64, string, bool) {
		x, xText, ok := a(bl, r)
		y, yText, ok2 := b(bl, r)
		if !ok || ok2 && y < x {
			return y, yText, ok2
		}
		return x, xText, ok
	}
}

// ofKubelets is a share of the kubelet's value.
func ofKubelets(share float64) goal {
	return func(b *block, r row) (float64, string, bool) {
		kubelet, ok := r.valueOf(b, kubeletName)
		return share * kubelet, fmt.Sprintf("%g × kubelet", share), ok
	}
}
