package main

import (
	"strings"
	"testing"
)

// tableOf reads results, and returns the table and the cells of each line by its label.
func tableOf(t *testing.T, write func(*strings.Builder, []*block), results string) (string, map[string][]string) {
	t.Helper()
	blocks, err := read(strings.NewReader(strings.TrimSpace(results)))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	write(&out, blocks)
	cells := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		var row []string
		for _, c := range strings.Split(strings.Trim(line, "|\n"), "|") {
			row = append(row, strings.TrimSpace(c))
		}
		cells[row[0]] = row[1:]
	}
	return out.String(), cells
}

func agents(w *strings.Builder, b []*block) { writeTable(w, b) }

func wantCells(t *testing.T, table string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q in\n%s", got, want, table)
	}
}

const threeAgents = `
{"agent":"journalet","scenario":"burst_start_s","n":50,"max":5.4,"p50":2,"complete":true}
{"agent":"floor","scenario":"burst_start_s","n":50,"max":4,"p50":2}
{"agent":"kubelet","scenario":"burst_start_s","n":50,"max":8,"p50":4,"complete":true}
{"agent":"journalet","scenario":"burst_start_s","n":50,"max":5.0,"p50":2,"complete":true}
{"agent":"journalet","scenario":"burst_start_s","n":50,"max":5.3,"p50":2,"complete":true}
{"agent":"journalet","scenario":"idle","n":50,"cpu_millicores":2.3,"runtime_millicores":12,"shim_millicores":1,"rss_mib":71}
{"agent":"floor","scenario":"idle","n":50,"runtime_millicores":10,"shim_millicores":0.5}
{"agent":"kubelet","scenario":"idle","n":50,"cpu_millicores":20,"runtime_millicores":17,"shim_millicores":1,"rss_mib":110}
{"agent":"floor","scenario":"init_chain_3_s","n":50,"p50":1.2}
`

func TestTableShowsMediansRatiosAndGoals(t *testing.T) {
	table, cells := tableOf(t, agents, threeAgents)
	wantCells(t, table, cells["figure"], "journalet", "floor", "kubelet", "/ floor", "/ kubelet", "goal", "met")
	wantCells(t, table, cells["burst: last pod running, s"], "5.30 (5 to 5.40)", "4", "8", "1.32", "0.66",
		"≤ 5.20 (1.3 × floor)", "MISSED")
	wantCells(t, table, cells["burst: p50 pod running, s"], "2 (2 to 2)", "2", "4", "1.00", "0.50", "≤ 2.60 (1.3 × floor)",
		"yes")
	wantCells(t, table, cells["RSS, MiB"], "71", "", "110", "", "0.65", "≤ 70", "MISSED")
}

func TestCausedCPUIsTheRuntimesBeyondTheFloor(t *testing.T) {
	table, cells := tableOf(t, agents, threeAgents)
	wantCells(t, table, cells["idle, runtime, millicores"], "12", "10", "17", "1.20", "0.71", "", "")
	wantCells(t, table, cells["idle, runtime and shims, caused, millicores"], "2.50", "0", "7.50", "", "0.33",
		"≤ 3.75 (0.5 × kubelet)", "yes")
}

func TestRowWithoutOurValueIsLeftOut(t *testing.T) {
	table, cells := tableOf(t, agents, threeAgents)
	if cells["three inits in a row, p50, s"] != nil {
		t.Errorf("only the floor has a chain of init containers in\n%s", table)
	}
}

func TestScenarioThatReachedItsLimitIsMarked(t *testing.T) {
	table, cells := tableOf(t, agents, `
{"agent":"journalet","scenario":"burst_start_s","n":50,"max":1,"p50":1,"complete":false}
{"agent":"floor","scenario":"burst_start_s","n":50,"max":4,"p50":2}`)
	wantCells(t, table, cells["burst: last pod running, s"], "1 !", "4", "0.25", "≤ 5.20 (1.3 × floor)", "INCOMPLETE")
}

func TestEachNumberOfPodsHasItsTableAndGoals(t *testing.T) {
	table, cells := tableOf(t, agents, `
{"agent":"journalet","scenario":"idle","n":50,"cpu_millicores":5,"rss_mib":60}
{"agent":"journalet","scenario":"idle","n":150,"cpu_millicores":7,"rss_mib":81}`)
	if strings.Count(table, "| figure") != 2 {
		t.Errorf("two numbers of pods print\n%s", table)
	}
	// cells holds the cells of the second table.
	wantCells(t, table, cells["idle, agent, millicores"], "7", "≤ 8", "yes")
	wantCells(t, table, cells["RSS, MiB"], "81", "≤ 80", "MISSED")
}

