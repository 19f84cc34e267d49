package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/journalet/journalet/test/bench/criproxy"
	"github.com/journalet/journalet/test/bench/exectrace"
	"github.com/journalet/journalet/test/bench/picture"
)

// sampleEvery is long enough that a process's ticks of 10 ms are a fine enough measure of it.
const sampleEvery = 200 * time.Millisecond

func cores() int { return runtime.NumCPU() }

func flagArgs() []string { return slices.Clone(flag.Args()) }

// sampleUntil notes who has used how much CPU, from now to the end of stop.
func sampleUntil(stop <-chan struct{}, agent int) []picture.Sample {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	out := []picture.Sample{sampleNow(agent)}
	for {
		select {
		case <-tick.C:
			out = append(out, sampleNow(agent))
		case <-stop:
			return append(out, sampleNow(agent))
		}
	}
}

func sampleNow(agent int) picture.Sample {
	s := picture.Sample{At: time.Now(), All: cpuOfAll(), Runtime: zeroed(cpuOf(*rtpid)), Measure: zeroed(cpuOf(os.Getpid()))}
	if agent > 0 {
		s.Agent = zeroed(cpuOf(agent))
	}
	return s
}

func zeroed(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// cpuOfAll gives the seconds that the machine's cores were not idle and not waiting for a disk, together.
func cpuOfAll() (seconds float64) {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(b, []byte("\n"))
	for i, f := range bytes.Fields(line) {
		// user nice system [idle iowait] irq softirq steal; what guests use is in user already.
		if i >= 1 && i <= 8 && i != 4 && i != 5 {
			x, _ := strconv.ParseFloat(string(f), 64)
			seconds += x / 100
		}
	}
	return seconds
}

// crop leaves out what came long after the container ran: the next relist, the runtime's other calls.
func crop(s *picture.Start) {
	end := s.Running.Add(40 * time.Millisecond)
	s.Records = slices.DeleteFunc(s.Records, func(r picture.Record) bool { return r.Time.After(end) })
	s.Calls = slices.DeleteFunc(s.Calls, func(c criproxy.Call) bool { return c.Begin.After(end) })
}

// tell writes what the pictures show in numbers.
func tell(w io.Writer, one picture.Start, p *exectrace.Profile, bursts ...picture.Burst) {
	rt, looks, ours := one.Share()
	fmt.Fprintf(w, "\none pod alone, ms: %.1f; calls that make %.1f, looks alone %.1f, ours %.1f; bare calls %.1f\n",
		millis(one.Running.Sub(one.Written)), millis(rt), millis(looks), millis(ours), millis(one.Floor))
	for _, b := range bursts {
		making, used := b.Making(), b.Used()
		fmt.Fprintf(w, "\n%s: %d pods, last after %.2f s; calls that make: %.2f under way on average; CPU s: all %.2f, agent %.2f, containerd %.2f, measuring %.2f, rest %.2f\n\n",
			b.Name, *n, b.Last.Seconds(), b.Busy(making).Seconds()/b.Last.Seconds(), used.All, used.Agent, used.Runtime, used.Measure,
			used.All-used.Agent-used.Runtime-used.Measure)
		lines := [][]string{{"call", "number", "a pod", "mean, ms", "sum, s", "failed"}}
		byMethod := map[string][]criproxy.Call{}
		for _, c := range b.Calls {
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
	fmt.Fprintf(w, "\nexecution trace of %.1f s: %d collections, stopped for %.1f ms\n\n", p.Span.Seconds(), p.Collections, millis(p.Stopped))
	lines := [][]string{{"part of the agent", "goroutines", "ran, ms", "waited for a core, ms", "in syscalls, ms"}}
	for _, g := range p.Groups {
		lines = append(lines, []string{g.Name, strconv.Itoa(g.Goroutines), fmt.Sprintf("%.0f", millis(g.Running)),
			fmt.Sprintf("%.0f", millis(g.Runnable)), fmt.Sprintf("%.0f", millis(g.Syscall))})
	}
	writeMarkdown(w, lines)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
