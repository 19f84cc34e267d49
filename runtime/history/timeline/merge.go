package timeline

import (
	"slices"
)

// weight returns the rank of a class: what is more remarkable hides what is less.
func weight(c Class) int { return slices.Index(classes, c) }

// merge makes the picture coarser until at most limit events are left. First it drops events that begin or end no
// state, then the events that do; alerts stay longest. What is dropped is counted in spans of its lane. Only if more
// than limit states are left, neighbours in one lane that are shorter than the resolution become one.
func (b *builder) merge(limit int) {
	b.resolution = max(b.resolution, 1, 2*millis(b.clock.at)/float64(limit))
	for b.mergeLanes(); b.states() > limit && b.resolution < 2*millis(b.clock.at); {
		b.resolution *= 2
		b.mergeLanes()
	}
	alerts, bounds := 0, 0
	b.hold()
	for _, ev := range b.events {
		if ev.Alert {
			alerts++
		} else if ev.held {
			bounds++
		}
	}
	// A quarter stays free, or the next event would make it coarser again.
	room := max(1, limit-limit/4)
	for _, ev := range b.events {
		ev.held = ev.Alert || ev.held && alerts+bounds <= room
	}
	b.drop()
	if len(b.events) > limit {
		b.dropOldest(room)
	}
}

func (b *builder) mergeLanes() {
	for _, g := range b.groups {
		for _, l := range g.Lanes {
			if l.Kind == "events" || b.states() > b.o.Limit {
				l.merge(b.resolution)
			}
		}
	}
}

// states returns how many spans there are, without the spans that count events.
func (b *builder) states() int {
	n := 0
	for _, g := range b.groups {
		for _, l := range g.lanes {
			if l.Kind != "events" {
				n += len(l.Spans)
			}
		}
	}
	return n
}

// hold marks the events that begin or end a span.
func (b *builder) hold() {
	for _, ev := range b.events {
		ev.held = false
	}
	for _, g := range b.groups {
		for _, l := range g.lanes {
			for _, s := range l.Spans {
				if s.first != nil {
					s.first.held = true
				}
				if s.last != nil {
					s.last.held = true
				}
			}
		}
	}
}

// drop drops the events that are not held.
func (b *builder) drop() {
	for _, g := range b.groups {
		for _, l := range g.lanes {
			if len(l.events) > 0 {
				l.dropEvents(b.resolution)
			}
		}
	}
	b.sweep()
}

// sweep removes the events that are not held.
func (b *builder) sweep() {
	n := len(b.events)
	b.events = slices.DeleteFunc(b.events, func(ev *Event) bool { return !ev.held })
	b.merged += n - len(b.events)
}

// dropOldest is the last resort, for alerts without number: it drops the oldest events.
func (b *builder) dropOldest(room int) {
	cut := len(b.events) - room
	for i, ev := range b.events {
		ev.held = i >= cut
	}
	for _, g := range b.groups {
		for _, l := range g.lanes {
			l.events = slices.DeleteFunc(l.events, func(ev *Event) bool { return !ev.held })
		}
	}
	b.sweep()
}

// merge replaces runs of short spans by one each.
func (l *Lane) merge(resolution float64) {
	out := l.Spans[:0]
	for _, s := range l.Spans {
		n := len(out)
		if n == 0 || !mergeable(out[n-1], s, resolution) {
			out = append(out, s)
			continue
		}
		out[n-1] = join(out[n-1], s)
	}
	clear(l.Spans[len(out):])
	l.Spans = out
}

func mergeable(x, y *Span, resolution float64) bool {
	return !x.Open && !y.Open && !x.lapse && !y.lapse && max(x.End, y.End)-x.Begin < resolution
}

// join returns one span for two that follow each other. It is drawn as the more remarkable of both.
func join(x, y *Span) *Span {
	s := *x
	s.Count = max(1, x.Count) + max(1, y.Count)
	s.Queued, s.Cause = 0, 0
	if weight(y.Class) > weight(x.Class) {
		s.Class, s.Label, s.Text = y.Class, y.Label, y.Text
	}
	if y.End >= x.End {
		s.End, s.EndSeq, s.EndTime, s.last = y.End, max(x.EndSeq, y.EndSeq), y.EndTime, y.last
	}
	return &s
}

// dropEvents replaces the events of a lane that nothing holds by spans that count them.
func (l *Lane) dropEvents(resolution float64) {
	kept := l.events[:0]
	for _, ev := range l.events {
		if ev.held {
			kept = append(kept, ev)
			continue
		}
		if n := len(l.Spans); n > 0 && ev.At >= l.Spans[n-1].Begin && ev.At-l.Spans[n-1].Begin < resolution {
			s := l.Spans[n-1]
			s.Count++
			s.End, s.EndSeq, s.EndTime = max(s.End, ev.At), max(s.EndSeq, ev.Seq), ev.Time
			continue
		}
		s := newSpan(ev, ClassDone, "events", "")
		s.first, s.Cause, s.Count = nil, 0, 1
		s.finish(ev)
		s.last = nil
		l.Spans = append(l.Spans, s)
	}
	clear(l.events[len(kept):])
	l.events = kept
	slices.SortStableFunc(l.Spans, func(x, y *Span) int { return int(x.BeginSeq) - int(y.BeginSeq) })
}