func TestProbesHaveGoalsForEveryNumberOfPods(t *testing.T) {
	table, cells := tableOf(t, agents, `
{"agent":"journalet","scenario":"probes","n":200,"http_p99_ms":12,"http_missed":0,"exec_p99_ms":101,"exec_missed":1,"cpu_millicores":90,"complete":true}
{"agent":"journalet","scenario":"ready_ms","n":200,"p50":9,"max":51,"complete":false}
{"agent":"kubelet","scenario":"probes","n":200,"http_p99_ms":24,"http_missed":3,"exec_p99_ms":20,"exec_missed":0,"cpu_millicores":200,"complete":true}`)
	wantCells(t, table, cells["HTTP probes: jitter p99, ms"], "12", "24", "0.50", "≤ 100", "yes")
	wantCells(t, table, cells["HTTP probes: missed runs"], "0", "3", "0.00", "≤ 0", "yes")
	wantCells(t, table, cells["exec probes: jitter p99, ms"], "101", "20", "5.05", "≤ 100", "MISSED")
	wantCells(t, table, cells["exec probes: missed runs"], "1", "0", "", "≤ 0", "MISSED")
	wantCells(t, table, cells["probing, agent, millicores"], "90", "200", "0.45", "≤ 100 (0.5 × kubelet)", "yes")
	wantCells(t, table, cells["good result to Ready visible, max, ms"], "51 !", "", "", "≤ 50", "INCOMPLETE")
	if !strings.Contains(table, "200 pods; one run") {
		t.Errorf("the number of runs is not in\n%s", table)
	}
}

func TestNodesOfAClusterAreComparedInEveryRow(t *testing.T) {
	table, cells := tableOf(t, agents, `
{"agent":"journalet","scenario":"cluster_burst","n":50,"ready_p50_s":4,"ready_last_s":9,"complete":true}
{"agent":"kubelet","scenario":"cluster_burst","n":50,"ready_p50_s":5,"ready_last_s":10,"complete":true}
{"agent":"journalet","scenario":"cluster_exit","n":50,"p50_ms":90,"complete":true}
{"agent":"kubelet","scenario":"cluster_exit","n":50,"p50_ms":700,"complete":true}
{"agent":"journalet","scenario":"cluster_restart","n":50,"running_s":0.4,"complete":true}
{"agent":"kubelet","scenario":"cluster_restart","n":50,"running_s":0.3,"complete":true}
{"agent":"journalet","scenario":"cluster_requests","n":50,"pod":8,"patch":3}
{"agent":"kubelet","scenario":"cluster_requests","n":50,"pod":14,"patch":5,"get":5}`)
	wantCells(t, table, cells["burst: create to Ready, p50, s"], "4", "5", "0.80", "≤ 4 (0.8 × kubelet)", "yes")
	wantCells(t, table, cells["burst: create to Ready, last, s"], "9", "10", "0.90", "≤ 8 (0.8 × kubelet)", "MISSED")
	wantCells(t, table, cells["exit of a container to its status, p50, ms"], "90", "700", "0.13", "≤ 100", "yes")
	wantCells(t, table, cells["kill -9 and start to a new pod Running, s"], "0.400", "0.300", "1.33",
		"≤ 0.300 (1 × kubelet)", "MISSED")
	wantCells(t, table, cells["API requests of a pod"], "8", "14", "0.57", "≤ 14 (1 × kubelet)", "yes")
	if cells["API requests of a pod: get"] != nil {
		t.Errorf("ours sends no get in\n%s", table)
	}
	if !strings.Contains(table, "50 pods; one run") {
		t.Errorf("the number of runs is not in\n%s", table)
	}
}

func TestSyncTableComparesOnEachDisk(t *testing.T) {
	table, _ := tableOf(t, func(w *strings.Builder, b []*block) { writeSyncTable(w, b) }, `
{"agent":"always fast","scenario":"burst_start_s","n":50,"max":5,"p50":2}
{"agent":"interval:250ms fast","scenario":"burst_start_s","n":50,"max":5,"p50":2}
{"agent":"always slow","scenario":"burst_start_s","n":50,"max":6,"p50":3,"syncs":400}
{"agent":"interval:250ms slow","scenario":"burst_start_s","n":50,"max":5,"p50":2,"syncs":20}`)
	for _, want := range []string{
		"| fast | last pod running, s         | 5      | 5              | 1.00              | ≤ 1.10 | yes    |",
		"| slow | last pod running, s         | 6      | 5              | 1.20              | ≤ 1.10 | MISSED |",
		"| slow | syncs of the journal's disk | 400    | 20             | 20.00             |        |        |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no line\n%s\nin\n%s", want, table)
		}
	}
}
