package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/journalet/journalet/test/criproxy"
	"github.com/journalet/journalet/test/measure"
)

func flagArgs() []string { return slices.Clone(flag.Args()) }

func sampleNow(agent int) sample {
	all, _ := measure.Busy() // 0 without /proc
	s := sample{all: all, runtime: zeroed(cpuOf(*rtpid)), measure: zeroed(cpuOf(os.Getpid()))}
	if agent > 0 {
		s.agent = zeroed(cpuOf(agent))
	}
	return s
}

func (s sample) since(t sample) sample {
	return sample{s.all - t.all, s.agent - t.agent, s.runtime - t.runtime, s.measure - t.measure}
}

func zeroed(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// crop removes records and calls from long after the container's start: the next relist, other calls.
func crop(s *podStart) {
	end := s.running.Add(40 * time.Millisecond)
	s.records = slices.DeleteFunc(s.records, func(r record) bool { return r.time.After(end) })
	s.calls = slices.DeleteFunc(s.calls, func(c criproxy.Call) bool { return c.Begin.After(end) })
}

// writeTrace prints a trace as Markdown tables.
func writeTrace(w io.Writer, one podStart, bursts ...burst) {
	one.write(w)
	for _, b := range bursts {
		used := b.used
		fmt.Fprintf(w, "\n%s: %d pods, last after %.2f s; calls that create: %.2f under way on average; CPU s: all %.2f, "+
			"agent %.2f, containerd %.2f, measuring %.2f, rest %.2f\n\n",
			b.name, *n, b.last.Seconds(), b.busy().Seconds()/b.last.Seconds(), used.all, used.agent, used.runtime, used.measure,
			used.all-used.agent-used.runtime-used.measure)
		lines := [][]string{{"call", "number", "a pod", "mean, ms", "sum, s", "failed"}}
		byMethod := map[string][]criproxy.Call{}
		for _, c := range b.calls {
			byMethod[c.Method] = append(byMethod[c.Method], c)
		}
		for _, m := range slices.Sorted(maps.Keys(byMethod)) {
			var sum time.Duration
			failed := 0
			for _, c := range byMethod[m] {
				sum += c.End.Sub(c.Begin)
				if c.Failed {
					failed++
				}
			}
			k := len(byMethod[m])
			lines = append(lines, []string{m, strconv.Itoa(k), fmt.Sprintf("%.2f", float64(k)/float64(*n)),
				fmt.Sprintf("%.1f", millis(sum)/float64(k)), fmt.Sprintf("%.2f", sum.Seconds()), strconv.Itoa(failed)})
		}
		writeMarkdown(w, lines)
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
