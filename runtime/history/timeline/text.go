package timeline

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// TextOptions select how Text draws.
type TextOptions struct {
	// Width is the number of columns, at least MinWidth.
	Width int
	// ASCII draws with ASCII characters only.
	ASCII bool
	// Zone is the zone of times; nil: UTC.
	Zone *time.Location
}

// MinWidth is the least number of columns that Text draws in.
const MinWidth = 40

// Part is a piece of a line in one style: a Class, StyleDim, StyleBold, or none.
type Part struct{ Style, Text string }

// Styles beside the classes of spans.
const (
	StyleDim  = "dim"
	StyleBold = "bold"
)

// glyphs are the characters of the classes: Unicode, ASCII, and what the legend says. They differ in shape, so that a
// picture needs no colour.
var glyphs = map[Class][3]string{
	ClassDone:    {"─", "_", "ended"},
	ClassOK:      {"█", "#", "ready, running, passing"},
	ClassRun:     {"▓", "+", "running, not ready"},
	ClassWait:    {"░", ".", "waiting"},
	ClassBusy:    {"▒", "=", "in progress"},
	ClassStop:    {"▂", "\\", "stopping"},
	ClassDown:    {"·", ":", "not known"},
	ClassBackOff: {"╌", "-", "back-off"},
	ClassFail:    {"╳", "X", "failed, failing"},
}

const (
	// maxLabel bounds the width of the names of lanes, maxState the width of the newest states.
	maxLabel, maxState = 22, 18
	// legendGap is between two entries of the legend.
	legendGap = 3
	// maxPodRows bounds the pods of a node's picture.
	maxPodRows = 200
)

// text draws a timeline on lines.
type text struct {
	t     *Timeline
	o     TextOptions
	label int // columns of the names
	chart int // columns of the chart
	used  map[Class]bool
	rows  [][]Part
}

// Text draws the picture for a terminal: one lane a line, then what the letters mean, and a legend. Its texts may hold
// what containers wrote: quote control characters when you print them.
func (t *Timeline) Text(o TextOptions) [][]Part {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	x := &text{t: t, o: o, used: map[Class]bool{}}
	pods := t.Groups[min(1, len(t.Groups)):]
	lanes := x.lanes(pods)
	for _, l := range lanes {
		x.label = max(x.label, min(utf8.RuneCountInString(l.name), maxLabel))
	}
	x.chart = max(MinWidth, o.Width) - x.label - 2
	if x.chart > 3*maxState {
		x.chart -= maxState + 2
	}
	x.title(pods)
	x.axis()
	marks, row := x.marks()
	for i, l := range lanes {
		if i > 0 && l.bold {
			x.line()
		}
		x.lane(l)
	}
	if len(marks) > 0 {
		x.line(Part{"", pad("", x.label)}, Part{"", "  "}, Part{StyleBold, row})
	}
	x.letters(marks)
	x.starts(pods)
	x.legend()
	for _, n := range t.Notes {
		x.line(Part{StyleDim, "Note: " + n + "."})
	}
	return x.rows
}

func (x *text) line(parts ...Part) { x.rows = append(x.rows, parts) }

// textLane is a lane as a line.
type textLane struct {
	*Lane
	name string
	bold bool // the first of a group
}

// lanes returns the lanes to draw: all of a few pods, the phases of many.
func (x *text) lanes(pods []*Group) []textLane {
	var out []textLane
	node := x.t.Groups[0]
	for _, l := range node.Lanes {
		if l.Kind == "agent" || l.Kind == "runtime" || l.Kind == "quarantine" || l.Kind == "journal" ||
			l.Kind == "calls" && len(pods) != 1 {
			out = append(out, textLane{Lane: l, name: l.Name})
		}
	}
	if len(pods) > maxFullPods {
		for _, g := range pods[:min(len(pods), maxPodRows)] {
			for _, l := range g.Lanes {
				if l.Kind == "phase" {
					out = append(out, textLane{Lane: l, name: g.Name})
				}
			}
		}
		return out
	}
	for _, g := range pods {
		first := true
		for _, l := range g.Lanes {
			if l.Kind == "events" || l.Kind == "start" {
				continue
			}
			name := l.Name
			switch {
			case first && len(pods) > 1:
				name = g.Name
			case l.Kind == "probe":
				name = "  " + name
			}
			out = append(out, textLane{l, name, first})
			first = false
		}
	}
	return out
}

