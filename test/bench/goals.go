package main

import "fmt"

// Goals of our agent, on a node of 50 and of 150 pods.
const (
	burstOverFloor     = 1.3
	initsOverFloor     = 1.3
	teardownOverFloor  = 1.3
	deathBeyondFloor   = 0.060 // s
	restartSeconds50   = 0.6
	restartSeconds150  = 0.8
	idleMillicores50   = 6
	idleMillicores150  = 8
	rssMiB50           = 70
	rssMiB150          = 80
	causedOfKubelets   = 0.5
	journalBytesPerPod = 16 << 10
	probeJitterMs      = 100
	probeOfKubelets    = 0.5
	readyVisibleMs     = 50
	volumesMoreMs      = 10
	followBehindMs     = 50
	logMBps            = 300
	execSessionsOpen   = 100
	topMs              = 100
	topAgentCPUMs      = 20
	// syncOverInterval bounds a burst with each append on disk over one with a sync each 250 ms.
	syncOverInterval = 1.10
)

// goal returns the bound of a row: a number, and its source for the table.
type goal func(b *block, r row) (bound float64, text string, ok bool)

// row is a line of the table.
type row struct {
	label            string
	scenario, figure string
	spread           bool // show the smallest and the largest run, too
	// value computes a figure from others. Without it, the row shows the median of the runs of figure.
	value func(b *block, agent string) (float64, bool)
	// goal returns the bound of our agent; not ok if what it depends on was not measured.
	goal goal
	// least is set if the goal's bound is the smallest value that meets it.
	least bool
}

func (r row) valueOf(b *block, agent string) (float64, bool) {
	if r.value != nil {
		return r.value(b, agent)
	}
	return b.median(agent, r.scenario, r.figure)
}

