package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
)

// Names that the table knows: what the others are held to.
const (
	floorName   = "floor"
	kubeletName = "kubelet"
)

// block is what was measured with one number of pods: a column an agent.
type block struct {
	pods   int
	agents []string
	// values are all runs' values of a figure, by agent, scenario and the figure's name.
	values map[string][]float64
	// incomplete are the scenarios that reached their limit in some run, by agent and scenario.
	incomplete map[string]bool
}

func key(agent, scenario, figure string) string { return agent + "/" + scenario + "/" + figure }

// readFile reads results, one JSON object a line.
func readFile(path string) ([]*block, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f)
}

// read groups results by their number of pods, in the order in which they came.
func read(r io.Reader) ([]*block, error) {
	var blocks []*block
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var kv map[string]any
		if err := json.Unmarshal(lines.Bytes(), &kv); err != nil {
			return nil, fmt.Errorf("results: %q is no result: %w", lines.Text(), err)
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

// runs are all values of one figure, smallest first.
func (b *block) runs(agent, scenario, figure string) []float64 {
	return slices.Sorted(slices.Values(b.values[key(agent, scenario, figure)]))
}

// median is the middle of a figure's runs, the mean of the two in the middle where their number is even.
func (b *block) median(agent, scenario, figure string) (float64, bool) {
	xs := b.runs(agent, scenario, figure)
	if len(xs) == 0 {
		return 0, false
	}
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2, true
}

// ours is the agent that is held to the goals: the first that is neither the floor nor the kubelet.
func (b *block) ours() string {
	for _, a := range b.agents {
		if a != floorName && a != kubeletName {
			return a
		}
	}
	return ""
}
