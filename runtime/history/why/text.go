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

// Text returns the answer as text. Times are in the location of now, with the date unless it is that of now.
func (a *Answer) Text(now time.Time) []TextLine {
	t := &texter{now: now}
	if a.Pod == nil && len(a.Chains) > 0 {
		t.record(a)
		return t.out
	}
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

// record formats the answer to a query about a record.
func (t *texter) record(a *Answer) {
	for i, c := range a.Chains {
		if i > 0 {
			t.add(Plain, "")
		}
		for _, d := range c.Decisions {
			t.add(Title, "#%d  %s  %s  %s", d.Seq, t.clock(d.Time), d.Actor, d.Text)
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