// maxFullPods is how many pods are drawn with all their lanes.
const maxFullPods = 4

func (x *text) title(pods []*Group) {
	name := "node " + x.t.Node
	switch {
	case len(pods) == 1:
		name = pods[0].Name
		if pods[0].UID != "" && pods[0].UID != name {
			name += "  UID " + pods[0].UID
		}
	case len(pods) > 0:
		name += fmt.Sprintf("  %d pods", len(pods))
	}
	x.line(Part{StyleBold, name})
	from, to := x.t.FirstTime.In(x.o.Zone), x.t.LastTime.In(x.o.Zone)
	format := "15:04:05"
	if from.Format(time.DateOnly) != to.Format(time.DateOnly) {
		format = "2006-01-02 15:04:05"
	}
	x.line(Part{StyleDim, fmt.Sprintf("%s to %s (%s), records #%d to #%d", from.Format("2006-01-02 15:04:05 MST"),
		to.Format(format), span(duration(x.t.Length)), x.t.FirstSeq, x.t.LastSeq)})
	x.line()
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// column returns the column of a place on the axis.
func (x *text) column(at float64) int {
	if x.t.Length <= 0 {
		return 0
	}
	return min(x.chart-1, max(0, int(at/x.t.Length*float64(x.chart))))
}

// lane draws one lane: in each column the most remarkable of its spans, and behind it the newest state.
func (x *text) lane(l textLane) {
	cells := make([]Class, x.chart)
	last := 0
	for _, s := range l.Spans {
		from, to := x.column(s.Begin), x.column(s.End)
		if to > from && float64(to)*x.t.Length/float64(x.chart) >= s.End {
			to-- // it ends where the column begins
		}
		for i := from; i <= to; i++ {
			if last = max(last, i); cells[i] == "" || weight(s.Class) > weight(cells[i]) {
				cells[i] = s.Class
			}
		}
	}
	n := len(l.Spans)
	labelled := n > 0 && l.Kind != "calls" && l.Kind != "journal" && l.Spans[n-1].Open &&
		x.label+2+x.chart+2 < x.o.Width
	style := ""
	if l.bold {
		style = StyleBold
	}
	parts := []Part{{style, pad(x.clip(l.name, x.label), x.label)}, {"", "  "}}
	if !labelled {
		cells = cells[:last+1]
	}
	for i := 0; i < len(cells); {
		j := i
		for j < len(cells) && cells[j] == cells[i] {
			j++
		}
		parts = append(parts, Part{string(cells[i]), strings.Repeat(x.glyph(cells[i]), j-i)})
		x.used[cells[i]] = true
		i = j
	}
	if labelled {
		room := x.o.Width - x.label - x.chart - 4
		parts = append(parts, Part{StyleDim, "  " + x.clip(l.Spans[n-1].Label, room)})
	}
	x.line(parts...)
}

func (x *text) glyph(c Class) string {
	if c == "" {
		return " "
	}
	if x.o.ASCII {
		return glyphs[c][1]
	}
	return glyphs[c][0]
}

func (x *text) legend() {
	var parts []Part
	for _, c := range slices.Backward(classes) {
		if x.used[c] {
			parts = append(parts, Part{string(c), x.glyph(c)}, Part{"", " " + glyphs[c][2]})
		}
	}
	if len(parts) == 0 {
		return
	}
	x.line()
	var line []Part
	columns := 0
	for i := 0; i < len(parts); i += 2 {
		n := utf8.RuneCountInString(parts[i].Text + parts[i+1].Text)
		if columns += n + legendGap; columns > x.o.Width+legendGap && len(line) > 0 {
			x.line(line...)
			line, columns = nil, n+legendGap
		}
		if len(line) > 0 {
			line = append(line, Part{"", strings.Repeat(" ", legendGap)})
		}
		line = append(line, parts[i], parts[i+1])
	}
	x.line(line...)
}

// clip cuts a text to a number of columns.
func (x *text) clip(s string, columns int) string {
	if utf8.RuneCountInString(s) <= columns {
		return s
	}
	dots := x.either("…", "...")
	return string([]rune(s)[:max(0, columns-utf8.RuneCountInString(dots))]) + dots
}

func pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(0, columns-utf8.RuneCountInString(s)))
}
