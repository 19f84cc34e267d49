package picture

import (
	"fmt"
	"io"
	"time"

	"github.com/journalet/journalet/test/bench/exectrace"
)

// groupColours are given to the groups in their order; there are at most as many parts.
var groupColours = []string{blue, green, violet, amber, red, teal, plain, faint, slate, rule}

// WriteExec draws what a program's goroutines did, by its parts. What was traced began and ended at these times of the trace.
func WriteExec(w io.Writer, title string, p *exectrace.Profile, begin, end time.Duration) error {
	c := &canvas{title: title, about: "Which parts of the agent run on the cores over time, and for how long their goroutines ran, waited for a core or were in system calls."}
	const left, right, height, rowHeight = 110.0, width - margin, 120.0, 22.0
	var running, most time.Duration
	sums := make([]time.Duration, int(p.Span/p.Bin)+1)
	for _, g := range p.Groups {
		running += g.Running
		for i, x := range g.Bins {
			sums[i] += x
			most = max(most, sums[i])
		}
	}
	y := head + 28
	c.text(margin, y, 13, bright, fmt.Sprintf("ran for %.2f s of a core in %.1f s; %d garbage collections; the world stopped for %s in all",
		running.Seconds(), p.Span.Seconds(), p.Collections, ms(p.Stopped)))
	top, base := y+16, y+16+height
	c.axis(left, right, top, base, p.Span)
	c.text(margin, top+10, 11, faint, fmt.Sprintf("%.2f cores", float64(most)/float64(p.Bin)))
	c.stack(p, left, right, base, height/float64(max(most, 1)))
	for _, t := range []time.Duration{begin, end} {
		x := left + (right-left)*float64(t)/float64(p.Span)
		c.line(x, top, x, base, bright)
	}
	c.text(margin, base-4, 11, faint, "burst: white")

	y = base + 50
	longest := time.Duration(1)
	for _, g := range p.Groups {
		longest = max(longest, g.Running+g.Runnable)
	}
	const names, bars = margin + 18, 400.0
	c.text(names, y, 11, faint, "part of the agent")
	c.anchored(300, y, 11, faint, "end", "goroutines")
	c.anchored(385, y, 11, faint, "end", "in syscalls")
	c.text(bars, y, 11, faint, "ran, and waited for a core (hollow)")
	for i, g := range p.Groups {
		y += rowHeight
		colour := groupColours[min(i, len(groupColours)-1)]
		c.rect(margin, y-9, 10, 10, colour, 1)
		c.text(names, y, 12, plain, g.Name)
		c.anchored(300, y, 12, faint, "end", fmt.Sprint(g.Goroutines))
		c.anchored(385, y, 12, faint, "end", ms(g.Syscall))
		scale := (right - bars - 190) / float64(longest)
		ran, waited := float64(g.Running)*scale, float64(g.Runnable)*scale
		c.rect(bars, y-9, ran, 10, colour, 1)
		c.rect(bars+max(ran, 0.8), y-9, waited, 10, colour, 0.35)
		c.text(bars+ran+waited+8, y, 12, faint, ms(g.Running)+" + "+ms(g.Runnable))
	}
	return c.write(w, y+22)
}

// stack draws the groups' running time above each other, a column a bin.
func (c *canvas) stack(p *exectrace.Profile, left, right, base, scale float64) {
	step := (right - left) * float64(p.Bin) / float64(p.Span)
	below := make([]float64, int(p.Span/p.Bin)+1)
	for i, g := range p.Groups {
		var b boxes
		for n, x := range g.Bins {
			if h := float64(x) * scale; h >= 0.3 {
				b.add(left+float64(n)*step, base-below[n]-h, min(step, right-left-float64(n)*step), h)
				below[n] += h
			}
		}
		c.boxes(&b, groupColours[min(i, len(groupColours)-1)])
	}
}
