package picture

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/journalet/journalet/test/bench/criproxy"
)

// Sample is the CPU that was used since the machine's start, in seconds of one core.
type Sample struct {
	At                           time.Time
	All, Agent, Runtime, Measure float64
}

// Burst is many pods at once, by one agent or none.
type Burst struct {
	Name    string
	Begin   time.Time
	Last    time.Duration // until the last pod ran
	Calls   []criproxy.Call
	Samples []Sample
}

// Lanes lays calls into as few lanes as hold them without overlap. They must be sorted by their begin.
func Lanes(calls []criproxy.Call) [][]criproxy.Call {
	var lanes [][]criproxy.Call
	for _, c := range calls {
		at := slices.IndexFunc(lanes, func(l []criproxy.Call) bool { return !l[len(l)-1].End.After(c.Begin) })
		if at < 0 {
			at = len(lanes)
			lanes = append(lanes, nil)
		}
		lanes[at] = append(lanes[at], c)
	}
	return lanes
}

// Making are the calls that make or start something.
func (b Burst) Making() []criproxy.Call {
	return slices.DeleteFunc(slices.Clone(b.Calls), func(c criproxy.Call) bool { return !Changes(c.Method) })
}

// Looking are the others.
func (b Burst) Looking() []criproxy.Call {
	return slices.DeleteFunc(slices.Clone(b.Calls), func(c criproxy.Call) bool { return Changes(c.Method) })
}

// Busy is the sum of the time of calls, until the last pod ran.
func (b Burst) Busy(calls []criproxy.Call) (sum time.Duration) {
	end := b.Begin.Add(b.Last)
	for _, c := range calls {
		sum += max(0, earlier(c.End, end).Sub(c.Begin))
	}
	return sum
}

// Used is the CPU between the first and the last sample, in seconds of one core.
func (b Burst) Used() (s Sample) {
	if len(b.Samples) == 0 {
		return s
	}
	first, last := b.Samples[0], b.Samples[len(b.Samples)-1]
	return Sample{All: last.All - first.All, Agent: last.Agent - first.Agent, Runtime: last.Runtime - first.Runtime, Measure: last.Measure - first.Measure}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

const (
	fieldLeft  = 110.0
	fieldRight = width - margin
	laneHeight = 15.0
	cpuHeight  = 70.0
)

// WriteBurst draws bursts below each other, on one scale of time.
func WriteBurst(w io.Writer, pods, cores int, bursts ...Burst) error {
	c := &canvas{
		title: fmt.Sprintf("%d pods at once", pods),
		about: "For the agent and for bare CRI calls: which calls are under way at each moment, and who uses the machine's cores.",
	}
	var span time.Duration
	for _, b := range bursts {
		span = max(span, b.Last)
	}
	span = span * 102 / 100
	y := c.legend(head+26, key{blue, "RunPodSandbox"}, key{violet, "CreateContainer"}, key{green, "StartContainer"},
		key{slate, "calls that only look"})
	y = c.legend(y, key{red, "CPU: agent"}, key{teal, "containerd"}, key{faint, "this measuring"}, key{rule, "runc, CNI, shims, containers, kernel"})
	for _, b := range bursts {
		y = c.burst(b, y+14, span, cores)
	}
	return c.write(w, y)
}

func (c *canvas) burst(b Burst, y float64, span time.Duration, cores int) float64 {
	making, used := b.Making(), b.Used()
	lanes := Lanes(making)
	x := func(t time.Time) float64 {
		return fieldLeft + (fieldRight-fieldLeft)*float64(t.Sub(b.Begin))/float64(span)
	}
	heading := fmt.Sprintf("%s: last pod running after %.2f s; calls under way %.1f on average; CPU %.1f s",
		b.Name, b.Last.Seconds(), b.Busy(making).Seconds()/b.Last.Seconds(), used.All)
	if used.Agent > 0 {
		heading += fmt.Sprintf(", the agent's %.2f", used.Agent)
	}
	c.text(margin, y, 13, bright, heading)
	top := y + 10
	looks := top + float64(len(lanes))*laneHeight + 4
	base := looks + 12 + 8 + cpuHeight
	c.axis(fieldLeft, fieldRight, top, base, span)
	c.text(margin, top+12, 11, faint, "calls")
	c.text(margin, looks+9, 11, faint, "looks")
	c.text(margin, base-cpuHeight+10, 11, faint, fmt.Sprintf("%d cores", cores))
	fields := map[string]*boxes{blue: {}, violet: {}, green: {}, slate: {}}
	for n, lane := range lanes {
		for _, call := range lane {
			fields[colourOf(call.Method)].add(x(call.Begin), top+float64(n)*laneHeight, x(call.End)-x(call.Begin)-0.6, laneHeight-3)
		}
	}
	for _, call := range b.Looking() {
		if x(call.End) <= fieldRight {
			fields[slate].add(x(call.Begin), looks, x(call.End)-x(call.Begin), 10)
		}
	}
	for _, colour := range []string{blue, violet, green, slate} {
		c.boxes(fields[colour], colour)
	}
	c.cpu(b, x, base, cores)
	end := x(b.Begin.Add(b.Last))
	c.line(end, top, end, base, amber)
	return base + 36
}

// cpu draws who used the cores between two samples, each above the other.
func (c *canvas) cpu(b Burst, x func(time.Time) float64, base float64, cores int) {
	parts := map[string]*boxes{red: {}, teal: {}, faint: {}, rule: {}}
	for i := 1; i < len(b.Samples); i++ {
		from, to := b.Samples[i-1], b.Samples[i]
		seconds := to.At.Sub(from.At).Seconds()
		if seconds <= 0 || x(to.At) > fieldRight+1 {
			continue
		}
		y, rest := base, to.All-from.All
		for _, p := range []struct {
			colour string
			used   float64
		}{{red, to.Agent - from.Agent}, {teal, to.Runtime - from.Runtime}, {faint, to.Measure - from.Measure}, {rule, -1}} {
			used := max(0, min(p.used, rest))
			if p.colour == rule {
				used = rest
			}
			rest -= used
			h := cpuHeight * min(1, used/seconds/float64(cores))
			if y -= h; h > 0 {
				parts[p.colour].add(x(from.At), y, x(to.At)-x(from.At), h)
			}
		}
	}
	for _, colour := range []string{rule, faint, teal, red} {
		c.boxes(parts[colour], colour)
	}
}
