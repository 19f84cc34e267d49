package why

import (
	"fmt"
	"strings"
	"time"
)

// Style is how a line of text is to be shown where there are colours.
type Style int

// The styles.
const (
	Plain Style = iota
	Title
	Dim
	Alert
)

// TextLine is one line of an answer as text. It may hold control characters of containers, manifests and registries,
// which the caller quotes before it prints them.
type TextLine struct {
	Style Style
	Text  string
}

// Text returns the answer as text. Times are in the location of now, with the date unless it is now's date.
func (a *Answer) Text(now time.Time) []TextLine {
	t := &texter{now: now}
	if a.Pod == nil {
		t.record(a)
		return t.out
	}
	t.pod(a)
	return t.out
}

type texter struct {
	now time.Time
	out []TextLine
}

func (t *texter) add(style Style, format string, args ...any) {
	t.out = append(t.out, TextLine{style, strings.TrimRight(fmt.Sprintf(format, args...), " ")})
}

// clock formats a time of day, with the date unless it is today's.
func (t *texter) clock(at time.Time) string {
	at = at.In(t.now.Location())
	if at.YearDay() != t.now.YearDay() || at.Year() != t.now.Year() {
		return at.Format("2006-01-02 15:04:05.000")
	}
	return at.Format("15:04:05.000")
}

// pod formats the answer to a query about a pod.
func (t *texter) pod(a *Answer) {
	head := a.Pod.String() + " is " + a.State
	if a.Headline != "" {
		head = a.Headline + " at " + t.second(a.Since)
	} else {
		head += t.since(a.Since)
	}
	if a.Because != "" {
		head += ": " + a.Because
	}
	if !a.WaitsSince.IsZero() {
		head += "," + t.since(a.WaitsSince)
	}
	t.add(Title, "%s", head)
	if !a.Until.IsZero() {
		t.add(Title, "%s at %s%s", a.UntilWhat, t.second(a.Until), t.ahead(a.Until))
	}
	if len(a.Reasons) > 0 {
		t.add(Plain, "")
	}
	for _, l := range a.Reasons {
		t.add(Plain, "  %s  #%-6d %s", t.clock(l.Time), l.Seq, l.Text)
		t.data(l)
	}
	t.start(a)
	for _, c := range a.Chains {
		t.add(Plain, "")
		for _, d := range c.Decisions {
			t.add(Title, "#%d  %s  %s  %s", d.Seq, t.clock(d.Time), d.By, d.Text)
			t.data(d)
		}
		t.causes(c)
	}
}

// barWidth is the width of the bars of a start, in columns.
const barWidth = 40

// start formats where the time of a start went: a line a phase, its bar below the time of the whole start.
func (t *texter) start(a *Answer) {
	s := a.Start
	if s == nil {
		return
	}
	end := s.End
	if end.IsZero() {
		end = a.Time
	}
	whole := max(0, end.Sub(s.Begin)) // the clock may have been set back
	t.add(Plain, "")
	switch s.Outcome {
	case "":
		t.add(Plain, "Its start is under way for %s, since %s:", short(whole), t.clock(s.Begin))
	case "ready":
		t.add(Plain, "Its start took %s, from %s until it was ready:", short(whole), t.clock(s.Begin))
	default:
		t.add(Plain, "Its start took %s, from %s, and it was never ready (%s):", short(whole), t.clock(s.Begin), s.Outcome)
	}
	if whole < 10*time.Millisecond || len(s.Phases) == 0 {
		t.out[len(t.out)-1].Text = strings.TrimSuffix(t.out[len(t.out)-1].Text, ":") + "."
		return
	}
	wide := 0
	for _, p := range s.Phases {
		wide = max(wide, len(p.name()))
	}
	for _, p := range s.Phases {
		t.add(Plain, "  %-*s %7s  %s  %s", wide, p.name(), short(p.Took), bar(p, s.Begin, whole), p.detail())
	}
	if s.More > 0 {
		t.add(Dim, "  and %d shorter phases", s.More)
	}
}

func (p *Phase) name() string { return strings.TrimSpace(p.Kind + " " + p.Container) }

func (p *Phase) detail() string {
	if p.Waited < 100*time.Millisecond {
		return p.Text
	}
	return strings.TrimPrefix(p.Text+", waited "+short(p.Waited)+" for a slot", ", ")
}

// bar draws when a phase was within a start. What took any time at all is seen.
func bar(p Phase, begin time.Time, whole time.Duration) string {
	if whole <= 0 {
		return strings.Repeat(" ", barWidth)
	}
	at := func(d time.Duration) int { return int(min(max(d, 0), whole) * barWidth / whole) }
	from, to := at(p.Begin.Sub(begin)), at(p.Begin.Sub(begin)+p.Took)
	from = min(from, barWidth-1)
	to = max(to, from+1)
	return strings.Repeat("·", from) + strings.Repeat("█", to-from) + strings.Repeat("·", barWidth-to)
}

// since formats since when something is so, and how long that is.
func (t *texter) since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	if ago := t.now.Sub(at); ago >= 0 {
		return fmt.Sprintf(" since %s (%s)", t.second(at), short(ago))
	}
	return " since " + t.second(at)
}

func (t *texter) ahead(at time.Time) string {
	if left := at.Sub(t.now); left > 0 {
		return " (in " + short(left) + ")"
	}
	return ""
}

// second formats a time of day to the second.
func (t *texter) second(at time.Time) string {
	s := t.clock(at)
	return s[:len(s)-len(".000")]
}

// record formats the answer to a query about a record.
func (t *texter) record(a *Answer) {
	for i, c := range a.Chains {
		if i > 0 {
			t.add(Plain, "")
		}
		for _, d := range c.Decisions {
			t.add(Title, "#%d  %s  %s  %s", d.Seq, t.clock(d.Time), d.By, d.Text)
			t.data(d)
		}
		t.causes(c)
	}
}

// causes formats a chain of causes, each with the time that passed until what it led to.
func (t *texter) causes(c ChainAnswer) {
	after := c.Decisions[0].Time
	for _, l := range c.Causes {
		t.add(Plain, "  because  #%d  %s  %s%s", l.Seq, t.clock(l.Time), l.Text, earlier(after.Sub(l.Time)))
		t.data(l)
		after = l.Time
	}
	t.add(Dim, "  %s", c.End.Text)
}

func (t *texter) data(l Line) {
	if len(l.Data) > 0 {
		t.add(Dim, "      %s %s %s", l.Actor, l.Event, l.Data)
	}
}

// earlier formats how long before its effect a cause was, "" for less than a tenth of a second.
func earlier(d time.Duration) string {
	if d < 100*time.Millisecond {
		return ""
	}
	return ", " + short(d) + " before"
}

// short formats a duration: from an hour on in minutes, from ten seconds on in seconds, below in tenths of a second.
func short(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
