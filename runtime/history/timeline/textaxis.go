package timeline

import (
	"fmt"
	"strings"
	"time"
)

// ticks are the distances between two ticks of the axis, with the form of their times.
var ticks = []struct {
	step time.Duration
	form string
}{
	{time.Millisecond, "15:04:05.000"}, {2 * time.Millisecond, "15:04:05.000"}, {5 * time.Millisecond, "15:04:05.000"},
	{10 * time.Millisecond, "15:04:05.000"}, {20 * time.Millisecond, "15:04:05.000"},
	{50 * time.Millisecond, "15:04:05.000"}, {100 * time.Millisecond, "15:04:05.000"},
	{200 * time.Millisecond, "15:04:05.000"}, {500 * time.Millisecond, "15:04:05.000"},
	{time.Second, "15:04:05"}, {2 * time.Second, "15:04:05"}, {5 * time.Second, "15:04:05"},
	{10 * time.Second, "15:04:05"}, {15 * time.Second, "15:04:05"}, {30 * time.Second, "15:04:05"},
	{time.Minute, "15:04"}, {2 * time.Minute, "15:04"}, {5 * time.Minute, "15:04"}, {10 * time.Minute, "15:04"},
	{15 * time.Minute, "15:04"}, {30 * time.Minute, "15:04"}, {time.Hour, "15:04"}, {2 * time.Hour, "15:04"},
	{3 * time.Hour, "15:04"}, {6 * time.Hour, "Jan 2 15:04"}, {12 * time.Hour, "Jan 2 15:04"},
	{24 * time.Hour, "Jan 2"}, {48 * time.Hour, "Jan 2"}, {7 * 24 * time.Hour, "Jan 2"},
	{28 * 24 * time.Hour, "2006-01-02"},
}

// axis draws the times and their ticks. A step of the clock is a mark of its own.
func (x *text) axis() {
	i := 0
	fits := func() bool {
		columns := float64(x.chart) * float64(ticks[i].step.Milliseconds()) / max(x.t.Length, 1)
		return columns >= float64(len(ticks[i].form)+2)
	}
	for i < len(ticks)-1 && !fits() {
		i++
	}
	step, form := ticks[i].step, ticks[i].form
	labels, line := []rune(strings.Repeat(" ", x.chart)), []rune(strings.Repeat(x.either("─", "-"), x.chart))
	free := 0
	put := func(column int, s string) {
		if column >= free && column+len(s) <= x.chart {
			copy(labels[column:], []rune(s))
			free = column + len(s) + 1
		}
	}
	_, zone := x.t.FirstTime.In(x.o.Zone).Zone()
	number := func(column int) int64 {
		at := recorded(x.t.FirstTime, x.t.ClockSteps, float64(column)*x.t.Length/float64(x.chart))
		return at.Add(time.Duration(zone)*time.Second).UnixNano() / int64(step)
	}
	put(0, x.t.FirstTime.In(x.o.Zone).Format(form))
	for c := 1; c < x.chart && x.t.Length > 0; c++ {
		if n := number(c); n != number(c-1) {
			line[c] = []rune(x.either("┬", "+"))[0]
			put(c, time.Unix(0, n*int64(step)).UTC().Format(form))
		}
	}
	for _, s := range x.t.ClockSteps {
		line[x.column(s.At)] = '!'
	}
	x.line(Part{"", pad("", x.label+2)}, Part{StyleDim, strings.TrimRight(string(labels), " ")})
	x.line(Part{"", pad("", x.label+2)}, Part{StyleDim, string(line)})
	if n := len(x.t.ClockSteps); n > 0 {
		s := x.t.ClockSteps[n-1]
		x.line(Part{"", pad("", x.label+2)}, Part{string(ClassDown), fmt.Sprintf("! the clock was set by %s at #%d",
			span(s.Shift), s.Seq)})
	}
}

func (x *text) either(unicode, ascii string) string {
	if x.o.ASCII {
		return ascii
	}
	return unicode
}

const (
	// maxLetters bounds the events that are listed below a picture; of more, firstLetters are the oldest.
	maxLetters, firstLetters = 16, 4
)

