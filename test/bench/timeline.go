package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/test/criproxy"
)

// record is one record of the agent's journal.
type record struct {
	seq    uint64
	time   time.Time
	events []string
}

// podStart is one pod's start, from its manifest to a running container.
type podStart struct {
	written time.Time // the manifest was put into the directory
	running time.Time // the runtime's startedAt of the container
	records []record
	calls   []criproxy.Call
	// floor is the time of the same pod by bare CRI calls, one after another.
	floor time.Duration
}

// changes reports whether a call creates or starts something. The others read.
func changes(method string) bool {
	return method == "RunPodSandbox" || method == "CreateContainer" || method == "StartContainer"
}

// share splits a pod's start time: runtime during calls that change something, reads during other calls, ours without a
// call.
func (s podStart) share() (runtime, reads, ours time.Duration) {
	cuts := []time.Time{s.written, s.running}
	for _, c := range s.calls {
		for _, t := range []time.Time{c.Begin, c.End} {
			if t.After(s.written) && t.Before(s.running) {
				cuts = append(cuts, t)
			}
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	for i, end := range cuts[1:] {
		part := &ours
		for _, c := range s.calls {
			switch {
			case c.Begin.After(cuts[i]) || c.End.Before(end):
			case changes(c.Method):
				part = &runtime
			case part == &ours:
				part = &reads
			}
		}
		*part += end.Sub(cuts[i])
	}
	return runtime, reads, ours
}

// phases splits ours into the time to the read of the manifest, to the first call, and between the calls.
func (s podStart) phases() string {
	_, _, ours := s.share()
	read, first := s.written, s.running
	if len(s.records) > 0 {
		read = earlier(s.records[0].time, s.running)
	}
	if len(s.calls) > 0 {
		first = earlier(s.calls[0].Begin, s.running)
	}
	return fmt.Sprintf("ours: %.1f ms until the manifest is read, %.1f to the first call, %.1f between the calls",
		millis(read.Sub(s.written)), millis(first.Sub(read)), millis(ours-first.Sub(s.written)))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// write prints the shares, and a line for each record and each call, ordered by time.
func (s podStart) write(w io.Writer) {
	runtime, reads, ours := s.share()
	fmt.Fprintf(w,
		"\none pod alone, ms: %.1f; calls that create %.1f, reads alone %.1f, ours %.1f; bare calls %.1f\n%s\n\n",
		millis(s.running.Sub(s.written)), millis(runtime), millis(reads), millis(ours), millis(s.floor), s.phases())
	type entry struct {
		at    time.Time
		cells []string // all but the time
	}
	entries := []entry{{s.written, []string{"", "", "manifest written"}},
		{s.running, []string{"", "", "container running (startedAt)"}}}
	for _, r := range s.records {
		entries = append(entries, entry{r.time, []string{"", fmt.Sprintf("#%d", r.seq), strings.Join(r.events, ", ")}})
	}
	for _, c := range s.calls {
		entries = append(entries, entry{c.Begin, []string{fmt.Sprintf("%.1f", millis(c.End.Sub(c.Begin))), "call", c.Method}})
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	lines := [][]string{{"at, ms", "took, ms", "record", "what"}}
	for _, e := range entries {
		lines = append(lines, append([]string{fmt.Sprintf("%.1f", millis(e.at.Sub(s.written)))}, e.cells...))
	}
	writeMarkdown(w, lines)
}

// sample holds the CPU time since the machine's start, in seconds of one core.
type sample struct{ all, agent, runtime, measure float64 }

// burst is the start of many pods at once, by one agent or none.
type burst struct {
	name  string
	begin time.Time
	last  time.Duration // until the last pod ran
	calls []criproxy.Call
	used  sample
}

// busy returns the summed time of the calls that create or start something, until the last pod ran.
func (b burst) busy() (sum time.Duration) {
	end := b.begin.Add(b.last)
	for _, c := range b.calls {
		if changes(c.Method) {
			sum += max(0, earlier(c.End, end).Sub(c.Begin))
		}
	}
	return sum
}
