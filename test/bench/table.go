package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// writeTable prints a Markdown table for each number of pods, with the agents side by side: the median of the runs, our
// agent's value divided by the others', the goal, and whether our agent met it.
func writeTable(w io.Writer, blocks []*block) {
	for _, b := range blocks {
		ours := b.ours()
		fmt.Fprintf(w, "\n%d pods; %s\n\n", b.pods, runsOf(b))
		others := slices.DeleteFunc(slices.Clone(b.agents), func(a string) bool { return a == ours })
		head := append([]string{"figure", ours}, others...)
		for _, a := range others {
			head = append(head, "/ "+a)
		}
		lines := [][]string{append(head, "goal", "met")}
		for _, r := range slices.Concat(rows, clusterRows) {
			if line := r.line(b, ours, others); line != nil {
				lines = append(lines, line)
			}
		}
		writeMarkdown(w, lines)
	}
}

// runsOf returns how often each agent was measured, as text.
func runsOf(b *block) string {
	n := 0
	for _, a := range b.agents {
		n = max(n, len(b.runs(a, "burst_start_s", "max")), len(b.runs(a, "probes", "cpu_millicores")),
			len(b.runs(a, "cluster_burst", "ready_last_s")), len(b.runs(a, "cluster_csi_burst", "ready_last_s")))
	}
	if n == 1 {
		return "one run"
	}
	return fmt.Sprintf("median of %d runs, interleaved (smallest to largest)", n)
}

// line returns the cells of a row, nil if our agent has no value for it.
func (r row) line(b *block, ours string, others []string) []string {
	mine, ok := r.valueOf(b, ours)
	if !ok {
		return nil
	}
	cells := []string{r.label, r.cell(b, ours)}
	for _, a := range others {
		cells = append(cells, r.cell(b, a))
	}
	for _, a := range others {
		cells = append(cells, over(mine, r, b, a))
	}
	goal, met := "", ""
	if r.goal != nil {
		if bound, text, ok := r.goal(b, r); ok {
			sign, missed := "≤ ", mine > bound
			if r.least {
				sign, missed = "≥ ", mine < bound
			}
			if goal, met = sign+number(bound), "yes"; text != "" {
				goal += " (" + text + ")"
			}
			if missed {
				met = "MISSED"
			}
		}
	}
	if b.incomplete[ours+"/"+r.scenario] {
		met = "INCOMPLETE"
	}
	return append(cells, goal, met)
}

func (r row) cell(b *block, agent string) string {
	x, ok := r.valueOf(b, agent)
	if !ok {
		return ""
	}
	out := number(x)
	if runs := b.runs(agent, r.scenario, r.figure); r.spread && len(runs) > 1 {
		out += fmt.Sprintf(" (%s to %s)", number(runs[0]), number(runs[len(runs)-1]))
	}
	if b.incomplete[agent+"/"+r.scenario] {
		out += " !"
	}
	return out
}

// over returns our value divided by another agent's, "" if that has none or it is 0.
func over(mine float64, r row, b *block, agent string) string {
	x, ok := r.valueOf(b, agent)
	if !ok || x <= 0 || mine < 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", mine/x)
}

// number formats x with three significant digits, without an exponent.
func number(x float64) string {
	switch a := math.Abs(x); {
	case a >= 100 || x == math.Trunc(x):
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	case a >= 1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

// writeMarkdown writes lines, the first of them the head, as a table with aligned columns.
func writeMarkdown(w io.Writer, lines [][]string) {
	width := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, c := range cells {
			width[i] = max(width[i], utf8.RuneCountInString(c), 3)
		}
	}
	for n, cells := range lines {
		for i, c := range cells {
			fmt.Fprintf(w, "| %s%s ", c, strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)))
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			for _, x := range width {
				fmt.Fprint(w, "|", strings.Repeat("-", x+2))
			}
			fmt.Fprintln(w, "|")
		}
	}
}

// How the journal is synced: the first word of the agents' names of `make bench-sync`.
const (
	syncAlways   = "always"
	syncInterval = "interval:250ms"
)

// writeSyncTable prints bursts by how the journal is synced, on each disk. An agent's name is sync, a space and the
// disk.
func writeSyncTable(w io.Writer, blocks []*block) {
	for _, b := range blocks {
		fmt.Fprintf(w, "\nburst of %d pods; %s\n\n", b.pods, runsOf(b))
		lines := [][]string{{"disk", "figure", syncAlways, syncInterval, "always / interval", "goal", "met"}}
		for _, disk := range disksOf(b) {
			for _, r := range []row{
				{label: "p50 pod running, s", figure: "p50"}, {label: "last pod running, s", figure: "max"},
				{label: "agent CPU, s", figure: "agent_cpu_s"}, {label: "syncs of the journal's disk", figure: "syncs"},
			} {
				r.scenario, r.spread = "burst_start_s", true
				always, ok := r.valueOf(b, syncAlways+" "+disk)
				interval, ok2 := r.valueOf(b, syncInterval+" "+disk)
				if !ok || !ok2 {
					continue
				}
				line := []string{disk, r.label, r.cell(b, syncAlways+" "+disk), r.cell(b, syncInterval+" "+disk),
					over(always, r, b, syncInterval+" "+disk), "", ""}
				if r.figure == "max" {
					line[5], line[6] = fmt.Sprintf("≤ %.2f", syncOverInterval), "yes"
					if always > syncOverInterval*interval {
						line[6] = "MISSED"
					}
				}
				lines = append(lines, line)
			}
		}
		writeMarkdown(w, lines)
	}
}

// disksOf returns the disks that the results name, in their order.
func disksOf(b *block) []string {
	var disks []string
	for _, a := range b.agents {
		if _, disk, ok := strings.Cut(a, " "); ok && !slices.Contains(disks, disk) {
			disks = append(disks, disk)
		}
	}
	return disks
}