// mark is an event with a letter.
type mark struct {
	ev     *Event
	letter string
}

// marks chooses the events to list, and returns the line with their letters.
func (x *text) marks() ([]mark, string) {
	var all []*Event
	for _, ev := range x.t.Events {
		if ev.Group >= 0 && (ev.Alert || turningPoint(ev.event)) && !x.repeats(all, ev) {
			all = append(all, ev)
		}
	}
	if len(all) > maxLetters {
		var alerts []*Event
		for _, ev := range all {
			if ev.Alert {
				alerts = append(alerts, ev)
			}
		}
		if len(alerts) >= maxLetters/2 {
			all = alerts
		}
	}
	var out []mark
	row := []rune(strings.Repeat(" ", x.chart))
	for i, ev := range all {
		if len(all) > maxLetters && i >= firstLetters && i < len(all)-(maxLetters-firstLetters) {
			continue
		}
		m := mark{ev, string(rune('a' + len(out)))}
		out = append(out, m)
		c := x.column(ev.At)
		for c < x.chart-1 && row[c] != ' ' {
			c++
		}
		if row[c] == ' ' {
			row[c] = rune(m.letter[0])
		}
	}
	return out, strings.TrimRight(string(row), " ")
}

// repeats reports whether an event only repeats what is listed: a failed pull, and the decision for a pod that follows;
// an alert, and the status that it led to.
func (x *text) repeats(all []*Event, ev *Event) bool {
	status := ev.Alert && ev.event.GetPodStatusChanged() != nil
	for i := ev.Because; status && i >= 0; i = x.t.Events[i].Because {
		if x.t.Events[i].Alert {
			return true
		}
	}
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1]
	return last.Seq == ev.Seq && (last.Text == ev.Text || status && last.Alert) ||
		ev.event.GetImagePullDecided() != nil && last.Seq == ev.Cause
}

func (x *text) letters(marks []mark) {
	if len(marks) == 0 {
		return
	}
	x.line()
	form := "15:04:05.000"
	if x.t.Length > 24*time.Hour.Seconds()*1000 {
		form = "Jan 02 15:04:05"
	}
	several := len(x.t.Groups) > 2
	for i, m := range marks {
		text := m.ev.Text
		if several && m.ev.Group > 0 {
			text = x.t.Groups[m.ev.Group].Name + ": " + text
		}
		style := ""
		if m.ev.Alert {
			style = string(ClassFail)
		}
		head := fmt.Sprintf("  %s  %-6s  ", m.ev.Time.In(x.o.Zone).Format(form), fmt.Sprintf("#%d", m.ev.Seq))
		room := max(MinWidth, x.o.Width) - len(head) - 1
		x.line(Part{StyleBold, m.letter}, Part{StyleDim, head}, Part{style, x.clip(text, room)})
		if left := x.left(marks, i); left > 0 {
			x.line(Part{StyleDim, fmt.Sprintf("   %d more between", left)})
		}
	}
}

// left returns how many events of the listed kind are between a listed event and the next listed event.
func (x *text) left(marks []mark, i int) int {
	if i != firstLetters-1 || len(marks) < maxLetters {
		return 0
	}
	n := 0
	for _, ev := range x.t.Events {
		if ev.Group >= 0 && ev.Alert && ev.Seq > marks[i].ev.Seq && ev.Seq < marks[i+1].ev.Seq {
			n++
		}
	}
	return n
}

func (x *text) starts(pods []*Group) {
	if len(pods) > maxFullPods {
		return
	}
	first := true
	for _, g := range pods {
		for _, s := range g.Starts {
			if first {
				x.line()
				first = false
			}
			outcome := s.Outcome
			if outcome == "" {
				outcome = "not ready yet"
			}
			name := ""
			if len(pods) > 1 {
				name = " of " + g.Name
			}
			x.line(Part{"", fmt.Sprintf("Start%s at #%d: %s after %s", name, s.BeginSeq, outcome, span(duration(s.Took)))})
			if s.Text != "" {
				x.line(Part{StyleDim, "  " + x.clip(s.Text, max(MinWidth, x.o.Width)-2)})
			}
		}
	}
}
