package picture

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/test/bench/criproxy"
)

// Record is a record of the agent's journal.
type Record struct {
	Seq    uint64
	Time   time.Time
	Events []string
}

// Start is one pod's way from its manifest to a running container.
type Start struct {
	Written time.Time // the manifest was put into the folder
	Running time.Time // the runtime's startedAt of the container
	Records []Record
	Calls   []criproxy.Call
	// Floor is how long the same pod takes by bare CRI calls, one after the other.
	Floor time.Duration
}

// Changes tells whether a call makes or starts something; the others look.
func Changes(method string) bool { return colourOf(method) != slate }

func colourOf(method string) string {
	switch method {
	case "RunPodSandbox":
		return blue
	case "CreateContainer":
		return violet
	case "StartContainer":
		return green
	}
	return slate
}

// Share says whose a pod's start time is: Runtime while a call is under way that changes something, Looks while one that
// only looks is and none of those, Ours while there is none.
func (s Start) Share() (runtime, looks, ours time.Duration) {
	for _, p := range s.parts() {
		d := p.end.Sub(p.begin)
		switch p.colour {
		case amber:
			ours += d
		case slate:
			looks += d
		default:
			runtime += d
		}
	}
	return runtime, looks, ours
}

// phases says in words where ours lies: before the manifest was read, before the first call, and between the calls.
func (s Start) phases() string {
	_, _, ours := s.Share()
	read, first := s.Written, s.Running
	if len(s.Records) > 0 {
		read = earlier(s.Records[0].Time, s.Running)
	}
	if len(s.Calls) > 0 {
		first = earlier(s.Calls[0].Begin, s.Running)
	}
	return fmt.Sprintf("ours: %s until the manifest is read, %s to the first call, %s between the calls",
		ms(read.Sub(s.Written)), ms(first.Sub(read)), ms(ours-first.Sub(s.Written)))
}

type part struct {
	begin, end time.Time
	colour     string
}

// parts cuts the time from Written to Running at every begin and end of a call.
func (s Start) parts() []part {
	cuts := []time.Time{s.Written, s.Running}
	for _, c := range s.Calls {
		for _, t := range []time.Time{c.Begin, c.End} {
			if t.After(s.Written) && t.Before(s.Running) {
				cuts = append(cuts, t)
			}
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	var out []part
	for i, end := range cuts[1:] {
		begin, colour := cuts[i], amber
		for _, c := range s.Calls {
			if !c.Begin.After(begin) && !c.End.Before(end) && (colour == amber || Changes(c.Method)) {
				colour = colourOf(c.Method)
			}
		}
		out = append(out, part{begin, end, colour})
	}
	return out
}

// entry is a line of the picture: a record, or a call.
type entry struct {
	at         time.Time
	label, tag string
	call       *criproxy.Call
}

func (s Start) entries() []entry {
	out := []entry{{at: s.Written, label: "manifest written"}, {at: s.Running, label: "container running (startedAt)"}}
	for _, r := range s.Records {
		out = append(out, entry{at: r.Time, tag: fmt.Sprintf("#%d", r.Seq), label: strings.Join(r.Events, ", ")})
	}
	for i := range s.Calls {
		out = append(out, entry{at: s.Calls[i].Begin, label: s.Calls[i].Method, call: &s.Calls[i]})
	}
	slices.SortStableFunc(out, func(a, b entry) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	return out
}

// WriteStart draws one pod's start.
func WriteStart(w io.Writer, s Start) error {
	const left, right, lineHeight = 372.0, width - margin, 18.0
	c := &canvas{
		title: "one pod alone: from its manifest to a running container",
		about: "A line for each record of the journal and each CRI call of one pod's start, in the order of time; what is nobody else's is ours.",
	}
	entries := s.entries()
	end := s.Running
	for _, e := range entries {
		end = later(end, e.at)
	}
	for _, call := range s.Calls {
		end = later(end, call.End)
	}
	span := end.Sub(s.Written) * 102 / 100
	x := func(t time.Time) float64 { return left + (right-left)*float64(t.Sub(s.Written))/float64(span) }

	runtime, looks, ours := s.Share()
	y := head + 28
	c.text(margin, y, 13, bright, fmt.Sprintf("%s in all: the runtime's %s, our looks at it %s, ours %s; bare CRI calls take %s",
		ms(s.Running.Sub(s.Written)), ms(runtime), ms(looks), ms(ours), ms(s.Floor)))
	y += 20
	c.text(margin, y, 13, plain, s.phases())
	y = c.legend(y+24, key{blue, "RunPodSandbox"}, key{violet, "CreateContainer"}, key{green, "StartContainer"},
		key{slate, "a call that only looks"}, key{amber, "ours: no call under way"}, key{bright, "record of the journal"})
	top := y
	bottom := top + float64(len(entries))*lineHeight + 30
	c.axis(left, right, top, bottom, span)
	for _, p := range s.parts() {
		if p.colour == amber {
			c.rect(x(p.begin), top, x(p.end)-x(p.begin), bottom-top, amber, 0.22)
		}
		c.rect(x(p.begin), top+4, x(p.end)-x(p.begin), 14, p.colour, 1)
	}
	c.text(margin, top+15, 12, faint, "whose time it is")
	y = top + 38
	for _, e := range entries {
		c.entry(e, x, y)
		y += lineHeight
	}
	return c.write(w, bottom+28)
}

func (c *canvas) entry(e entry, x func(time.Time) float64, y float64) {
	switch {
	case e.call != nil:
		c.text(margin+48, y, 12, colourOr(e.call.Method, plain), e.label+"  "+ms(e.call.End.Sub(e.call.Begin)))
		c.rect(x(e.call.Begin), y-9, x(e.call.End)-x(e.call.Begin), 10, colourOf(e.call.Method), 1)
	default:
		c.text(margin, y, 12, faint, e.tag)
		colour := plain
		if e.tag == "" {
			colour = amber
		}
		c.text(margin+48, y, 12, colour, e.label)
		c.rect(x(e.at)-1, y-10, 2, 12, bright, 1)
	}
}

func colourOr(method, look string) string {
	if Changes(method) {
		return colourOf(method)
	}
	return look
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
