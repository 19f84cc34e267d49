package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/journalet/journalet/test/measure"
)

// Names of the agents that the goals refer to.
const (
	floorName   = "floor"
	kubeletName = "kubelet"
)

// block holds the results of one number of pods, a column for each agent.
type block struct {
	pods   int
	agents []string
	// values holds the values of all runs, by agent, scenario and figure.
	values map[string][]float64
	// incomplete holds the scenarios that reached their limit in some run, by agent and scenario.
	incomplete map[string]bool
}

func key(agent, scenario, figure string) string { return agent + "/" + scenario + "/" + figure }

// readFile reads results, one JSON object on each line.
func readFile(path string) ([]*block, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f)
}

// read groups results by their number of pods, in their order.
func read(r io.Reader) ([]*block, error) {
	var blocks []*block
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var kv map[string]any
		if err := json.Unmarshal(lines.Bytes(), &kv); err != nil {
			return nil, fmt.Errorf("bench: %q is not a result: %w", lines.Text(), err)
		}
		agent, _ := kv["agent"].(string)
		scenario, _ := kv["scenario"].(string)
		pods, _ := kv["n"].(float64)
		at := slices.IndexFunc(blocks, func(b *block) bool { return b.pods == int(pods) })
		if at < 0 {
			at = len(blocks)
			blocks = append(blocks, &block{pods: int(pods), values: map[string][]float64{}, incomplete: map[string]bool{}})
		}
		b := blocks[at]
		if !slices.Contains(b.agents, agent) {
			b.agents = append(b.agents, agent)
		}
		for k, v := range kv {
			if x, ok := v.(float64); ok && k != "n" {
				b.values[key(agent, scenario, k)] = append(b.values[key(agent, scenario, k)], x)
			}
		}
		if complete, ok := kv["complete"].(bool); ok && !complete {
			b.incomplete[agent+"/"+scenario] = true
		}
	}
	return blocks, lines.Err()
}

// runs returns all values of one figure, smallest first.
func (b *block) runs(agent, scenario, figure string) []float64 {
	return slices.Sorted(slices.Values(b.values[key(agent, scenario, figure)]))
}

// median returns the median of a figure's runs.
func (b *block) median(agent, scenario, figure string) (float64, bool) {
	return measure.Median(b.values[key(agent, scenario, figure)])
}

// ours returns the agent that the goals apply to: the first that is neither the floor nor the kubelet.
func (b *block) ours() string {
	for _, a := range b.agents {
		if a != floorName && a != kubeletName {
			return a
		}
	}
	return ""
}
