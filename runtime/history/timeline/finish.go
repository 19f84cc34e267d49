package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/journalet/journalet/messages"
)

// maxData bounds the fields of one event, in bytes.
const maxData = 8 << 10

// timeline returns the picture of what was added. The builder cannot be used afterwards.
func (b *builder) timeline() *Timeline {
	for _, s := range b.starts.Open() {
		b.started(s, true)
	}
	if len(b.events) > b.o.Limit {
		b.merge(b.o.Limit)
	}
	if b.from == nil {
		b.from = &beginning{time: b.clock.start, seq: b.last}
		if len(b.events) > 0 {
			b.from.seq = b.events[0].Seq
		}
	}
	t := &Timeline{
		FirstSeq: b.from.seq, LastSeq: b.last, FirstTime: b.from.time, LastTime: b.lastTime, Merged: b.merged,
		Length: round(millis(b.clock.at) - b.from.at), ClockSteps: []ClockStep{}, Notes: b.notes(),
	}
	for _, s := range b.clock.steps[b.from.steps:] {
		s.At = round(s.At - b.from.at)
		t.ClockSteps = append(t.ClockSteps, s)
	}
	b.cut(t.Length)
	for _, g := range b.groups {
		if g.Kind == NodeGroup || len(g.Lanes) > 0 {
			g.sort()
			t.Groups = append(t.Groups, g)
		}
	}
	b.number(t)
	return t
}

func (b *builder) notes() []string {
	notes := []string{}
	if b.merged > 0 {
		notes = append(notes, fmt.Sprintf("%d events are merged into spans that count them: the limit is %d events; "+
			"choose a pod or a shorter time to see each", b.merged, b.o.Limit))
	}
	if b.choice.part != nil {
		notes = append(notes, "the journal holds only some pods: records of others, and of the node, are missing")
	} else if b.missing > 0 {
		notes = append(notes, fmt.Sprintf("%d records are missing between the others", b.missing))
	}
	if b.pastPods > 0 {
		notes = append(notes, fmt.Sprintf("more than %d pods: the others are not shown", maxPods))
	}
	for _, g := range b.groups {
		if n := len(g.lanes) - len(g.Lanes); n > 0 {
			notes = append(notes, fmt.Sprintf("%s has %d more lanes, which are not shown", g.Name, n))
		}
	}
	return notes
}

// cut moves everything to the picture's beginning, and drops what ended before it.
func (b *builder) cut(length float64) {
	for _, ev := range b.events {
		ev.held = ev.Seq >= b.from.seq
	}
	for _, g := range b.groups {
		for _, l := range g.Lanes {
			l.Spans = slices.DeleteFunc(l.Spans, func(s *Span) bool {
				return !s.Open && (s.EndSeq < b.from.seq || s.End <= b.from.at && s.BeginSeq < b.from.seq)
			})
			for _, s := range l.Spans {
				s.cut(b.from.at, length)
			}
			l.events = slices.DeleteFunc(l.events, func(ev *Event) bool { return ev.Seq < b.from.seq })
		}
		g.Lanes = slices.DeleteFunc(g.Lanes, func(l *Lane) bool { return len(l.Spans)+len(l.events) == 0 })
	}
	b.events = slices.DeleteFunc(b.events, func(ev *Event) bool { return !ev.held })
	for _, ev := range b.events {
		ev.At = round(ev.At - b.from.at)
	}
}

func (s *Span) cut(from, length float64) {
	if s.Before = s.Begin < from; s.Before && s.first != nil {
		s.first.held = true
	}
	s.Begin = round(max(0, s.Begin-from))
	if s.Queued > 0 {
		s.Queued = round(max(0, s.Queued-from))
	}
	if s.Open {
		s.End = length
		return
	}
	s.End = round(max(s.Begin, s.End-from))
}

// number gives events their positions.
func (b *builder) number(t *Timeline) {
	t.Events = b.events
	if t.Events == nil {
		t.Events = []*Event{}
	}
	groups, events := map[*Group]int{}, map[*Event]int{}
	for i, g := range t.Groups {
		groups[g] = i
	}
	for i, ev := range t.Events {
		events[ev] = i
		if at, ok := groups[ev.group]; ok {
			ev.Group = at
		}
		ev.Data = ev.fields()
	}
	position := func(ev *Event) int {
		if i, ok := events[ev]; ok {
			return i
		}
		return -1
	}
	for _, g := range t.Groups {
		for _, l := range g.Lanes {
			for _, ev := range l.events {
				l.Marks = append(l.Marks, position(ev))
			}
			for _, s := range l.Spans {
				s.Event, s.EndEvent = position(s.first), position(s.last)
				if s.first == nil && s.Count == 0 { // a phase of a start, by the numbers of its records
					s.Event, s.EndEvent = b.at(s.BeginSeq, g), b.at(s.EndSeq, g)
				}
			}
		}
	}
}

// at returns the position of the first event of a record in a group, -1 for none.
func (b *builder) at(seq uint64, g *Group) int {
	i, _ := slices.BinarySearchFunc(b.events, seq, func(ev *Event, seq uint64) int { return int(ev.Seq) - int(seq) })
	for ; i < len(b.events) && b.events[i].Seq == seq; i++ {
		if b.events[i].group == g {
			return i
		}
	}
	return -1
}

// fields returns an event with the contract's field names.
func (ev *Event) fields() json.RawMessage {
	fd := messages.EventField(ev.event)
	if fd == nil {
		return nil
	}
	m := ev.event.ProtoReflect().Get(fd).Message().Interface()
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil
	}
	if len(b) > maxData {
		b, _ = json.Marshal(map[string]string{
			"cut": fmt.Sprintf("%d bytes: `journalet observe --from %d` shows all", len(b), ev.Seq),
		})
		return b
	}
	var out bytes.Buffer // its spaces differ from build to build
	if err := json.Compact(&out, b); err != nil {
		return nil
	}
	return out.Bytes()
}

func round(ms float64) float64 {
	return millis(time.Duration(ms * float64(time.Millisecond)).Round(time.Microsecond))
}
