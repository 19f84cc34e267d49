package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"text/tabwriter"
)

// figures are what the table shows of a scenario, in this order.
var figures = []struct{ scenario, figure, label string }{
	{"burst_start_s", "p50", "burst: p50 pod running, s"},
	{"burst_start_s", "max", "burst: last pod running, s"},
	{"death_to_restart_s", "p50", "death to restart, p50, s"},
	{"restart_to_new_pod_s", "max", "agent restart to a new pod running, s"},
	{"restart_to_new_pod_s", "containers_replaced", "containers replaced by the restart"},
	{"teardown_s", "total", "teardown of all, s"},
	{"init_chain_3_s", "p50", "three inits in a row, p50, s"},
	{"burst_start_s", "agent_cpu_s", "agent CPU of the burst, s"},
	{"idle", "cpu_millicores", "idle, agent, millicores"},
	{"idle", "runtime_millicores", "idle, runtime, millicores"},
	{"idle", "rss_mib", "RSS, MiB"},
}

// figure is one agent's figure over another's, or a dash where there is none.
func figure(got map[string]map[string]float64, agent, scenario, name string, over float64) string {
	x, ok := got[agent+"/"+scenario][name]
	if !ok || over == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g", x/over)
}

// printTable shows the newest result of each agent and scenario, agents side by side; the last
// columns are the first agent's figure over each other's.
func printTable(path string) {
	f, err := os.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	var agents []string
	got := map[string]map[string]float64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kv map[string]any
		if json.Unmarshal(lines.Bytes(), &kv) != nil {
			continue
		}
		agent := fmt.Sprintf("%v @%v", kv["agent"], kv["n"])
		if !slices.Contains(agents, agent) {
			agents = append(agents, agent)
		}
		row := map[string]float64{}
		for k, v := range kv {
			if x, ok := v.(float64); ok {
				row[k] = x
			}
		}
		got[agent+"/"+kv["scenario"].(string)] = row
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprint(w, "figure")
	for _, a := range agents {
		fmt.Fprintf(w, "\t%s", a)
	}
	for _, a := range agents[min(1, len(agents)):] {
		fmt.Fprintf(w, "\t/ %s", a)
	}
	fmt.Fprintln(w)
	for _, r := range figures {
		fmt.Fprint(w, r.label)
		for _, a := range agents {
			fmt.Fprint(w, "\t"+figure(got, a, r.scenario, r.figure, 1))
		}
		for _, a := range agents[min(1, len(agents)):] {
			fmt.Fprint(w, "\t"+figure(got, agents[0], r.scenario, r.figure, got[a+"/"+r.scenario][r.figure]))
		}
		fmt.Fprintln(w)
	}
}