// rows holds the lines of the table, in order. A line without a value of our agent is left out.
var rows = []row{
	{label: "burst: p50 pod running, s", scenario: "burst_start_s", figure: "p50", spread: true,
		goal: timesFloor(burstOverFloor)},
	{label: "burst: last pod running, s", scenario: "burst_start_s", figure: "max", spread: true,
		goal: timesFloor(burstOverFloor)},
	{label: "death to restart, p50, s", scenario: "death_to_restart_s", figure: "p50",
		goal: beyondFloor(deathBeyondFloor)},
	{label: "agent restart to a new pod running, s", scenario: "restart_to_new_pod_s", figure: "max",
		goal: atMost(restartSeconds50, restartSeconds150)},
	{label: "containers replaced by the restart", scenario: "restart_to_new_pod_s", figure: "containers_replaced",
		goal: atMost(0, 0)},
	{label: "teardown of all, s", scenario: "teardown_s", figure: "total", goal: timesFloor(teardownOverFloor)},
	{label: "three inits in a row, p50, s", scenario: "init_chain_3_s", figure: "p50", goal: timesFloor(initsOverFloor)},
	{label: "start of a pod without volumes, p50, ms", scenario: "volumes", figure: "plain_p50_ms"},
	{label: "the same with configMap, secret, projected and emptyDir, more, ms", scenario: "volumes",
		figure: "more_p50_ms", spread: true, goal: always(volumesMoreMs)},
	{label: "agent CPU of the burst, s", scenario: "burst_start_s", figure: "agent_cpu_s"},
	{label: "idle, agent, millicores", scenario: "idle", figure: "cpu_millicores",
		goal: atMost(idleMillicores50, idleMillicores150)},
	{label: "idle, runtime, millicores", scenario: "idle", figure: "runtime_millicores"},
	{label: "idle, shims, millicores", scenario: "idle", figure: "shim_millicores"},
	{label: "idle, runtime and shims, caused, millicores", value: caused, goal: ofKubelets(causedOfKubelets)},
	{label: "RSS, MiB", scenario: "idle", figure: "rss_mib", goal: atMost(rssMiB50, rssMiB150)},
	{label: "journal of one pod, encoded, bytes", scenario: "journal_per_pod", figure: "encoded_bytes",
		goal: atMost(journalBytesPerPod, journalBytesPerPod)},
	{label: "journal of one pod, on disk, bytes", scenario: "journal_per_pod", figure: "disk_bytes",
		goal: atMost(journalBytesPerPod, journalBytesPerPod)},
	{label: "journal of one pod, records", scenario: "journal_per_pod", figure: "records"},
	{label: "top of all pods, ms", scenario: "into", figure: "top_ms", spread: true, goal: always(topMs)},
	{label: "top of all pods, CPU of the agent, ms", scenario: "into", figure: "top_agent_cpu_ms",
		goal: always(topAgentCPUMs)},
	{label: "top of all pods, CPU of the command, ms", scenario: "into", figure: "top_command_cpu_ms"},
	{label: "logs -f: a line behind its writing, p50, ms", scenario: "into", figure: "follow_p50_ms"},
	{label: "logs -f: a line behind its writing, max, ms", scenario: "into", figure: "follow_max_ms", spread: true,
		goal: always(followBehindMs)},
	{label: "logs of 1 GiB, MB/s", scenario: "into", figure: "log_mb_s", spread: true, goal: always(logMBps),
		least: true},
	{label: "exec: sessions at once", scenario: "into", figure: "exec_sessions", goal: always(execSessionsOpen),
		least: true},
	{label: "exec: refused by the runtime and opened again", scenario: "into", figure: "exec_refused"},
	{label: "exec: all of them open after, s", scenario: "into", figure: "exec_open_s"},
	{label: "exec: a line there and back, p50, ms", scenario: "into", figure: "exec_trip_p50_ms"},
	{label: "exec: agent CPU to open all, s", scenario: "into", figure: "exec_agent_cpu_s"},
	{label: "exec: RSS with all open, MiB", scenario: "into", figure: "exec_rss_mib"},
	{label: "HTTP probes: jitter p50, ms", scenario: "probes", figure: "http_p50_ms"},
	{label: "HTTP probes: jitter p99, ms", scenario: "probes", figure: "http_p99_ms", spread: true,
		goal: always(probeJitterMs)},
	{label: "HTTP probes: jitter max, ms", scenario: "probes", figure: "http_max_ms"},
	{label: "HTTP probes: runs", scenario: "probes", figure: "http_runs"},
	{label: "HTTP probes: missed runs", scenario: "probes", figure: "http_missed", goal: always(0)},
	{label: "exec probes: jitter p50, ms", scenario: "probes", figure: "exec_p50_ms"},
	{label: "exec probes: jitter p99, ms", scenario: "probes", figure: "exec_p99_ms", spread: true,
		goal: always(probeJitterMs)},
	{label: "exec probes: jitter max, ms", scenario: "probes", figure: "exec_max_ms"},
	{label: "exec probes: runs", scenario: "probes", figure: "exec_runs"},
	{label: "exec probes: missed runs", scenario: "probes", figure: "exec_missed", goal: always(0)},
	{label: "probing, agent, millicores", scenario: "probes", figure: "cpu_millicores", spread: true,
		goal: ofKubelets(probeOfKubelets)},
	{label: "probing, runtime, millicores", scenario: "probes", figure: "runtime_millicores"},
	{label: "probing, RSS, MiB", scenario: "probes", figure: "rss_mib"},
	{label: "good result to Ready visible, p50, ms", scenario: "ready_ms", figure: "p50"},
	{label: "good result to Ready visible, max, ms", scenario: "ready_ms", figure: "max", spread: true,
		goal: always(readyVisibleMs)},
}

// caused returns the idle CPU of the runtime and its shims with an agent, less that without one.
func caused(b *block, agent string) (float64, bool) {
	sum := func(agent string) (float64, bool) {
		runtime, ok := b.median(agent, "idle", "runtime_millicores")
		shims, ok2 := b.median(agent, "idle", "shim_millicores")
		return runtime + shims, ok && ok2
	}
	floor, ok := sum(floorName)
	x, ok2 := sum(agent)
	return x - floor, ok && ok2
}

func timesFloor(factor float64) goal {
	return func(b *block, r row) (float64, string, bool) {
		floor, ok := r.valueOf(b, floorName)
		return factor * floor, fmt.Sprintf("%g × floor", factor), ok
	}
}

func beyondFloor(more float64) goal {
	return func(b *block, r row) (float64, string, bool) {
		floor, ok := r.valueOf(b, floorName)
		return floor + more, fmt.Sprintf("floor + %g", more), ok
	}
}

// always is a bound for every number of pods.
func always(bound float64) goal {
	return func(*block, row) (float64, string, bool) { return bound, "", true }
}

// atMost is a bound for nodes of up to 50 and of up to 150 pods. Larger ones have no goal.
func atMost(upTo50, upTo150 float64) goal {
	return func(b *block, _ row) (float64, string, bool) {
		switch {
		case b.pods <= 50:
			return upTo50, "", true
		case b.pods <= 150:
			return upTo150, "", true
		}
		return 0, "", false
	}
}
